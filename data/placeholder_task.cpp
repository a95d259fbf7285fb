#include "data/placeholder_task.h"

#include <algorithm>

#include "core/error.h"

namespace longshot {

TaskSpec placeholder_spec(const char* level, const char* input_symbols, const char* output_symbols,
                          int64_t guessed_symbols) {
  TaskSpec spec;
  spec.input_symbols = input_symbols;
  spec.output_symbols = output_symbols;
  spec.placeholder_token = int64_t(spec.input_symbols.size());
  spec.padding_token = spec.placeholder_token;  // padding is masked; no further id is needed
  spec.input_vocabulary = spec.placeholder_token + 1;
  spec.output_classes = int64_t(spec.output_symbols.size());
  spec.output = Output::placeholders;
  spec.level = level;
  spec.chance = 1.0 / double(guessed_symbols);
  spec.chance_reason = fmt::format("one of {} symbols guessed", guessed_symbols);
  return spec;
}

void append_bits(RandomSequence& random, int64_t count, std::vector<int32_t>& out) {
  while (count > 0) {
    uint32_t word = random.word();
    const int64_t taken = std::min<int64_t>(count, 32);
    for (int64_t i = 0; i < taken; ++i, word >>= 1) out.push_back(int32_t(word & 1));
    count -= taken;
  }
}

void append_symbols(RandomSequence& random, int64_t count, int64_t symbols,
                    std::vector<int32_t>& out) {
  for (int64_t i = 0; i < count; ++i) out.push_back(int32_t(random.below(uint64_t(symbols))));
}

void predict_terminated(const std::vector<int32_t>& digits, int32_t terminator, int64_t length,
                        Example& out) {
  LONGSHOT_CHECK(int64_t(digits.size()) < length,
                 "answer of {} symbols and a terminator does not fit into {} positions",
                 digits.size(), length);
  for (const int32_t digit : digits) out.predict(digit);
  out.predict(terminator);
  while (int64_t(out.target.size()) < length) out.predict(0, false);
}

}  // namespace longshot
