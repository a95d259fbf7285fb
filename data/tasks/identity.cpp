// identity: a random string over `symbols` symbols; the answer at each token is that token. Any
// model learns it at once, whatever its encoding: it is here for measuring speed, where input
// vocabulary and output classes must be exactly a given number. n tokens in, n answers, no special
// token. Example: 3 0 2 0 gives 3 0 2 0.
#include "data/placeholder_task.h"

namespace longshot {
namespace {

struct IdentityOptions {
  int64_t symbols = 16;
  void fields(FieldVisitor& visit) {
    visit.field("symbols", symbols, "different symbols", between(2, 65536));
  }
};

class Identity : public Task {
 public:
  explicit Identity(const IdentityOptions& options) : symbols_(options.symbols) {}

  TaskSpec spec() const override {
    TaskSpec spec;
    spec.input_vocabulary = symbols_;
    spec.output_classes = symbols_;
    spec.output = Output::per_token;
    spec.chance = 1.0 / double(symbols_);
    spec.chance_reason = fmt::format("one of {} symbols guessed", symbols_);
    return spec;
  }
  int64_t output_length(int64_t length) const override { return length; }

  void example(const ExampleKey& key, Example& out) const override {
    out.clear();
    RandomSequence random = example_random(key);
    append_symbols(random, key.length, symbols_, out.input);
    for (const int32_t symbol : out.input) out.predict(symbol);
  }

 private:
  int64_t symbols_;
};

const RegisterType<Task, Identity, IdentityOptions> kRegister{
    "identity", "each token's own symbol, for measuring speed"};

}  // namespace
}  // namespace longshot
