// Files that are never half written: bytes go to a temporary file in the same folder, which is
// flushed to the disk and renamed over the target. A kill at any moment leaves the old file or the
// new one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace longshot {

class AtomicFile {
 public:
  // Throws Error with the system's reason when the folder cannot be written.
  explicit AtomicFile(std::string path);
  ~AtomicFile();  // without commit(): the temporary file is removed, the target untouched
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(const void* data, size_t bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }
  void commit();

 private:
  std::string path_, temporary_;
  int descriptor_ = -1;
};

void write_file_atomically(const std::string& path, std::string_view content);
// Removes temporary files that killed processes of this machine left in a folder.
void remove_abandoned_files(const std::string& folder);
std::string read_file(const std::string& path);  // Error naming the path and the system's reason
bool file_exists(const std::string& path);

}  // namespace longshot
