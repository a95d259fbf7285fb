#include "data/causal_task.h"

#include <algorithm>
#include <utility>

#include "core/error.h"

namespace longshot {

void CausalOptions::fields(FieldVisitor& visit) {
  visit.field("end_token", end_token, "the answer ends with a token that must be predicted too");
}

CausalTask::CausalTask(const CausalOptions& options, int64_t symbols, std::string characters,
                       int64_t guessed)
    : options_(options),
      end_(int32_t(symbols)),
      begin_(int32_t(symbols + 1)),
      separator_(int32_t(symbols + 2)) {
  spec_.input_vocabulary = symbols + 4;
  spec_.output_classes = symbols + 1;
  spec_.padding_token = symbols + 3;
  spec_.begin_token = begin_;
  spec_.separator_token = separator_;
  spec_.end_token = options.end_token ? end_ : -1;
  spec_.output = Output::per_token;
  spec_.causal = true;
  spec_.exact_match = true;
  spec_.chance = 1.0 / double(guessed);
  spec_.chance_reason = fmt::format("a token of the answer: one of {} symbols guessed", guessed);
  spec_.input_symbols = characters;
  spec_.output_symbols = std::move(characters);
}

int64_t CausalTask::answer_tokens(int64_t prompt) const {
  // The least n with prompt_length(n) >= prompt; prompt_length(n) >= n.
  int64_t low = 1, high = std::max<int64_t>(prompt, 1);
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (prompt_length(middle) >= prompt)
      high = middle;
    else
      low = middle + 1;
  }
  return output_length(low);
}

void CausalTask::example(const ExampleKey& key, Example& out) const {
  out.clear();
  RandomSequence random = example_random(key);
  std::vector<int32_t> answer;
  out.input.push_back(begin_);
  make(random, key.length, out.input, answer);
  out.input.push_back(separator_);
  if (options_.end_token) answer.push_back(end_);
  out.input.insert(out.input.end(), answer.begin(), answer.end() - 1);
  for (const int32_t symbol : answer) out.predict(symbol);
}

std::string letters(int64_t count) {
  const std::string all = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
  return count <= int64_t(all.size()) ? all.substr(0, size_t(count)) : "";
}

}  // namespace longshot
