// modular_arithmetic_brackets (deterministic context-free; "Modular Arithmetic" in the papers): an
// expression with brackets and +, -, * (data/bracket_expression.h); the class is its value mod 5.
// One answer. Ids: digits 0 .. 4, + 5, - 6, * 7, ( 8, ) 9; id 10 (x) belongs to the published
// vocabulary and never occurs. Deletang et al. 2023, Ruoss et al. 2023. Example: ( ( 3 ) * - 2 ) is
// -6, class 4.
#include "data/bracket_expression.h"
#include "data/placeholder_task.h"

namespace longshot {
namespace {

constexpr BracketSymbols kSymbols{5, 6, 7, 8, 9, true};

class ModularArithmeticBrackets : public Task {
 public:
  explicit ModularArithmeticBrackets(const NoTaskOptions&) {}

  TaskSpec spec() const override { return placeholder_spec("DCF", "01234+-*()x", "01234", 5); }
  int64_t output_length(int64_t) const override { return 1; }

  void example(const ExampleKey& key, Example& out) const override {
    out.clear();
    RandomSequence random = example_random(key);
    out.predict(append_bracket_expression(random, key.length, kSymbols, out.input));
  }
};

const RegisterType<Task, ModularArithmeticBrackets, NoTaskOptions> kRegister{
    "modular_arithmetic_brackets",
    "the value mod 5 of an expression with brackets (deterministic context-free)"};

}  // namespace
}  // namespace longshot
