// Alphabet: the characters that ids stand for, both ways. Tasks over bytes have all 256 of them;
// others have one ASCII character an id, or any code points (an alphabet that a file brought).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace longshot {

class Alphabet {
 public:
  Alphabet() = default;  // ids have no characters
  // One byte an id, or, where `points` is not empty, one code point an id.
  explicit Alphabet(const std::string& bytes, const std::vector<int32_t>& points = {});

  bool empty() const { return size() == 0; }
  int64_t size() const { return int64_t(characters_.size()); }
  bool every_byte() const { return bytes_ && size() == 256; }
  std::optional<int32_t> find(std::string_view character) const;
  // The character of an id, as UTF-8 (a byte as it is); "" for ids beyond the last one.
  std::string_view character(int32_t id) const;

  // One id a character. Where blanks and tabs are no characters of the alphabet, they are skipped.
  // Throws UsageError naming the first character that is not in the alphabet.
  std::vector<int32_t> ids(std::string_view text) const;
  // Nothing when an id has no character.
  std::optional<std::string> text(std::span<const int32_t> ids) const;
  // For a message: '(' (40), '\x0a' (10); 17 without a character.
  std::string name(int32_t id) const;
  // All of them in a row, for a message; the first 64 of many.
  std::string listed() const;

 private:
  bool bytes_ = false;
  std::vector<std::string> characters_;
  std::map<std::string, int32_t> ids_;
};

// Code points of UTF-8, appended; false, with what came before appended, where it is none.
bool append_code_points(std::string_view text, std::vector<int32_t>& points);
std::string to_utf8(int32_t code_point);
bool is_valid_utf8(std::string_view text);

}  // namespace longshot
