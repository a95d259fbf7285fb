#include "tests/data/task_check.h"

namespace longshot::test {
namespace {

TEST_CASE("copy: examples worked by hand", "[data][tasks]") {
  // Three symbols: END 3, BEGIN 4, SEPARATOR 5.
  const Example once = find_example(*make("copy", "symbols = 3"), 3, {4, 2, 0, 1, 5, 2, 0, 1});
  CHECK(once.target == Ids{2, 0, 1, 3});
  const Example open =
      find_example(*make("copy", "symbols = 3\nend_token = false"), 3, {4, 2, 0, 1, 5, 2, 0});
  CHECK(open.target == Ids{2, 0, 1});
  const Example twice =
      find_example(*make("copy", "symbols = 3\nrepeats = 2"), 2, {4, 2, 0, 5, 2, 0, 2, 0});
  CHECK(twice.target == Ids{2, 0, 2, 0, 3});
}

TEST_CASE("copy: answers recomputed from the prompt", "[data][tasks]") {
  const auto task = make("copy");
  for (const int64_t length : {1, 2, 3, 7, 40})
    for (uint64_t index = 0; index < 50; ++index) {
      const auto [prompt, answer] = causal_parts(*task, length, index);
      INFO("length " << length << ", index " << index);
      REQUIRE(int64_t(prompt.size()) == length);
      REQUIRE(answer == prompt);
    }
}

TEST_CASE("copy: options out of range name the key", "[data][tasks]") {
  CHECK_THROWS_WITH(make("copy", "symbols = 1"), ContainsSubstring("symbols"));
  CHECK_THROWS_WITH(make("copy", "repeats = 0"), ContainsSubstring("repeats"));
}

TEST_CASE("copy: shape, streams and chance", "[data][tasks]") {
  const auto task = make("copy");
  const TaskSpec spec = task->spec();
  CHECK(spec.causal);
  CHECK(spec.exact_match);
  CHECK(spec.output == Output::per_token);
  CHECK(spec.input_vocabulary == spec.output_classes + 3);  // BEGIN, SEPARATOR, PADDING
  check_contract(*task);
  check_contract(*make("copy", "end_token = false"));
  check_chance(*task, 1.0 / 26);
}

}  // namespace
}  // namespace longshot::test
