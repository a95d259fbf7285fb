// even_pairs (regular): is the number of adjacent unequal pairs in a bit string even?
// The class is that number mod 2, which equals first XOR last: 0 = even. One answer.
// Deletang et al. 2023, Ruoss et al. 2023.
// Example: 0 1 1 0 has the unequal pairs 01 and 10, two of them: class 0.
#include "data/placeholder_task.h"

namespace longshot {
namespace {

class EvenPairs : public Task {
 public:
  explicit EvenPairs(const NoTaskOptions&) {}

  TaskSpec spec() const override { return placeholder_spec("R", "01", "01", 2); }
  int64_t output_length(int64_t) const override { return 1; }

  void example(const ExampleKey& key, Example& out) const override {
    out.clear();
    RandomSequence random = example_random(key);
    append_bits(random, key.length, out.input);
    out.predict(out.input.front() ^ out.input.back());
  }
};

const RegisterType<Task, EvenPairs, NoTaskOptions> kRegister{
    "even_pairs", "is the number of unequal neighbours in a bit string even? (regular)"};

}  // namespace
}  // namespace longshot
