// solve_equation (deterministic context-free): an expression of n - 2 tokens with brackets, + and -
// (data/bracket_expression.h), one digit of it replaced by x, then = and the value mod 5; the class
// is the digit that x stands for. One answer. Ids: digits 0 .. 4, + 5, - 6, ( 7, ) 8, x 9, = 10.
// The digit is found from a uniform start index, scanning forward cyclically. n < 3: all zeros.
// Deletang et al. 2023, Ruoss et al. 2023. The paper's example contains *, the authors' code has
// none (x would not be unique), and so here. Example: ( x + 4 ) = 2 has x = 3.
#include "data/bracket_expression.h"
#include "data/placeholder_task.h"

namespace longshot {
namespace {

constexpr BracketSymbols kSymbols{5, 6, -1, 7, 8, false};
constexpr int32_t kUnknown = 9, kEquals = 10;

class SolveEquation : public Task {
 public:
  explicit SolveEquation(const NoTaskOptions&) {}

  TaskSpec spec() const override { return placeholder_spec("DCF", "01234+-()x=", "01234", 5); }
  int64_t output_length(int64_t) const override { return 1; }

  void example(const ExampleKey& key, Example& out) const override {
    out.clear();
    RandomSequence random = example_random(key);
    if (key.length < 3) {
      out.input.assign(size_t(key.length), 0);
      out.predict(0);
      return;
    }
    const int32_t value = append_bracket_expression(random, key.length - 2, kSymbols, out.input);
    size_t hidden = size_t(random.below(out.input.size()));
    while (out.input[hidden] > 4) hidden = (hidden + 1) % out.input.size();
    const int32_t digit = out.input[hidden];
    out.input[hidden] = kUnknown;
    out.input.push_back(kEquals);
    out.input.push_back(value);
    out.predict(digit);
  }
};

const RegisterType<Task, SolveEquation, NoTaskOptions> kRegister{
    "solve_equation", "the digit x stands for in an equation mod 5 (deterministic context-free)"};

}  // namespace
}  // namespace longshot
