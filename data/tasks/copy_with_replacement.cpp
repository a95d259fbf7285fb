// copy_with_replacement (causal): one random symbol n times, where each place is replaced, with
// probability `replace`, by another symbol drawn uniformly; then the same string again, `repeats`
// times. Between copy_repeat (replace = 0) and copy: long runs with a few landmarks.
// Kazemnejad et al. 2023 ("copy, repeat with changes"; they do not say how often, so the fraction
// is an option). Layout and scoring: data/causal_task.h.
// Example: BEGIN c c a c SEPARATOR c c a c END.
#include "data/causal_task.h"

namespace longshot {
namespace {

struct CopyWithReplacementOptions : CausalOptions {
  int64_t symbols = 26;
  int64_t repeats = 1;
  double replace = 0.2;
  void fields(FieldVisitor& visit) {
    visit.field("symbols", symbols, "different symbols", between(2, 65536));
    visit.field("repeats", repeats, "copies in the answer", between(1, 64));
    visit.field("replace", replace, "probability that a place holds another symbol",
                between(0.0, 1.0));
    CausalOptions::fields(visit);
  }
};

class CopyWithReplacement : public CausalTask {
 public:
  explicit CopyWithReplacement(const CopyWithReplacementOptions& options)
      : CausalTask(options, options.symbols, letters(options.symbols), options.symbols),
        options_(options) {}

 protected:
  int64_t prompt_length(int64_t length) const override { return length; }
  int64_t answer_length(int64_t length) const override { return length * options_.repeats; }
  void make(RandomSequence& random, int64_t length, std::vector<int32_t>& prompt,
            std::vector<int32_t>& answer) const override {
    const int64_t symbol = int64_t(random.below(uint64_t(options_.symbols)));
    for (int64_t i = 0; i < length; ++i) {
      int64_t here = symbol;
      if (random.uniform() < options_.replace)  // 1 .. symbols - 1 further on: never the same
        here = (symbol + random.between(1, options_.symbols - 1)) % options_.symbols;
      prompt.push_back(int32_t(here));
    }
    for (int64_t copy = 0; copy < options_.repeats; ++copy)
      answer.insert(answer.end(), prompt.end() - length, prompt.end());
  }

 private:
  CopyWithReplacementOptions options_;
};

const RegisterType<Task, CopyWithReplacement, CopyWithReplacementOptions> kRegister{
    "copy_with_replacement", "one symbol many times with changes, repeated (causal)"};

}  // namespace
}  // namespace longshot
