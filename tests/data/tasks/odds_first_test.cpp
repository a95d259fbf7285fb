#include "tests/data/task_check.h"

namespace longshot::test {
namespace {

TEST_CASE("odds_first: examples worked by hand", "[data][tasks]") {
  const auto task = make("odds_first");
  CHECK(find_example(*task, 5, {0, 1, 0, 1, 1}).target == Ids{1, 1, 0, 0, 1});
  CHECK(find_example(*task, 4, {1, 0, 0, 1}).target == Ids{0, 1, 1, 0});
  CHECK(find_example(*task, 1, {1}).target == Ids{1});
  CHECK(find_example(*task, 2, {0, 1}).target == Ids{1, 0});
}

TEST_CASE("odds_first: targets recomputed from the input", "[data][tasks]") {
  const auto task = make("odds_first");
  for (const int64_t length : {1, 2, 3, 7, 40, 200})
    for (uint64_t index = 0; index < 50; ++index) {
      const Example example = example_of(*task, length, index);
      const Ids& x = example.input;
      INFO("length " << length << ", index " << index);
      Ids odd, even;
      for (size_t i = 0; i < x.size(); ++i) (i % 2 == 1 ? odd : even).push_back(x[i]);
      odd.insert(odd.end(), even.begin(), even.end());
      REQUIRE(example.target == odd);
    }
}

TEST_CASE("odds_first: shape, streams and chance", "[data][tasks]") {
  const auto task = make("odds_first");
  const TaskSpec spec = task->spec();
  CHECK(spec.level == "CS");
  CHECK(spec.input_vocabulary == 2 + 1);
  CHECK(spec.placeholder_token == 2);
  CHECK(spec.output_classes == 2);
  CHECK(task->output_length(7) == 7);
  CHECK(task->output_length(40) == 40);
  check_contract(*task);
  check_chance(*task, 0.5);
}

}  // namespace
}  // namespace longshot::test
