// first: does the string begin with a 1? CLS w_1 .. w_n, w uniform bits; class w_1.
// A Transformer can express it at every length, and yet one trained on short strings fails on long
// ones, because attention to one place thins out as n grows; scaling the logits by ln n mends that
// ([model] log_n_scaling).
// Chiang & Cholak 2022. The answer is read at CLS (id 2), the first token; two classes under
// cross-entropy are their logistic loss on the difference of the logits. Example: CLS 1 0 0 has
// class 1.
#include "data/placeholder_task.h"

namespace longshot {
namespace {

constexpr int32_t kCls = 2;

class First : public Task {
 public:
  explicit First(const NoTaskOptions&) {}

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
    out.predict(out.input[1]);
  }
};

const RegisterType<Task, First, NoTaskOptions> kRegister{
    "first", "is the first bit a 1? read at a CLS token"};

}  // namespace
}  // namespace longshot
