#include "tests/data/task_check.h"

namespace longshot::test {
namespace {

TEST_CASE("sum: examples worked by hand", "[data][tasks]") {
  // END 11, BEGIN 12, SEPARATOR 13, + 10.
  const Example example = find_example(*make("sum"), 3, {12, 7, 10, 5, 10, 9, 13, 1});
  CHECK(example.target == Ids{1, 11});  // 21
  CHECK(find_example(*make("sum"), 1, {12, 4, 13, 4}).target == Ids{4, 11});
}

TEST_CASE("sum: answers recomputed from the prompt", "[data][tasks]") {
  const auto task = make("sum");
  for (const int64_t length : {1, 2, 3, 7, 40})
    for (uint64_t index = 0; index < 50; ++index) {
      const auto [prompt, answer] = causal_parts(*task, length, index);
      INFO("length " << length << ", index " << index);
      REQUIRE(int64_t(prompt.size()) == 2 * length - 1);
      int64_t total = 0;
      for (size_t i = 0; i < prompt.size(); ++i) {
        REQUIRE((prompt[i] == 10) == (i % 2 == 1));
        if (i % 2 == 0) total += prompt[i];
      }
      REQUIRE(answer == Ids{int32_t(total % 10)});
    }
}

TEST_CASE("sum: shape, streams and chance", "[data][tasks]") {
  const auto task = make("sum");
  const TaskSpec spec = task->spec();
  CHECK(spec.causal);
  CHECK(spec.exact_match);
  CHECK(spec.output == Output::per_token);
  CHECK(spec.input_vocabulary == spec.output_classes + 3);  // BEGIN, SEPARATOR, PADDING
  check_contract(*task);
  check_contract(*make("sum", "end_token = false"));
  check_chance(*task, 0.1);
}

}  // namespace
}  // namespace longshot::test
