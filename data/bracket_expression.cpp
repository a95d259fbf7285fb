#include "data/bracket_expression.h"

#include "core/error.h"

namespace longshot {

int32_t append_bracket_expression(RandomSequence& random, int64_t length,
                                  const BracketSymbols& symbols, std::vector<int32_t>& out) {
  LONGSHOT_CHECK(length >= 1, "bracket expression: length {}", length);
  if (length <= 4) {
    const int32_t digit = int32_t(random.below(5));
    const bool bracketed = length >= 3, negated = length == 2 || length == 4;
    if (bracketed) out.push_back(symbols.open);
    if (negated) out.push_back(symbols.minus);
    out.push_back(digit);
    if (bracketed) out.push_back(symbols.close);
    return negated ? (5 - digit) % 5 : digit;
  }
  const int64_t left_length = random.between(1, length - 4);
  const int64_t right_length = length - 3 - left_length;
  out.push_back(symbols.open);
  const int32_t left = append_bracket_expression(random, left_length, symbols, out);
  const int64_t op = int64_t(random.below(symbols.use_times ? 3 : 2));
  out.push_back(op == 0 ? symbols.plus : op == 1 ? symbols.minus : symbols.times);
  const int32_t right = append_bracket_expression(random, right_length, symbols, out);
  out.push_back(symbols.close);
  return op == 0 ? (left + right) % 5 : op == 1 ? (left + 5 - right) % 5 : left * right % 5;
}

}  // namespace longshot
