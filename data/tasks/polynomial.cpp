// polynomial (causal): a value for x and a polynomial of n terms, then its value mod 10, one
// digit. Coefficients, x and exponents are uniform: 0 .. 9, 0 .. 9, 0 .. max_degree, and 0^0 = 1.
// Kazemnejad et al. 2023 ("polynomial evaluation"). Layout and scoring: data/causal_task.h.
// Ids: digits 0 .. 9, x 10, = 11, : 12, ^ 13, + 14.
// Example: BEGIN x = 3 : 2 x ^ 2 + 5 x ^ 0 SEPARATOR 3 END, for 2 * 9 + 5 = 23.
#include "data/causal_task.h"

namespace longshot {
namespace {

constexpr int32_t kX = 10, kEquals = 11, kColon = 12, kPower = 13, kPlus = 14;

struct PolynomialOptions : CausalOptions {
  int64_t max_degree = 3;
  void fields(FieldVisitor& visit) {
    visit.field("max_degree", max_degree, "largest exponent", between(0, 9));
    CausalOptions::fields(visit);
  }
};

class Polynomial : public CausalTask {
 public:
  explicit Polynomial(const PolynomialOptions& options)
      : CausalTask(options, 15, "0123456789x=:^+", 10), max_degree_(options.max_degree) {}

 protected:
  int64_t prompt_length(int64_t length) const override { return 4 + 5 * length - 1; }
  int64_t answer_length(int64_t) const override { return 1; }
  void make(RandomSequence& random, int64_t length, std::vector<int32_t>& prompt,
            std::vector<int32_t>& answer) const override {
    const int32_t x = int32_t(random.below(10));
    prompt.insert(prompt.end(), {kX, kEquals, x, kColon});
    int32_t value = 0;
    for (int64_t term = 0; term < length; ++term) {
      const int32_t coefficient = int32_t(random.below(10));
      const int32_t exponent = int32_t(random.between(0, max_degree_));
      if (term > 0) prompt.push_back(kPlus);
      prompt.insert(prompt.end(), {coefficient, kX, kPower, exponent});
      int32_t power = 1;
      for (int32_t i = 0; i < exponent; ++i) power = power * x % 10;
      value = (value + coefficient * power) % 10;
    }
    answer.push_back(value);
  }

 private:
  int64_t max_degree_;
};

const RegisterType<Task, Polynomial, PolynomialOptions> kRegister{
    "polynomial", "a polynomial's value mod 10 (causal)"};

}  // namespace
}  // namespace longshot
