// sorting (causal): a random string over `symbols` ordered symbols, then the same symbols in
// ascending order. Kazemnejad et al. 2023 (single tokens, alphabet of 50). Layout and scoring:
// data/causal_task.h. (Answered all at once over placeholders: task "bucket_sort".)
// Example: BEGIN 7 2 7 0 SEPARATOR 0 2 7 7 END.
#include <algorithm>

#include "data/causal_task.h"
#include "data/placeholder_task.h"

namespace longshot {
namespace {

struct SortingOptions : CausalOptions {
  int64_t symbols = 50;
  void fields(FieldVisitor& visit) {
    visit.field("symbols", symbols, "different symbols", between(2, 65536));
    CausalOptions::fields(visit);
  }
};

class Sorting : public CausalTask {
 public:
  explicit Sorting(const SortingOptions& options)
      : CausalTask(options, options.symbols, letters(options.symbols), options.symbols),
        symbols_(options.symbols) {}

 protected:
  int64_t prompt_length(int64_t length) const override { return length; }
  int64_t answer_length(int64_t length) const override { return length; }
  void make(RandomSequence& random, int64_t length, std::vector<int32_t>& prompt,
            std::vector<int32_t>& answer) const override {
    append_symbols(random, length, symbols_, prompt);
    answer.assign(prompt.end() - length, prompt.end());
    std::sort(answer.begin(), answer.end());
  }

 private:
  int64_t symbols_;
};

const RegisterType<Task, Sorting, SortingOptions> kRegister{
    "sorting", "a random string, sorted step by step (causal)"};

}  // namespace
}  // namespace longshot
