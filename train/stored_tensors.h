// Between tensors and safetensors files: what checkpoints and training states share.
//
// A file proves itself: its metadata hold "sha256", the SHA-256 of
//   every other metadata entry, by key:  key \n value \n
//   every tensor, by name:               name \n dtype \n extents joined by "," \n bytes
// so that numbers changed after it was written are found, and another program may order it anew.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/tensor.h"
#include "train/safetensors.h"

namespace longshot {

const char* safetensors_type(DType type);
std::vector<int64_t> extents(const Shape& shape);
std::vector<std::byte> bytes_of(const Tensor& tensor);

// write_safetensors with "sha256" added to the metadata.
void write_proven(const std::string& path, std::vector<SafetensorsTensor> tensors,
                  std::map<std::string, std::string> metadata);
// UsageError when the contents are not what "sha256" says; a file without one (of another program,
// or of an earlier version) passes. `way_out`: what to do about it.
void check_contents(const SafetensorsFile& file, std::string_view way_out);
// The number after `name` in the metadata "format", 0 where another program wrote the file.
// UsageError when it is above `newest`.
int64_t format_of(const SafetensorsFile& file, std::string_view name, int64_t newest);

// UsageError naming the tensor when it is missing or has another shape.
const SafetensorsEntry& wanted_entry(const SafetensorsFile& file, const std::string& name,
                                     const Shape& shape);
// The entry's numbers as `type`. Halves (F16, BF16) and F32 widen exactly, F64 is rounded to F32.
// UsageError for every other type.
std::vector<std::byte> bytes_as(const SafetensorsFile& file, const SafetensorsEntry& entry,
                                DType type);

}  // namespace longshot
