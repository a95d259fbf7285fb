#include "data/alphabet.h"

#include <algorithm>

#include "core/error.h"

namespace longshot {
namespace {

// Bytes of the character that begins a text, 0 where it is no UTF-8.
size_t character_size(std::string_view text) {
  const uint8_t lead = uint8_t(text[0]);
  const size_t size = lead < 0x80                   ? 1
                      : lead >= 0xC2 && lead < 0xE0 ? 2
                      : lead >= 0xE0 && lead < 0xF0 ? 3
                      : lead >= 0xF0 && lead < 0xF5 ? 4
                                                    : 0;
  if (size == 0 || size > text.size()) return 0;
  for (size_t k = 1; k < size; ++k)
    if ((uint8_t(text[k]) & 0xC0) != 0x80) return 0;
  return size;
}

int32_t code_point(std::string_view character) {
  if (character.size() == 1) return uint8_t(character[0]);
  uint32_t point = uint8_t(character[0]) & (0x7Fu >> character.size());
  for (size_t k = 1; k < character.size(); ++k)
    point = point << 6 | (uint8_t(character[k]) & 0x3Fu);
  return int32_t(point);
}

std::string quoted(std::string_view character) {
  const uint8_t byte = uint8_t(character[0]);
  if (character.size() == 1 && (byte < 0x20 || byte >= 0x7F))
    return fmt::format("'\\x{:02x}'", byte);
  return fmt::format("'{}'", character);
}

}  // namespace

bool append_code_points(std::string_view text, std::vector<int32_t>& points) {
  while (!text.empty()) {
    const size_t size = character_size(text);
    if (size == 0) return false;
    points.push_back(code_point(text.substr(0, size)));
    text.remove_prefix(size);
  }
  return true;
}

bool is_valid_utf8(std::string_view text) {
  std::vector<int32_t> points;
  return append_code_points(text, points);
}

std::string to_utf8(int32_t point) {
  const uint32_t p = uint32_t(point);
  if (p < 0x80) return {char(p)};
  if (p < 0x800) return {char(0xC0 | p >> 6), char(0x80 | (p & 0x3F))};
  if (p < 0x10000)
    return {char(0xE0 | p >> 12), char(0x80 | (p >> 6 & 0x3F)), char(0x80 | (p & 0x3F))};
  return {char(0xF0 | p >> 18), char(0x80 | (p >> 12 & 0x3F)), char(0x80 | (p >> 6 & 0x3F)),
          char(0x80 | (p & 0x3F))};
}

Alphabet::Alphabet(const std::string& bytes, const std::vector<int32_t>& points)
    : bytes_(points.empty()) {
  if (bytes_)
    for (const char byte : bytes) characters_.emplace_back(1, byte);
  else
    for (const int32_t point : points) characters_.push_back(to_utf8(point));
  for (size_t id = 0; id < characters_.size(); ++id) ids_.emplace(characters_[id], int32_t(id));
}

std::string_view Alphabet::character(int32_t id) const {
  return id >= 0 && id < size() ? std::string_view(characters_[size_t(id)]) : std::string_view();
}

std::optional<int32_t> Alphabet::find(std::string_view character) const {
  const auto found = ids_.find(std::string(character));
  if (found == ids_.end()) return std::nullopt;
  return found->second;
}

std::vector<int32_t> Alphabet::ids(std::string_view text) const {
  std::vector<int32_t> result;
  while (!text.empty()) {
    // A byte that is no UTF-8 is named as a byte.
    const size_t whole = every_byte() ? 1 : std::max<size_t>(character_size(text), 1);
    const std::string_view character = text.substr(0, whole);
    if (const auto found = find(character))
      result.push_back(*found);
    else if (character != " " && character != "\t")
      throw UsageError(empty() ? fmt::format("{} is text, and this task has no characters: give "
                                             "token ids",
                                             quoted(character))
                               : fmt::format("{} is not one of this task's symbols ({})",
                                             quoted(character), listed()));
    text.remove_prefix(whole);
  }
  return result;
}

std::optional<std::string> Alphabet::text(std::span<const int32_t> ids) const {
  std::string result;
  for (const int32_t id : ids) {
    if (id < 0 || id >= size()) return std::nullopt;
    result += characters_[size_t(id)];
  }
  return result;
}

std::string Alphabet::name(int32_t id) const {
  const std::string_view shown = character(id);
  return shown.empty() ? std::to_string(id) : fmt::format("{} ({})", quoted(shown), id);
}

std::string Alphabet::listed() const {
  if (every_byte()) return "all bytes";
  std::string result;
  for (size_t id = 0; id < characters_.size() && id < 64; ++id) result += characters_[id];
  return characters_.size() > 64 ? result + "..." : result;
}

}  // namespace longshot
