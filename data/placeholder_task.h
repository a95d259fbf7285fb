// What the fifteen string tasks of Deletang et al. 2023 / Ruoss et al. 2023 share: the model sees
// x_1 .. x_n and then m copies of one extra token, and answers at those m positions, all at once
// (no autoregression). Cross-entropy over every answer position, filler after a terminator
// included; accuracy per token, and not beyond the first terminator where there is one.
//
// Where the authors' code and their paper differ, the tasks follow the code, because the
// published numbers come from it; each file says so where it matters.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/task.h"

namespace longshot {

// `input_symbols` and `output_symbols` have one character per id; the placeholder gets the id after
// the last input symbol. `chance` is 1 / (symbols a guess would be drawn from).
TaskSpec placeholder_spec(const char* level, const char* input_symbols, const char* output_symbols,
                          int64_t guessed_symbols);

// Appends `count` uniform bits, 32 from each random word.
void append_bits(RandomSequence& random, int64_t count, std::vector<int32_t>& out);
// Appends `count` uniform symbols 0 .. symbols - 1.
void append_symbols(RandomSequence& random, int64_t count, int64_t symbols,
                    std::vector<int32_t>& out);

// Targets `digits`, then the terminator, then zeros up to `length` positions. What follows the
// terminator takes part in the loss and not in the accuracy.
void predict_terminated(const std::vector<int32_t>& digits, int32_t terminator, int64_t length,
                        Example& out);

}  // namespace longshot
