// copy_repeat (causal): one random symbol n times, then the same again, `repeats` times: the model
// must only count. Kazemnejad et al. 2023 ("copy, repeat one token"). Layout and scoring:
// data/causal_task.h. Example: BEGIN c c c SEPARATOR c c c END.
#include "data/causal_task.h"

namespace longshot {
namespace {

struct CopyRepeatOptions : CausalOptions {
  int64_t symbols = 26;
  int64_t repeats = 1;
  void fields(FieldVisitor& visit) {
    visit.field("symbols", symbols, "different symbols", between(2, 65536));
    visit.field("repeats", repeats, "copies in the answer", between(1, 64));
    CausalOptions::fields(visit);
  }
};

class CopyRepeat : public CausalTask {
 public:
  explicit CopyRepeat(const CopyRepeatOptions& options)
      : CausalTask(options, options.symbols, letters(options.symbols), options.symbols),
        options_(options) {}

 protected:
  int64_t prompt_length(int64_t length) const override { return length; }
  int64_t answer_length(int64_t length) const override { return length * options_.repeats; }
  void make(RandomSequence& random, int64_t length, std::vector<int32_t>& prompt,
            std::vector<int32_t>& answer) const override {
    const int32_t symbol = int32_t(random.below(uint64_t(options_.symbols)));
    prompt.insert(prompt.end(), size_t(length), symbol);
    answer.insert(answer.end(), size_t(length * options_.repeats), symbol);
  }

 private:
  CopyRepeatOptions options_;
};

const RegisterType<Task, CopyRepeat, CopyRepeatOptions> kRegister{
    "copy_repeat", "one random symbol many times, repeated (causal)"};

}  // namespace
}  // namespace longshot
