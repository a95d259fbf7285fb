// reverse_string (deterministic context-free): a bit string, answered in reverse: m = n answers.
// Deletang et al. 2023, Ruoss et al. 2023. (The causal, step by step variants are task "reverse".)
// Example: 0 1 1 gives 1 1 0.
#include "data/placeholder_task.h"

namespace longshot {
namespace {

class ReverseString : public Task {
 public:
  explicit ReverseString(const NoTaskOptions&) {}

  TaskSpec spec() const override { return placeholder_spec("DCF", "01", "01", 2); }
  int64_t output_length(int64_t length) const override { return length; }

  void example(const ExampleKey& key, Example& out) const override {
    out.clear();
    RandomSequence random = example_random(key);
    append_bits(random, key.length, out.input);
    for (size_t i = out.input.size(); i-- > 0;) out.predict(out.input[i]);
  }
};

const RegisterType<Task, ReverseString, NoTaskOptions> kRegister{
    "reverse_string", "a bit string in reverse (deterministic context-free)"};

}  // namespace
}  // namespace longshot
