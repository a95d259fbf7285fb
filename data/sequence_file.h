// The user's own sequences: JSON lines, one object a line with "input" and "target".
//
//   {"input": [3, 1, 4], "target": [1, 4, 1]}     token ids
//   {"input": "abc", "target": "cba"}             strings, by byte or by character
//   {"input": [3, 1, 4], "target": 1}             one class
//
// A target id of -1 means: no loss here. Other keys of an object are ignored, empty lines skipped.
// Whatever is wrong with a line is a UsageError "file:line: ...".
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace longshot {

struct SequenceRecord {
  size_t input_begin = 0, input_size = 0;  // in SequenceSet::ids
  size_t target_begin = 0, target_size = 0;
  int64_t line = 0;
};

struct SequenceSet {
  std::string file;
  std::vector<int32_t> ids;  // of characters: the code points
  std::vector<SequenceRecord> records;
  bool string_input = false, string_target = false;

  std::span<const int32_t> input(const SequenceRecord& record) const {
    return std::span(ids).subspan(record.input_begin, record.input_size);
  }
  std::span<const int32_t> target(const SequenceRecord& record) const {
    return std::span(ids).subspan(record.target_begin, record.target_size);
  }
  // Throws UsageError at the record's line.
  [[noreturn]] void fail(const SequenceRecord& record, const std::string& what) const;
};

// What the number of targets must be.
enum class TargetShape : uint8_t {
  per_token,  // as many as the input has tokens
  single,     // one
  any,        // at least one
};

// Ids go up to this: beyond it, a vocabulary would be a mistake rather than a model.
inline constexpr int64_t kLargestId = (int64_t(1) << 24) - 1;

SequenceSet parse_sequences(std::string_view text, const std::string& file, TargetShape shape,
                            bool strings_by_character);

// Replaces code points by their rank among all that occur in `sets` where strings were read by
// character, and returns the sorted code points. Inputs and targets share the alphabet.
std::vector<int32_t> map_characters(std::vector<SequenceSet>& sets);

}  // namespace longshot
