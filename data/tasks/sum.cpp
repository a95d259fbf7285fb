// sum (causal): n digits joined by +, then their sum mod 10, one digit. Kazemnejad et al. 2023
// ("summation"). Layout and scoring: data/causal_task.h. Ids: digits 0 .. 9, + 10.
// Example: BEGIN 7 + 5 + 9 SEPARATOR 1 END.
#include "data/causal_task.h"

namespace longshot {
namespace {

constexpr int32_t kPlus = 10;

class Sum : public CausalTask {
 public:
  explicit Sum(const CausalOptions& options) : CausalTask(options, 11, "0123456789+", 10) {}

 protected:
  int64_t prompt_length(int64_t length) const override { return 2 * length - 1; }
  int64_t answer_length(int64_t) const override { return 1; }
  void make(RandomSequence& random, int64_t length, std::vector<int32_t>& prompt,
            std::vector<int32_t>& answer) const override {
    int64_t sum = 0;
    for (int64_t i = 0; i < length; ++i) {
      if (i > 0) prompt.push_back(kPlus);
      const int64_t digit = int64_t(random.below(10));
      prompt.push_back(int32_t(digit));
      sum += digit;
    }
    answer.push_back(int32_t(sum % 10));
  }
};

const RegisterType<Task, Sum, CausalOptions> kRegister{"sum", "n digits summed mod 10 (causal)"};

}  // namespace
}  // namespace longshot
