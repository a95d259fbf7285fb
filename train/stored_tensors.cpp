#include "train/stored_tensors.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>

#include "core/context.h"
#include "core/error.h"
#include "train/sha256.h"

namespace longshot {
namespace {

constexpr const char* kHashKey = "sha256";

void add_text(Sha256& hash, std::string_view text) {
  hash.add(std::as_bytes(std::span(text)));
}

std::string hash_of(const std::map<std::string, std::string>& metadata,
                    std::vector<SafetensorsTensor> tensors) {
  Sha256 hash;
  for (const auto& [key, value] : metadata)
    if (key != kHashKey) add_text(hash, fmt::format("{}\n{}\n", key, value));
  std::sort(tensors.begin(), tensors.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  for (const SafetensorsTensor& tensor : tensors) {
    std::string shape;
    for (const int64_t extent : tensor.shape)
      shape += (shape.empty() ? "" : ",") + std::to_string(extent);
    add_text(hash, fmt::format("{}\n{}\n{}\n", tensor.name, tensor.dtype, shape));
    hash.add(tensor.bytes);
  }
  return hash.hex();
}

float from_bfloat(uint16_t bits) {
  return std::bit_cast<float>(uint32_t(bits) << 16);
}

// IEEE 754 binary16: sign, 5 bits of exponent (bias 15), 10 bits of fraction.
float from_half(uint16_t bits) {
  const uint32_t sign = uint32_t(bits >> 15) << 31;
  uint32_t exponent = (bits >> 10) & 31, fraction = bits & 1023;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | fraction << 13);
  if (exponent == 0) {  // zero, or fraction * 2^-24
    const float value = float(fraction) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(value));
  }
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
}

template <class From, class To, class Convert>
std::vector<std::byte> convert_all(std::span<const std::byte> bytes, Convert convert) {
  const size_t count = bytes.size() / sizeof(From);
  std::vector<std::byte> result(count * sizeof(To));
  for (size_t i = 0; i < count; ++i) {
    From from;
    std::memcpy(&from, bytes.data() + i * sizeof(From), sizeof(From));
    const To to = To(convert(from));
    std::memcpy(result.data() + i * sizeof(To), &to, sizeof(To));
  }
  return result;
}

template <class To>
std::vector<std::byte> converted(const std::string& dtype, std::span<const std::byte> bytes) {
  const auto same = [](auto value) { return value; };
  if (dtype == "F16") return convert_all<uint16_t, To>(bytes, from_half);
  if (dtype == "BF16") return convert_all<uint16_t, To>(bytes, from_bfloat);
  if (dtype == "F32") return convert_all<float, To>(bytes, same);
  return convert_all<double, To>(bytes, same);
}

}  // namespace

const char* safetensors_type(DType type) {
  return type == DType::f64 ? "F64" : "F32";
}

std::vector<int64_t> extents(const Shape& shape) {
  std::vector<int64_t> result;
  for (int i = 0; i < shape.rank(); ++i) result.push_back(shape[i]);
  return result;
}

std::vector<std::byte> bytes_of(const Tensor& tensor) {
  std::vector<std::byte> bytes(static_cast<size_t>(tensor.elements() * size_of(tensor.dtype())));
  if (!bytes.empty())
    tensor.context().backend().copy_to_host(bytes.data(), tensor.data(), bytes.size());
  return bytes;
}

void write_proven(const std::string& path, std::vector<SafetensorsTensor> tensors,
                  std::map<std::string, std::string> metadata) {
  metadata[kHashKey] = hash_of(metadata, tensors);
  write_safetensors(path, std::move(tensors), metadata);
}

void check_contents(const SafetensorsFile& file, std::string_view way_out) {
  const auto stored = file.metadata().find(kHashKey);
  if (stored == file.metadata().end()) return;
  std::vector<SafetensorsTensor> tensors;
  for (const SafetensorsEntry& entry : file.entries())
    tensors.push_back({entry.name, entry.dtype, entry.shape, file.bytes(entry)});
  if (hash_of(file.metadata(), std::move(tensors)) != stored->second)
    throw UsageError(fmt::format(
        "{}: its contents were changed after it was written (they do not have the SHA-256 that "
        "its metadata give); {}",
        file.path(), way_out));
}

int64_t format_of(const SafetensorsFile& file, std::string_view name, int64_t newest) {
  const auto found = file.metadata().find("format");
  if (found == file.metadata().end() || !found->second.starts_with(std::string(name) + " "))
    return 0;
  const std::string number = found->second.substr(name.size() + 1);
  int64_t format = 0;
  const char* end = number.data() + number.size();
  const auto read = std::from_chars(number.data(), end, format);
  if (read.ec != std::errc() || read.ptr != end || format < 1)
    throw UsageError(
        fmt::format("{}: its format \"{}\" is not \"{} N\"", file.path(), found->second, name));
  if (format > newest) {
    const auto version = file.metadata().find("longshot_version");
    throw UsageError(fmt::format(
        "{}: \"{} {}\" was written by a later version{}; this one (" LONGSHOT_VERSION
        ") reads it up to format {}",
        file.path(), name, format,
        version == file.metadata().end() ? "" : ", longshot " + version->second, newest));
  }
  return format;
}

const SafetensorsEntry& wanted_entry(const SafetensorsFile& file, const std::string& name,
                                     const Shape& shape) {
  const SafetensorsEntry* entry = file.find(name);
  if (entry == nullptr)
    throw UsageError(fmt::format("{}: tensor \"{}\" is missing", file.path(), name));
  if (entry->shape != extents(shape)) {
    std::string got;
    for (int64_t extent : entry->shape) got += (got.empty() ? "" : ", ") + std::to_string(extent);
    throw UsageError(fmt::format("{}: tensor \"{}\" has shape ({}), this model needs {}",
                                 file.path(), name, got, shape.to_string()));
  }
  return *entry;
}

std::vector<std::byte> bytes_as(const SafetensorsFile& file, const SafetensorsEntry& entry,
                                DType type) {
  const auto bytes = file.bytes(entry);
  if (entry.dtype == safetensors_type(type)) return {bytes.begin(), bytes.end()};
  if (entry.dtype != "F16" && entry.dtype != "BF16" && entry.dtype != "F32" &&
      entry.dtype != "F64") {
    throw UsageError(fmt::format(
        "{}: tensor \"{}\" holds {}, this model needs {} (F16, BF16 and F64 are converted)",
        file.path(), entry.name, entry.dtype, safetensors_type(type)));
  }
  return type == DType::f64 ? converted<double>(entry.dtype, bytes)
                            : converted<float>(entry.dtype, bytes);
}

}  // namespace longshot
