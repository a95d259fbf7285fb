// binary_multiplication (context-sensitive): a * b, both binary with the least significant bit
// first; the answer is the product, least significant first and without redundant zeros, then the
// terminator 2, then zeros: m = n answers. Ids: 0, 1, * 2. |a| ~ U{1 .. n - 2}, |b| = n - 1 - |a|;
// each number uniform in [1, 2^len - 1], zero-padded to its length. n <= 2: all zeros.
// Accuracy ignores what follows the terminator. Deletang et al. 2023, Ruoss et al. 2023.
// Example: 1 1 * 0 1 is 3 * 2 = 6: 0 1 1 2 0.
#include "data/big_binary.h"
#include "data/placeholder_task.h"

namespace longshot {
namespace {

constexpr int32_t kTimes = 2, kTerminator = 2;

class BinaryMultiplication : public Task {
 public:
  explicit BinaryMultiplication(const NoTaskOptions&) {}

  TaskSpec spec() const override { return placeholder_spec("CS", "01*", "01.", 2); }
  int64_t output_length(int64_t length) const override { return length; }

  void example(const ExampleKey& key, Example& out) const override {
    out.clear();
    RandomSequence random = example_random(key);
    if (key.length <= 2) {
      out.input.assign(size_t(key.length), 0);
      for (int64_t i = 0; i < key.length; ++i) out.predict(0);
      return;
    }
    const int64_t first = random.between(1, key.length - 2), second = key.length - 1 - first;
    const mpz_class a = draw_positive(random, first), b = draw_positive(random, second);
    append_little_endian(a, first, out.input);
    out.input.push_back(kTimes);
    append_little_endian(b, second, out.input);
    const mpz_class product = a * b;
    std::vector<int32_t> digits;
    append_little_endian(product, bit_length(product), digits);
    predict_terminated(digits, kTerminator, output_length(key.length), out);
  }
};

const RegisterType<Task, BinaryMultiplication, NoTaskOptions> kRegister{
    "binary_multiplication", "the product of two binary numbers (context-sensitive)"};

}  // namespace
}  // namespace longshot
