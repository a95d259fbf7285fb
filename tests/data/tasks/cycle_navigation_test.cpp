#include "tests/data/task_check.h"

namespace longshot::test {
namespace {

TEST_CASE("cycle_navigation: examples worked by hand", "[data][tasks]") {
  const auto task = make("cycle_navigation");
  CHECK(find_example(*task, 4, {2, 2, 0, 1}).target == Ids{1});
  CHECK(find_example(*task, 2, {0, 0}).target == Ids{3});
  CHECK(find_example(*task, 1, {1}).target == Ids{0});
  CHECK(find_example(*task, 6, {2, 2, 2, 2, 2, 2}).target == Ids{1});
}

TEST_CASE("cycle_navigation: targets recomputed from the input", "[data][tasks]") {
  const auto task = make("cycle_navigation");
  for (const int64_t length : {1, 2, 3, 7, 40, 200})
    for (uint64_t index = 0; index < 50; ++index) {
      const Example example = example_of(*task, length, index);
      const Ids& x = example.input;
      INFO("length " << length << ", index " << index);
      const int64_t forward = std::count(x.begin(), x.end(), 2);
      const int64_t back = std::count(x.begin(), x.end(), 0);
      REQUIRE(example.target == Ids{int32_t((forward + 4 * back) % 5)});  // -1 is 4 mod 5
    }
}

TEST_CASE("cycle_navigation: shape, streams and chance", "[data][tasks]") {
  const auto task = make("cycle_navigation");
  const TaskSpec spec = task->spec();
  CHECK(spec.level == "R");
  CHECK(spec.input_vocabulary == 3 + 1);
  CHECK(spec.placeholder_token == 3);
  CHECK(spec.output_classes == 5);
  CHECK(task->output_length(7) == 1);
  CHECK(task->output_length(40) == 1);
  check_contract(*task);
  check_chance(*task, 0.2);
}

}  // namespace
}  // namespace longshot::test
