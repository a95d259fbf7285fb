// odds_first (context-sensitive): the symbols at odd indices, then those at even ones: m = n
// answers. Deletang et al. 2023, Ruoss et al. 2023. Indices count from 0, so the 2nd, 4th, ...
// symbols come first, as in the authors' code; their text says 1st, 3rd, ... first. Equally hard
// either way. Example: a b c d e gives b d a c e.
#include "data/placeholder_task.h"

namespace longshot {
namespace {

class OddsFirst : public Task {
 public:
  explicit OddsFirst(const NoTaskOptions&) {}

  TaskSpec spec() const override { return placeholder_spec("CS", "01", "01", 2); }
  int64_t output_length(int64_t length) const override { return length; }

  void example(const ExampleKey& key, Example& out) const override {
    out.clear();
    RandomSequence random = example_random(key);
    append_bits(random, key.length, out.input);
    for (size_t i = 1; i < out.input.size(); i += 2) out.predict(out.input[i]);
    for (size_t i = 0; i < out.input.size(); i += 2) out.predict(out.input[i]);
  }
};

const RegisterType<Task, OddsFirst, NoTaskOptions> kRegister{
    "odds_first",
    "the symbols at odd indices of a bit string, then the others (context-sensitive)"};

}  // namespace
}  // namespace longshot
