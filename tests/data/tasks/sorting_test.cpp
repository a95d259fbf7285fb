#include "tests/data/task_check.h"

namespace longshot::test {
namespace {

TEST_CASE("sorting: examples worked by hand", "[data][tasks]") {
  // Four symbols: END 4, BEGIN 5, SEPARATOR 6.
  const Example example =
      find_example(*make("sorting", "symbols = 4"), 4, {5, 3, 1, 3, 0, 6, 0, 1, 3, 3});
  CHECK(example.target == Ids{0, 1, 3, 3, 4});
}

TEST_CASE("sorting: answers recomputed from the prompt", "[data][tasks]") {
  const auto task = make("sorting");
  for (const int64_t length : {1, 2, 3, 7, 40})
    for (uint64_t index = 0; index < 50; ++index) {
      const auto [prompt, answer] = causal_parts(*task, length, index);
      INFO("length " << length << ", index " << index);
      REQUIRE(std::is_sorted(answer.begin(), answer.end()));
      REQUIRE(std::is_permutation(answer.begin(), answer.end(), prompt.begin(), prompt.end()));
      REQUIRE(int64_t(prompt.size()) == length);
    }
}

TEST_CASE("sorting: shape, streams and chance", "[data][tasks]") {
  const auto task = make("sorting");
  const TaskSpec spec = task->spec();
  CHECK(spec.causal);
  CHECK(spec.exact_match);
  CHECK(spec.output == Output::per_token);
  CHECK(spec.input_vocabulary == spec.output_classes + 3);  // BEGIN, SEPARATOR, PADDING
  check_contract(*task);
  check_contract(*make("sorting", "end_token = false"));
  check_chance(*task, 1.0 / 50);
}

}  // namespace
}  // namespace longshot::test
