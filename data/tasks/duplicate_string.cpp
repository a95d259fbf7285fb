// duplicate_string (context-sensitive): a bit string w, answered w w: m = 2 n answers.
// Deletang et al. 2023, Ruoss et al. 2023.
// Example: 0 1 gives 0 1 0 1.
#include "data/placeholder_task.h"

namespace longshot {
namespace {

class DuplicateString : public Task {
 public:
  explicit DuplicateString(const NoTaskOptions&) {}

  TaskSpec spec() const override { return placeholder_spec("CS", "01", "01", 2); }
  int64_t output_length(int64_t length) const override { return 2 * length; }

  void example(const ExampleKey& key, Example& out) const override {
    out.clear();
    RandomSequence random = example_random(key);
    append_bits(random, key.length, out.input);
    for (int copy = 0; copy < 2; ++copy)
      for (const int32_t bit : out.input) out.predict(bit);
  }
};

const RegisterType<Task, DuplicateString, NoTaskOptions> kRegister{
    "duplicate_string", "a bit string twice (context-sensitive)"};

}  // namespace
}  // namespace longshot
