#include "tests/data/task_check.h"

namespace longshot::test {
namespace {

TEST_CASE("duplicate_string: examples worked by hand", "[data][tasks]") {
  const auto task = make("duplicate_string");
  CHECK(find_example(*task, 2, {0, 1}).target == Ids{0, 1, 0, 1});
  CHECK(find_example(*task, 3, {1, 1, 0}).target == Ids{1, 1, 0, 1, 1, 0});
  CHECK(find_example(*task, 1, {1}).target == Ids{1, 1});
}

TEST_CASE("duplicate_string: targets recomputed from the input", "[data][tasks]") {
  const auto task = make("duplicate_string");
  for (const int64_t length : {1, 2, 3, 7, 40, 200})
    for (uint64_t index = 0; index < 50; ++index) {
      const Example example = example_of(*task, length, index);
      const Ids& x = example.input;
      INFO("length " << length << ", index " << index);
      Ids wanted = x;
      wanted.insert(wanted.end(), x.begin(), x.end());
      REQUIRE(example.target == wanted);
    }
}

TEST_CASE("duplicate_string: shape, streams and chance", "[data][tasks]") {
  const auto task = make("duplicate_string");
  const TaskSpec spec = task->spec();
  CHECK(spec.level == "CS");
  CHECK(spec.input_vocabulary == 2 + 1);
  CHECK(spec.placeholder_token == 2);
  CHECK(spec.output_classes == 2);
  CHECK(task->output_length(7) == 14);
  CHECK(task->output_length(40) == 80);
  check_contract(*task);
  check_chance(*task, 0.5);
}

}  // namespace
}  // namespace longshot::test
