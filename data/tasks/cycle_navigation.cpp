// cycle_navigation (regular): a walk on a ring of five places. Symbol 0 steps back, 1 stays, 2
// steps forward; the class is the place reached from 0, i.e. sum of (symbol - 1) mod 5. One answer.
// Deletang et al. 2023, Ruoss et al. 2023.
// Example: 2 2 0 1 ends at 1 + 1 - 1 + 0 = 1.
#include "data/placeholder_task.h"

namespace longshot {
namespace {

class CycleNavigation : public Task {
 public:
  explicit CycleNavigation(const NoTaskOptions&) {}

  TaskSpec spec() const override { return placeholder_spec("R", "<=>", "01234", 5); }
  int64_t output_length(int64_t) const override { return 1; }

  void example(const ExampleKey& key, Example& out) const override {
    out.clear();
    RandomSequence random = example_random(key);
    append_symbols(random, key.length, 3, out.input);
    int64_t place = 0;
    for (const int32_t action : out.input) place += action - 1;
    out.predict(int32_t((place % 5 + 5) % 5));
  }
};

const RegisterType<Task, CycleNavigation, NoTaskOptions> kRegister{
    "cycle_navigation", "where does a walk of steps -1, 0, +1 on a ring of five end? (regular)"};

}  // namespace
}  // namespace longshot
