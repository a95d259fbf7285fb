#include "tests/data/task_check.h"

namespace longshot::test {
namespace {

TEST_CASE("copy_repeat: examples worked by hand", "[data][tasks]") {
  const Example example =
      find_example(*make("copy_repeat", "symbols = 3"), 3, {4, 2, 2, 2, 5, 2, 2, 2});
  CHECK(example.target == Ids{2, 2, 2, 3});
  const Example twice =
      find_example(*make("copy_repeat", "symbols = 3\nrepeats = 2"), 2, {4, 1, 1, 5, 1, 1, 1, 1});
  CHECK(twice.target == Ids{1, 1, 1, 1, 3});
}

TEST_CASE("copy_repeat: answers recomputed from the prompt", "[data][tasks]") {
  const auto task = make("copy_repeat");
  for (const int64_t length : {1, 2, 3, 7, 40})
    for (uint64_t index = 0; index < 50; ++index) {
      const auto [prompt, answer] = causal_parts(*task, length, index);
      INFO("length " << length << ", index " << index);
      REQUIRE(int64_t(prompt.size()) == length);
      REQUIRE(std::count(prompt.begin(), prompt.end(), prompt[0]) == length);
      REQUIRE(answer == prompt);
    }
}

TEST_CASE("copy_repeat: shape, streams and chance", "[data][tasks]") {
  const auto task = make("copy_repeat");
  const TaskSpec spec = task->spec();
  CHECK(spec.causal);
  CHECK(spec.exact_match);
  CHECK(spec.output == Output::per_token);
  CHECK(spec.input_vocabulary == spec.output_classes + 3);  // BEGIN, SEPARATOR, PADDING
  check_contract(*task);
  check_contract(*make("copy_repeat", "end_token = false"));
  check_chance(*task, 1.0 / 26);
}

}  // namespace
}  // namespace longshot::test
