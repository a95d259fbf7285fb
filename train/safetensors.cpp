#include "train/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "core/error.h"
#include "core/files.h"

namespace longshot {
namespace {

static_assert(std::endian::native == std::endian::little,
              "safetensors data is little-endian and is used as it lies in the file");

using Json = nlohmann::json;

constexpr uint64_t kLargestHeader = 100'000'000;
// More than any real header needs. A list takes 16 bytes an element in memory and as little as two
// in the file, so without a limit a small file could ask for much.
constexpr int64_t kLargestList = 64;
constexpr size_t kDeepestNesting = 16;  // 3 are header, tensor, shape; fields of others are skipped

// In ascending rank: the order the reference implementation sorts by.
constexpr std::pair<const char*, int> kTypes[] = {
    {"BOOL", 8},        {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"U8", 8},
    {"I8", 8},          {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8},
    {"F8_E5M2FNUZ", 8}, {"I16", 16},    {"U16", 16},    {"F16", 16},    {"BF16", 16},
    {"I32", 32},        {"U32", 32},    {"F32", 32},    {"C64", 64},    {"F64", 64},
    {"I64", 64},        {"U64", 64}};

int rank_of(std::string_view dtype) {
  for (size_t i = 0; i < std::size(kTypes); ++i)
    if (dtype == kTypes[i].first) return int(i);
  return -1;
}

bool multiply(uint64_t a, uint64_t b, uint64_t& product) {
  return !__builtin_mul_overflow(a, b, &product);
}

}  // namespace

int64_t safetensors_bits(std::string_view dtype) {
  const int rank = rank_of(dtype);
  return rank < 0 ? 0 : kTypes[rank].second;
}

SafetensorsFile SafetensorsFile::open(const std::string& path) {
  std::string content;
  try {
    content = read_file(path);
  } catch (const FileError& error) {
    if (error.of_the_disk()) throw;
    throw UsageError(error.what());
  }
  return parse(std::move(content), path);
}

SafetensorsFile SafetensorsFile::parse(std::string bytes, const std::string& label) {
  SafetensorsFile file;
  file.path_ = label;
  file.content_ = std::move(bytes);
  file.check();
  return file;
}

void SafetensorsFile::check() {
  const auto fail = [&](const std::string& reason) -> void {
    throw UsageError(fmt::format("{}: not a usable safetensors file: {}", path_, reason));
  };
  if (content_.size() < 8) fail(fmt::format("{} bytes is too short for a header", content_.size()));
  uint64_t header_size;
  std::memcpy(&header_size, content_.data(), 8);
  if (header_size > kLargestHeader)
    fail(fmt::format("a header of {} bytes is too large", header_size));
  if (header_size > content_.size() - 8)
    fail(fmt::format("the header claims {} bytes, the file holds {}", header_size,
                     content_.size() - 8));
  data_begin_ = 8 + header_size;

  Json header;
  std::vector<std::set<std::string>> keys;  // of the objects open at the moment
  std::string duplicate;
  std::vector<int64_t> open;  // what is open: elements so far of a list, -1 for an object
  try {
    header = Json::parse(
        content_.data() + 8, content_.data() + data_begin_,
        [&](int, Json::parse_event_t event, Json& parsed) {
          using Event = Json::parse_event_t;
          const bool opens = event == Event::object_start || event == Event::array_start;
          const bool closes = event == Event::object_end || event == Event::array_end;
          const bool element =
              (opens || event == Event::value) && !open.empty() && open.back() >= 0;
          if (closes) open.pop_back();
          if (element && ++open.back() > kLargestList) fail("a list in the header is too long");
          if (opens) open.push_back(event == Event::array_start ? 0 : -1);
          if (open.size() > kDeepestNesting) fail("the header is nested too deeply");
          if (event == Event::object_start) keys.emplace_back();
          if (event == Event::object_end) keys.pop_back();
          if (event == Event::key && !keys.back().insert(parsed.get<std::string>()).second) {
            duplicate = parsed.get<std::string>();
          }
          return true;
        });
  } catch (const Json::exception& error) {
    fail(fmt::format("the header is not JSON ({})", error.what()));
  }
  if (!duplicate.empty()) fail(fmt::format("\"{}\" stands twice in the header", duplicate));
  if (!header.is_object()) fail("the header is not a JSON object");

  for (const auto& [name, value] : header.items()) {
    if (name == "__metadata__") {
      if (value.is_null()) continue;  // none, as the reference reader takes it
      if (!value.is_object()) fail("__metadata__ is not an object");
      for (const auto& [key, text] : value.items()) {
        if (!text.is_string()) fail(fmt::format("metadata \"{}\" is not text", key));
        metadata_[key] = text.get<std::string>();
      }
      continue;
    }
    const auto wrong = [&, &name = name](const std::string& reason) {
      fail(fmt::format("tensor \"{}\": {}", name, reason));
    };
    // Further fields are skipped, as the reference reader does.
    if (!value.is_object() || !value.contains("dtype") || !value.contains("shape") ||
        !value.contains("data_offsets")) {
      wrong("needs dtype, shape and data_offsets");
    }
    SafetensorsEntry entry;
    entry.name = name;
    if (!value["dtype"].is_string()) wrong("dtype is not text");
    entry.dtype = value["dtype"].get<std::string>();
    const int64_t bits = safetensors_bits(entry.dtype);
    if (bits == 0) wrong(fmt::format("unknown dtype \"{}\"", entry.dtype));
    const Json& offsets = value["data_offsets"];
    if (!offsets.is_array() || offsets.size() != 2 || !offsets[0].is_number_unsigned() ||
        !offsets[1].is_number_unsigned()) {
      wrong("data_offsets are not two whole numbers");
    }
    entry.begin = offsets[0].get<uint64_t>();
    entry.end = offsets[1].get<uint64_t>();
    if (!value["shape"].is_array()) wrong("shape is not a list");
    uint64_t elements = 1;
    for (const Json& extent : value["shape"]) {
      if (!extent.is_number_unsigned()) wrong("shape holds something that is not a whole number");
      const uint64_t size = extent.get<uint64_t>();
      if (size > uint64_t(INT64_MAX) || !multiply(elements, size, elements))
        wrong("the shape's product overflows");
      entry.shape.push_back(int64_t(size));
    }
    uint64_t total_bits;
    if (!multiply(elements, uint64_t(bits), total_bits)) wrong("the shape's product overflows");
    if (total_bits % 8 != 0) wrong("its size is not a whole number of bytes");
    if (entry.end < entry.begin || entry.end - entry.begin != total_bits / 8) {
      wrong(fmt::format("shape and dtype need {} bytes, data_offsets [{}, {}] do not hold that",
                        total_bits / 8, entry.begin, entry.end));
    }
    entries_.push_back(std::move(entry));
  }
  std::sort(entries_.begin(), entries_.end(), [](const auto& a, const auto& b) {
    return a.begin != b.begin ? a.begin < b.begin
           : a.end != b.end   ? a.end < b.end
                              : a.name < b.name;
  });
  uint64_t next = 0;
  for (const SafetensorsEntry& entry : entries_) {
    if (entry.begin != next) {
      fail(fmt::format("tensor \"{}\" begins at byte {} of the data, {} was expected ({})",
                       entry.name, entry.begin, next,
                       entry.begin < next ? "an overlap" : "a hole"));
    }
    next = entry.end;
  }
  if (next != content_.size() - data_begin_) {
    fail(fmt::format("the tensors take {} bytes, the file holds {}", next,
                     content_.size() - data_begin_));
  }
}

const SafetensorsEntry* SafetensorsFile::find(std::string_view name) const {
  for (const SafetensorsEntry& entry : entries_)
    if (entry.name == name) return &entry;
  return nullptr;
}

std::span<const std::byte> SafetensorsFile::bytes(const SafetensorsEntry& entry) const {
  return std::as_bytes(std::span(content_))
      .subspan(data_begin_ + entry.begin, entry.end - entry.begin);
}

void write_safetensors(const std::string& path, std::vector<SafetensorsTensor> tensors,
                       const std::map<std::string, std::string>& metadata) {
  std::sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) {
    const int rank_a = rank_of(a.dtype), rank_b = rank_of(b.dtype);
    return rank_a != rank_b ? rank_a > rank_b : a.name < b.name;
  });
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  uint64_t offset = 0;
  for (const SafetensorsTensor& tensor : tensors) {
    LONGSHOT_CHECK(!header.contains(tensor.name), "{}: tensor \"{}\" written twice", path,
                   tensor.name);
    header[tensor.name] = {{"dtype", tensor.dtype},
                           {"shape", tensor.shape},
                           {"data_offsets", {offset, offset + tensor.bytes.size()}}};
    offset += tensor.bytes.size();
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  LONGSHOT_CHECK(text.size() <= kLargestHeader, "{}: a header of {} bytes is too large", path,
                 text.size());
  const uint64_t size = text.size();
  AtomicFile file(path);
  file.write(&size, sizeof size);
  file.write(text);
  for (const SafetensorsTensor& tensor : tensors)
    file.write(tensor.bytes.data(), tensor.bytes.size());
  file.commit();
}

}  // namespace longshot
