// stack_manipulation (deterministic context-free): a stack, bottom to top, then actions; the answer
// is the final stack, top to bottom, then the terminator 2, then zeros: m = n + 1 answers. Ids: 0
// and 1 content, 2 POP, 3 PUSH 0, 4 PUSH 1. The stack has s ~ U{1 .. n - 1} symbols (n = 1: one),
// the other n - s symbols are actions drawn uniformly; POP on the empty stack does nothing.
// Accuracy ignores what follows the terminator. Deletang et al. 2023, Ruoss et al. 2023.
// Example: 0 1 | POP PUSH1 PUSH0 leaves 0 1 0 (bottom to top): 0 1 0 2 0 0.
#include <algorithm>

#include "data/placeholder_task.h"

namespace longshot {
namespace {

constexpr int32_t kPop = 2, kPush0 = 3, kTerminator = 2;

class StackManipulation : public Task {
 public:
  explicit StackManipulation(const NoTaskOptions&) {}

  TaskSpec spec() const override { return placeholder_spec("DCF", "01^ab", "01.", 2); }
  int64_t output_length(int64_t length) const override { return length + 1; }

  void example(const ExampleKey& key, Example& out) const override {
    out.clear();
    RandomSequence random = example_random(key);
    const int64_t content = key.length == 1 ? 1 : random.between(1, key.length - 1);
    append_bits(random, content, out.input);
    std::vector<int32_t> stack(out.input);
    for (int64_t i = content; i < key.length; ++i) {
      const int32_t action = kPop + int32_t(random.below(3));
      out.input.push_back(action);
      if (action != kPop) {
        stack.push_back(action - kPush0);
      } else if (!stack.empty()) {
        stack.pop_back();
      }
    }
    std::reverse(stack.begin(), stack.end());
    predict_terminated(stack, kTerminator, output_length(key.length), out);
  }
};

const RegisterType<Task, StackManipulation, NoTaskOptions> kRegister{
    "stack_manipulation",
    "the stack after a series of pushes and pops (deterministic context-free)"};

}  // namespace
}  // namespace longshot
