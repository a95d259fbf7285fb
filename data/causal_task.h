// What the step-by-step tasks of Kazemnejad et al. 2023 share: a causal model reads a prompt and
// then writes the answer, one token after another. Trained with teacher forcing,
//
//   input    BEGIN p_1 .. p_k SEPARATOR a_1 .. a_(m-1)
//   target   the last m positions: a_1 .. a_m, a_m = END; nothing on the prompt
//
// Score: the whole answer right (exact match). Under teacher forcing that is the same as under
// greedy decoding: if every a_j is the most probable token after the true prefix, then greedy
// decoding reproduces the true prefix step by step and never leaves it; and the first j where it is
// not is also where greedy decoding, on the same prefix until then, goes wrong.
//
// Ids: the task's symbols, then END, BEGIN, SEPARATOR, PADDING. Classes: the symbols and END.
// BEGIN gives a causal model without positional encoding something to count from.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/task.h"

namespace longshot {

struct CausalOptions {
  bool end_token = true;
  void fields(FieldVisitor& visit);
};

class CausalTask : public Task {
 public:
  // `characters` names the symbols, one each; "" where there are more symbols than characters.
  // A guess is drawn from `guessed` symbols.
  CausalTask(const CausalOptions& options, int64_t symbols, std::string characters,
             int64_t guessed);

  TaskSpec spec() const override { return spec_; }
  int64_t input_length(int64_t length) const override {
    return 2 + prompt_length(length) + output_length(length) - 1;
  }
  int64_t output_length(int64_t length) const override {
    return answer_length(length) + (options_.end_token ? 1 : 0);
  }
  // That of the shortest example whose prompt is as long: prompts that no example has (operands of
  // unequal length) are answered too.
  int64_t answer_tokens(int64_t prompt) const override;
  void example(const ExampleKey& key, Example& out) const override;

 protected:
  // For answers whose length the prompt's length does not tell (then answer_length is the most).
  void answer_length_varies() { spec_.answer_length_known = false; }
  virtual int64_t prompt_length(int64_t length) const = 0;
  virtual int64_t answer_length(int64_t length) const = 0;
  // Appends the prompt's and the answer's symbols.
  virtual void make(RandomSequence& random, int64_t length, std::vector<int32_t>& prompt,
                    std::vector<int32_t>& answer) const = 0;

 private:
  CausalOptions options_;
  int32_t end_, begin_, separator_;
  TaskSpec spec_;
};

// The first `count` of a-z A-Z 0-9, or "" when there are not that many.
std::string letters(int64_t count);

}  // namespace longshot
