// The two refusals that no registered encoding or sampler brings about today, with an encoding and
// a sampler of the test's own: a causal-only encoding in a bidirectional model, and fractional
// positions given to an encoding that takes whole ones.
#include <algorithm>
#include <cmath>

#include "tests/nn/encoder_support.h"

using namespace longshot;
using namespace longshot::testing;

namespace {

struct NoOptions {
  void fields(FieldVisitor&) {}
};

// Has a meaning for keys up to the query only.
class BackwardLooking final : public PositionalEncoding {
 public:
  BackwardLooking(const NoOptions&, const EncodingModel&, const ModuleScope&) {}
  EncodingTraits traits() const override {
    EncodingTraits traits;
    traits.causal_only = true;
    traits.beyond = "runs";
    return traits;
  }
};

// 0, 1/2, 1, 3/2, ...: what interpolation of positions gives.
class HalfSteps final : public PositionSampler {
 public:
  explicit HalfSteps(const NoOptions&) {}
  DrawnPositions draw(const PositionRequest& request) const override {
    DrawnPositions drawn;
    drawn.fractional = true;
    drawn.limit = request.length;
    for (int64_t t = 0; t < request.length; ++t) drawn.values.push_back(double(t) / 2);
    return drawn;
  }
};

// Registered while it lives.
template <class Interface, class Type>
struct ForThisTest {
  ForThisTest() : registered(kOwn, "of a test") {}
  ~ForThisTest() { Registry<Interface>::instance().remove(kOwn); }
  static constexpr const char* kOwn = "of_this_test";
  RegisterType<Interface, Type, NoOptions> registered;
};

template <class Action>
std::string usage_error(const Action& action) {
  try {
    action();
  } catch (const UsageError& error) {
    return error.what();
  }
  return "not refused";
}

}  // namespace

TEST_CASE("a causal-only encoding is refused in a bidirectional model", "[encoder]") {
  const ForThisTest<PositionalEncoding, BackwardLooking> here;
  ModelWords words;
  words.encoding = type_line(here.kOwn);
  const std::string message = usage_error([&] { TestModel model(words); });
  CHECK_THAT(message, ContainsSubstring("encoding.toml:1") && ContainsSubstring(here.kOwn) &&
                          ContainsSubstring("causal = true"));
  words.model += "\ncausal = true";
  const std::vector<double> logits = TestModel(words).evaluate(random_batch(2, 5, 1));
  CHECK(std::all_of(logits.begin(), logits.end(), [](double x) { return std::isfinite(x); }));
}

TEST_CASE("fractional positions are refused by every encoding that takes whole ones, run by others",
          "[encoder][positions]") {
  const ForThisTest<PositionSampler, HalfSteps> here;
  int refused = 0, taken = 0;
  for (const std::string& name : encoding_names())
    for (const bool causal : {false, true}) {
      INFO(name << (causal ? " causal" : " bidirectional"));
      ModelWords words;
      words.encoding = type_line(name);
      words.positions = type_line(here.kOwn);
      if (causal) words.model += "\ncausal = true";
      TestModel model(words);
      TestBatch batch = random_batch(2, 6, 2);
      for (const bool padded : {false, true}) {
        if (padded) batch.lengths = {6, 4};
        if (!model.encoder().encoding().traits().fractional) {
          ++refused;
          const std::string message = usage_error([&] { model.evaluate(batch); });
          CHECK_THAT(message, ContainsSubstring("encoding.toml:1") && ContainsSubstring(name) &&
                                  ContainsSubstring(here.kOwn) && ContainsSubstring("whole"));
        } else {
          ++taken;
          const std::vector<double> logits = model.evaluate(batch);
          CHECK(
              std::all_of(logits.begin(), logits.end(), [](double x) { return std::isfinite(x); }));
        }
      }
    }
  CHECK(refused > 0);
  CHECK(taken > 0);
}

TEST_CASE("a test's own types leave the registry again", "[registry]") {
  CHECK(Registry<PositionalEncoding>::instance().find("of_this_test") == nullptr);
  CHECK(Registry<PositionSampler>::instance().find("of_this_test") == nullptr);
}
