// How a line becomes a sequence of ids, for `predict`, by one rule for every task:
//
//   {"input": ...}   the line begins with {: a JSON object; "input" is a list of ids, or a string,
//                    which is text
//   [3, 1, 4]        it begins with [, and [ is no symbol of the task: a JSON list of ids
//   3 1 4            only digits and blanks, and either the task has no characters, or blanks stand
//                    between the digits and the blank is no symbol: ids
//   anything else    text: each character is a symbol; blanks that are no symbols are skipped
//
// So models of bytes, whose symbols are all bytes, read every line as text, apart from objects, and
// `12` is two characters for a task with characters and one id for a task without. --input ids,
// text or json takes the line as that whatever it looks like (json: an object, a list or a string).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/alphabet.h"

namespace longshot {

enum class LineForm : uint8_t { automatic, ids, text, json };

struct LineRules {
  Alphabet alphabet;
  int64_t ids = 0;  // 0 .. ids - 1
};

struct Line {
  std::vector<int32_t> tokens;
  bool text = false;
};

// Throws UsageError that says what is wrong and what would be right; never empty.
Line read_line(const std::string& line, const LineRules& rules,
               LineForm form = LineForm::automatic);

// A line of text or ids that read_line(.., automatic) reads as these ids: text where that is so,
// else ids with blanks between them, else {"input": ...}. No ids: an empty line.
std::string show_line(const std::vector<int32_t>& ids, const LineRules& rules);

// "3 1 4"
std::string joined(const std::vector<int32_t>& ids, const char* between = " ");

}  // namespace longshot
