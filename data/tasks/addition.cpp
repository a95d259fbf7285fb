// addition (causal): two decimal numbers of n digits each, then their sum, as text.
// Kazemnejad et al. 2023; reversed and padded forms as in Zhou et al. 2024. Layout and scoring:
// data/causal_task.h. Ids: digits 0 .. 9, + 10.
//   pad       true: digits uniform, leading zeros stay, the sum has n + 1 digits; all examples of
//             one length are equally long. false: no leading zeros (except the number 0), the sum
//             has n or n + 1 digits (the lengths are then "at most").
//   reversed  true: the answer, and the operands, begin with the least significant digit.
// Example, padded: BEGIN 9 5 + 0 7 SEPARATOR 1 0 2 END.
#include <algorithm>

#include "data/causal_task.h"
#include "data/placeholder_task.h"

namespace longshot {
namespace {

constexpr int32_t kPlus = 10;

struct AdditionOptions : CausalOptions {
  bool reversed = false;
  bool pad = true;
  void fields(FieldVisitor& visit) {
    visit.field("reversed", reversed, "least significant digit first, operands and answer");
    visit.field("pad", pad, "keep leading zeros, so that equal lengths give equally many tokens");
    CausalOptions::fields(visit);
  }
};

class Addition : public CausalTask {
 public:
  explicit Addition(const AdditionOptions& options)
      : CausalTask(options, 11, "0123456789+", 10), options_(options) {
    if (!options.pad) answer_length_varies();
  }

 protected:
  int64_t prompt_length(int64_t length) const override { return 2 * length + 1; }
  int64_t answer_length(int64_t length) const override { return length + 1; }
  void make(RandomSequence& random, int64_t length, std::vector<int32_t>& prompt,
            std::vector<int32_t>& answer) const override {
    // Digits with the least significant first, so that the carry runs with the index.
    std::vector<int32_t> a, b;
    draw(random, length, a);
    draw(random, length, b);
    int32_t carry = 0;
    for (int64_t i = 0; i < length; ++i) {
      const int32_t sum = a[size_t(i)] + b[size_t(i)] + carry;
      answer.push_back(sum % 10);
      carry = sum / 10;
    }
    if (options_.pad || carry != 0) answer.push_back(carry);
    if (!options_.reversed)
      for (std::vector<int32_t>* digits : {&a, &b, &answer})
        std::reverse(digits->begin(), digits->end());
    prompt.insert(prompt.end(), a.begin(), a.end());
    prompt.push_back(kPlus);
    prompt.insert(prompt.end(), b.begin(), b.end());
  }

 private:
  void draw(RandomSequence& random, int64_t length, std::vector<int32_t>& digits) const {
    append_symbols(random, length, 10, digits);
    if (!options_.pad && length > 1) digits.back() = int32_t(random.between(1, 9));
  }

  AdditionOptions options_;
};

const RegisterType<Task, Addition, AdditionOptions> kRegister{
    "addition", "the sum of two decimal numbers as text (causal)"};

}  // namespace
}  // namespace longshot
