#include "tests/data/task_check.h"

namespace longshot::test {
namespace {

TEST_CASE("polynomial: examples worked by hand", "[data][tasks]") {
  // x 10, = 11, : 12, ^ 13, + 14, END 15, BEGIN 16, SEPARATOR 17.
  const auto low = make("polynomial", "max_degree = 2");
  // x = 3 : 2 x ^ 2 is 18.
  CHECK(find_example(*low, 1, {16, 10, 11, 3, 12, 2, 10, 13, 2, 17, 8}).target == Ids{8, 15});
  // x = 0 : 7 x ^ 0 is 7.
  CHECK(find_example(*low, 1, {16, 10, 11, 0, 12, 7, 10, 13, 0, 17, 7}).target == Ids{7, 15});
}

TEST_CASE("polynomial: answers recomputed from the prompt", "[data][tasks]") {
  const auto task = make("polynomial");
  for (const int64_t length : {1, 2, 3, 7, 40})
    for (uint64_t index = 0; index < 50; ++index) {
      const auto [prompt, answer] = causal_parts(*task, length, index);
      INFO("length " << length << ", index " << index);
      REQUIRE(int64_t(prompt.size()) == 5 * length + 3);
      REQUIRE(prompt[0] == 10);
      REQUIRE(prompt[1] == 11);
      REQUIRE(prompt[3] == 12);
      int64_t value = 0;
      for (size_t at = 4; at < prompt.size(); at += 5) {
        REQUIRE(prompt[at + 1] == 10);
        REQUIRE(prompt[at + 2] == 13);
        if (at + 4 < prompt.size()) REQUIRE(prompt[at + 4] == 14);
        int64_t term = prompt[at];
        for (int32_t i = 0; i < prompt[at + 3]; ++i)
          term *= prompt[2];  // at most 9^4: no mod needed
        value += term;
      }
      REQUIRE(answer == Ids{int32_t(value % 10)});
    }
}

TEST_CASE("polynomial: shape, streams and chance", "[data][tasks]") {
  const auto task = make("polynomial");
  const TaskSpec spec = task->spec();
  CHECK(spec.causal);
  CHECK(spec.exact_match);
  CHECK(spec.output == Output::per_token);
  CHECK(spec.input_vocabulary == spec.output_classes + 3);  // BEGIN, SEPARATOR, PADDING
  check_contract(*task);
  check_contract(*make("polynomial", "end_token = false"));
  check_chance(*task, 0.1);
}

}  // namespace
}  // namespace longshot::test
