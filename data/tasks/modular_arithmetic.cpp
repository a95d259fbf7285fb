// modular_arithmetic (regular, "simple"): digits 0 .. 4 joined by +, - and *, with the usual
// precedence; the class is the value mod 5. One answer. Ids: digits, + 5, - 6, * 7; id 8 (blank) is
// never drawn and is kept because the published vocabulary has it.
// Deletang et al. 2023, Ruoss et al. 2023. An expression has an odd number of tokens; for even n
// the authors' code makes one of n - 1 tokens (done here), their paper says n + 1. Example: 2 + 3 *
// 4 - 1 is 13, class 3.
#include "data/placeholder_task.h"

namespace longshot {
namespace {

constexpr int32_t kPlus = 5;  // then minus 6, times 7

class ModularArithmetic : public Task {
 public:
  explicit ModularArithmetic(const NoTaskOptions&) {}

  TaskSpec spec() const override { return placeholder_spec("R", "01234+-*_", "01234", 5); }
  int64_t input_length(int64_t length) const override { return length - (length % 2 == 0); }
  int64_t output_length(int64_t) const override { return 1; }

  void example(const ExampleKey& key, Example& out) const override {
    out.clear();
    RandomSequence random = example_random(key);
    const int64_t tokens = input_length(key.length);
    // value = settled + sign * product, where `product` is the run of factors still growing.
    int32_t settled = 0, sign = 1, product = 0;
    for (int64_t i = 0; i < tokens; i += 2) {
      const int64_t op = i == 0 ? -1 : int64_t(random.below(3));
      if (op >= 0) out.input.push_back(kPlus + int32_t(op));
      const int32_t digit = int32_t(random.below(5));
      out.input.push_back(digit);
      if (op == 2) {
        product = product * digit % 5;
      } else {
        settled = (settled + sign * product + 5) % 5;
        sign = op == 1 ? -1 : 1;
        product = digit;
      }
    }
    out.predict((settled + sign * product + 5) % 5);
  }
};

const RegisterType<Task, ModularArithmetic, NoTaskOptions> kRegister{
    "modular_arithmetic", "the value mod 5 of digits joined by + - * (regular)"};

}  // namespace
}  // namespace longshot
