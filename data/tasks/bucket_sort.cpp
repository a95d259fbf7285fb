// bucket_sort (context-sensitive): a string over 0 .. 4, sorted ascending: m = n answers.
// Deletang et al. 2023, Ruoss et al. 2023. (The causal, step by step variant is task "sorting".)
// Example: 3 0 2 0 gives 0 0 2 3.
#include "data/placeholder_task.h"

namespace longshot {
namespace {

class BucketSort : public Task {
 public:
  explicit BucketSort(const NoTaskOptions&) {}

  TaskSpec spec() const override { return placeholder_spec("CS", "01234", "01234", 5); }
  int64_t output_length(int64_t length) const override { return length; }

  void example(const ExampleKey& key, Example& out) const override {
    out.clear();
    RandomSequence random = example_random(key);
    append_symbols(random, key.length, 5, out.input);
    int64_t count[5] = {};
    for (const int32_t symbol : out.input) ++count[symbol];
    for (int32_t symbol = 0; symbol < 5; ++symbol)
      for (int64_t i = 0; i < count[symbol]; ++i) out.predict(symbol);
  }
};

const RegisterType<Task, BucketSort, NoTaskOptions> kRegister{
    "bucket_sort", "a string over five symbols, sorted (context-sensitive)"};

}  // namespace
}  // namespace longshot
