// compute_sqrt (context-sensitive): floor of the square root of a binary number of n bits, most
// significant bit first, in m = ceil(n / 2) bits, most significant first, zero-padded. The number
// is uniform in [1, 2^n - 1]. Deletang et al. 2023, Ruoss et al. 2023. The authors' code has the
// most significant bit first (done here), their paper says least significant first. Example: 0 1 1
// 0 1 is 13, its root 3: 0 1 1.
#include "data/big_binary.h"
#include "data/placeholder_task.h"

namespace longshot {
namespace {

class ComputeSqrt : public Task {
 public:
  explicit ComputeSqrt(const NoTaskOptions&) {}

  TaskSpec spec() const override { return placeholder_spec("CS", "01", "01", 2); }
  int64_t output_length(int64_t length) const override { return (length + 1) / 2; }

  void example(const ExampleKey& key, Example& out) const override {
    out.clear();
    RandomSequence random = example_random(key);
    const mpz_class number = draw_positive(random, key.length);
    append_big_endian(number, key.length, out.input);
    std::vector<int32_t> digits;
    append_big_endian(sqrt(number), output_length(key.length), digits);
    for (const int32_t digit : digits) out.predict(digit);
  }
};

const RegisterType<Task, ComputeSqrt, NoTaskOptions> kRegister{
    "compute_sqrt", "the integer square root of a binary number (context-sensitive)"};

}  // namespace
}  // namespace longshot
