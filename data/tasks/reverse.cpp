// reverse (causal): a random string w, answered by
//   variant = "plain"          w reversed
//             "reverse_copy"   w reversed, then w
//             "reverse_twice"  w reversed, then w reversed again
// Kazemnejad et al. 2023 (reverse, reverse + copy, reverse 2x). Layout and scoring:
// data/causal_task.h. (Answered all at once over placeholders: task "reverse_string".)
// Example, plain: BEGIN c a b SEPARATOR b a c END.
#include "data/causal_task.h"
#include "data/placeholder_task.h"

namespace longshot {
namespace {

struct ReverseOptions : CausalOptions {
  int64_t symbols = 26;
  std::string variant = "plain";
  void fields(FieldVisitor& visit) {
    visit.field("symbols", symbols, "different symbols", between(2, 65536));
    visit.field("variant", variant, "what follows the string",
                one_of({"plain", "reverse_copy", "reverse_twice"}));
    CausalOptions::fields(visit);
  }
};

class Reverse : public CausalTask {
 public:
  explicit Reverse(const ReverseOptions& options)
      : CausalTask(options, options.symbols, letters(options.symbols), options.symbols),
        options_(options) {}

 protected:
  int64_t prompt_length(int64_t length) const override { return length; }
  int64_t answer_length(int64_t length) const override {
    return options_.variant == "plain" ? length : 2 * length;
  }
  void make(RandomSequence& random, int64_t length, std::vector<int32_t>& prompt,
            std::vector<int32_t>& answer) const override {
    append_symbols(random, length, options_.symbols, prompt);
    answer.insert(answer.end(), prompt.rbegin(), prompt.rbegin() + length);
    if (options_.variant == "reverse_copy")
      answer.insert(answer.end(), prompt.end() - length, prompt.end());
    if (options_.variant == "reverse_twice")
      answer.insert(answer.end(), prompt.rbegin(), prompt.rbegin() + length);
  }

 private:
  ReverseOptions options_;
};

const RegisterType<Task, Reverse, ReverseOptions> kRegister{
    "reverse", "a random string, reversed step by step (causal)"};

}  // namespace
}  // namespace longshot
