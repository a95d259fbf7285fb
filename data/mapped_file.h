// A file's bytes, read-only, mapped into memory: a corpus of any size costs no copy and no memory
// of its own. The file must not shrink while it is mapped.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace longshot {

class MappedFile {
 public:
  MappedFile() = default;  // no bytes
  // Throws UsageError naming the path if it is missing, unreadable or not a regular file. An
  // empty file has no bytes.
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const uint8_t> bytes() const { return {data_, size_}; }

 private:
  const uint8_t* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace longshot
