// What the fuzzer does with bytes taken for a safetensors file: the reader must refuse them with a
// UsageError or hand out entries that tile the data exactly; what it accepted must come through
// the writer and the reader again unchanged.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "core/error.h"
#include "train/safetensors.h"

namespace longshot::fuzz {

inline void require_that(bool condition) {
  if (!condition) std::abort();
}

// Every byte of every tensor is read, so that a span outside the file meets the sanitizer.
inline uint64_t check_entries(const SafetensorsFile& file) {
  uint64_t next = 0, sum = 0;
  for (const SafetensorsEntry& entry : file.entries()) {
    require_that(entry.begin == next && entry.end >= entry.begin);
    next = entry.end;
    require_that(file.find(entry.name) == &entry);
    uint64_t elements = 1;
    for (const int64_t extent : entry.shape) {
      require_that(extent >= 0);
      elements *= uint64_t(extent);
    }
    const auto bytes = file.bytes(entry);
    require_that(elements * uint64_t(safetensors_bits(entry.dtype)) == 8 * uint64_t(bytes.size()));
    for (const std::byte byte : bytes) sum += uint64_t(byte);
  }
  return sum;
}

// `path`: where to write what was accepted; empty to leave that out.
inline void safetensors(const uint8_t* data, size_t size, const std::string& path) {
  try {
    const SafetensorsFile file =
        SafetensorsFile::parse(std::string(reinterpret_cast<const char*>(data), size), "input");
    const uint64_t sum = check_entries(file);
    if (path.empty()) return;
    std::vector<SafetensorsTensor> tensors;
    for (const SafetensorsEntry& entry : file.entries())
      tensors.push_back({entry.name, entry.dtype, entry.shape, file.bytes(entry)});
    write_safetensors(path, tensors, file.metadata());
    const SafetensorsFile again = SafetensorsFile::open(path);
    require_that(again.metadata() == file.metadata());
    require_that(again.entries().size() == file.entries().size());
    require_that(check_entries(again) == sum);
    for (const SafetensorsEntry& entry : file.entries()) {
      const SafetensorsEntry* copy = again.find(entry.name);
      require_that(copy != nullptr && copy->dtype == entry.dtype && copy->shape == entry.shape);
    }
  } catch (const UsageError&) {
  }
}

}  // namespace longshot::fuzz
