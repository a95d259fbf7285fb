// safetensors files: named arrays behind a JSON header, the format every framework reads.
//
//   8 bytes little-endian N | N bytes of JSON | data
//   {"__metadata__": {text: text}, "name": {"dtype": "F32", "shape": [..], "data_offsets": [begin,
//   end]}}
//
// The reader believes nothing: sizes, offsets (no holes, no overlaps), shapes and types are checked
// before use, and nothing larger than the file is ever allocated. Format:
// github.com/huggingface/safetensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace longshot {

struct SafetensorsEntry {
  std::string name;
  std::string dtype;            // "F32", "F64", "I64", ...
  std::vector<int64_t> shape;   // any rank
  uint64_t begin = 0, end = 0;  // bytes within the data
};

class SafetensorsFile {
 public:
  // Reads and checks the header. UsageError naming the file, and the tensor where one is at fault.
  static SafetensorsFile open(const std::string& path);
  // The same for bytes in memory (tests, fuzzing); `label` stands for the path in messages.
  static SafetensorsFile parse(std::string bytes, const std::string& label);

  const std::string& path() const { return path_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  const std::vector<SafetensorsEntry>& entries() const { return entries_; }  // by offset
  const SafetensorsEntry* find(std::string_view name) const;
  std::span<const std::byte> bytes(const SafetensorsEntry& entry) const;

 private:
  void check();
  std::string path_;
  std::string content_;
  uint64_t data_begin_ = 0;
  std::map<std::string, std::string> metadata_;
  std::vector<SafetensorsEntry> entries_;
};

struct SafetensorsTensor {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;
};
// Written aside and renamed. Tensors are ordered by the width of their type, then by name.
void write_safetensors(const std::string& path, std::vector<SafetensorsTensor> tensors,
                       const std::map<std::string, std::string>& metadata);

// Bits of one element, 0 for an unknown type name.
int64_t safetensors_bits(std::string_view dtype);

}  // namespace longshot
