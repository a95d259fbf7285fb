// parity: is the number of ones odd? CLS w_1 .. w_n, w uniform bits; class (number of
// ones) mod 2. Weights that solve it at every length exist, and training does not find them.
// (Answered at a placeholder: task "parity_check".)
// Chiang & Cholak 2022. The answer is read at CLS (id 2), the first token; two classes under
// cross-entropy are their logistic loss on the difference of the logits. Example: CLS 1 0 1 1 has
// class 1.
#include "data/placeholder_task.h"

namespace longshot {
namespace {

constexpr int32_t kCls = 2;

class Parity : public Task {
 public:
  explicit Parity(const NoTaskOptions&) {}

  TaskSpec spec() const override {
    TaskSpec spec = placeholder_spec("R", "01", "01", 2);
    spec.input_vocabulary = 3;
    spec.placeholder_token = -1;
    spec.padding_token = kCls;  // masked wherever it pads
    spec.begin_token = kCls;
    spec.output = Output::first_token;
    return spec;
  }
  int64_t input_length(int64_t length) const override { return length + 1; }
  int64_t output_length(int64_t) const override { return 1; }

  void example(const ExampleKey& key, Example& out) const override {
    out.clear();
    RandomSequence random = example_random(key);
    out.input.push_back(kCls);
    append_bits(random, key.length, out.input);
    int32_t parity = 0;
    for (size_t i = 1; i < out.input.size(); ++i) parity ^= out.input[i];
    out.predict(parity);
  }
};

const RegisterType<Task, Parity, NoTaskOptions> kRegister{
    "parity", "is the number of ones odd? read at a CLS token"};

}  // namespace
}  // namespace longshot
