// copy (causal): a string over `symbols` symbols, then the same string again, `repeats` times.
// Kazemnejad et al. 2023 ("copy" and "copy 2x"). Layout and scoring: data/causal_task.h.
// Example: BEGIN c a b SEPARATOR c a b END.
#include "data/causal_task.h"
#include "data/placeholder_task.h"

namespace longshot {
namespace {

struct CopyOptions : CausalOptions {
  int64_t symbols = 26;
  int64_t repeats = 1;
  void fields(FieldVisitor& visit) {
    visit.field("symbols", symbols, "different symbols", between(2, 65536));
    visit.field("repeats", repeats, "copies in the answer", between(1, 64));
    CausalOptions::fields(visit);
  }
};

class Copy : public CausalTask {
 public:
  explicit Copy(const CopyOptions& options)
      : CausalTask(options, options.symbols, letters(options.symbols), options.symbols),
        options_(options) {}

 protected:
  int64_t prompt_length(int64_t length) const override { return length; }
  int64_t answer_length(int64_t length) const override { return length * options_.repeats; }
  void make(RandomSequence& random, int64_t length, std::vector<int32_t>& prompt,
            std::vector<int32_t>& answer) const override {
    append_symbols(random, length, options_.symbols, prompt);
    for (int64_t copy = 0; copy < options_.repeats; ++copy)
      answer.insert(answer.end(), prompt.end() - length, prompt.end());
  }

 private:
  CopyOptions options_;
};

const RegisterType<Task, Copy, CopyOptions> kRegister{"copy", "a random string, repeated (causal)"};

}  // namespace
}  // namespace longshot
