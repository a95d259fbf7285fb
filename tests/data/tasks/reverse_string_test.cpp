#include "tests/data/task_check.h"

namespace longshot::test {
namespace {

TEST_CASE("reverse_string: examples worked by hand", "[data][tasks]") {
  const auto task = make("reverse_string");
  CHECK(find_example(*task, 3, {0, 1, 1}).target == Ids{1, 1, 0});
  CHECK(find_example(*task, 4, {1, 0, 0, 0}).target == Ids{0, 0, 0, 1});
  CHECK(find_example(*task, 1, {1}).target == Ids{1});
}

TEST_CASE("reverse_string: targets recomputed from the input", "[data][tasks]") {
  const auto task = make("reverse_string");
  for (const int64_t length : {1, 2, 3, 7, 40, 200})
    for (uint64_t index = 0; index < 50; ++index) {
      const Example example = example_of(*task, length, index);
      const Ids& x = example.input;
      INFO("length " << length << ", index " << index);
      REQUIRE(example.target == Ids(x.rbegin(), x.rend()));
      REQUIRE(scored_places(example) == length);
    }
}

TEST_CASE("reverse_string: shape, streams and chance", "[data][tasks]") {
  const auto task = make("reverse_string");
  const TaskSpec spec = task->spec();
  CHECK(spec.level == "DCF");
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
