// Random arithmetic expressions with brackets, modulo 5, of an exact length (Deletang et al. 2023):
//
//   length 1: d    2: -d    3: (d)    4: (-d)
//   n >= 5:   ( L op R ),  |L| uniform in 1 .. n - 4,  |R| = n - 3 - |L|,  op uniform
//
// with d uniform in 0 .. 4. Every operand is a digit, a negated digit or bracketed, so precedence
// never matters.
#pragma once

#include <cstdint>
#include <vector>

#include "core/random.h"

namespace longshot {

// Token ids of the signs; digits are 0 .. 4.
struct BracketSymbols {
  int32_t plus, minus, times, open, close;
  bool use_times;  // op from {+, -, *}, otherwise from {+, -}
};

// Appends the expression's tokens and returns its value, 0 .. 4.
int32_t append_bracket_expression(RandomSequence& random, int64_t length,
                                  const BracketSymbols& symbols, std::vector<int32_t>& out);

}  // namespace longshot
