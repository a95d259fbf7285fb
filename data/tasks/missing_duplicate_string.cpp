// missing_duplicate_string (context-sensitive): w w for a string w of floor(n / 2) bits with one
// position, uniform over both copies, hidden (id 2); odd n appends one filler (id 3). The class is
// the hidden bit. One answer; n = 1 is the filler alone, class 0.
// Deletang et al. 2023, Ruoss et al. 2023. Beware: w w holds an even number of ones, so the hidden
// bit is also the parity of the visible ones; short strings can be answered without any positions.
// Example: 0 1 1 | 0 2 1 hides a 1.
#include "data/placeholder_task.h"

namespace longshot {
namespace {

constexpr int32_t kHole = 2, kFiller = 3;

class MissingDuplicateString : public Task {
 public:
  explicit MissingDuplicateString(const NoTaskOptions&) {}

  TaskSpec spec() const override { return placeholder_spec("CS", "01?_", "01", 2); }
  int64_t output_length(int64_t) const override { return 1; }

  void example(const ExampleKey& key, Example& out) const override {
    out.clear();
    RandomSequence random = example_random(key);
    const int64_t half = key.length / 2;
    append_bits(random, half, out.input);
    for (int64_t i = 0; i < half; ++i) out.input.push_back(out.input[size_t(i)]);
    int32_t hidden = 0;
    if (half > 0) {
      int32_t& place = out.input[size_t(random.below(uint64_t(2 * half)))];
      hidden = place;
      place = kHole;
    }
    if (key.length % 2 != 0) out.input.push_back(kFiller);
    out.predict(hidden);
  }
};

const RegisterType<Task, MissingDuplicateString, NoTaskOptions> kRegister{
    "missing_duplicate_string", "the hidden bit of a string written twice (context-sensitive)"};

}  // namespace
}  // namespace longshot
