// parity_check (regular): the number of ones in a bit string, mod 2. One answer.
// Deletang et al. 2023, Ruoss et al. 2023.
// Example: 1 0 1 1 has three ones: class 1.
#include "data/placeholder_task.h"

namespace longshot {
namespace {

class ParityCheck : public Task {
 public:
  explicit ParityCheck(const NoTaskOptions&) {}

  TaskSpec spec() const override { return placeholder_spec("R", "01", "01", 2); }
  int64_t output_length(int64_t) const override { return 1; }

  void example(const ExampleKey& key, Example& out) const override {
    out.clear();
    RandomSequence random = example_random(key);
    append_bits(random, key.length, out.input);
    int32_t parity = 0;
    for (const int32_t bit : out.input) parity ^= bit;
    out.predict(parity);
  }
};

const RegisterType<Task, ParityCheck, NoTaskOptions> kRegister{
    "parity_check", "is the number of ones in a bit string odd? (regular)"};

}  // namespace
}  // namespace longshot
