#include "tests/data/task_check.h"

namespace longshot::test {
namespace {

TEST_CASE("even_pairs: examples worked by hand", "[data][tasks]") {
  const auto task = make("even_pairs");
  CHECK(find_example(*task, 4, {0, 1, 1, 0}).target == Ids{0});
  CHECK(find_example(*task, 4, {0, 1, 1, 1}).target == Ids{1});
  CHECK(find_example(*task, 5, {1, 0, 1, 0, 0}).target == Ids{1});
  CHECK(find_example(*task, 1, {1}).target == Ids{0});
  CHECK(find_example(*task, 2, {1, 0}).target == Ids{1});
}

TEST_CASE("even_pairs: targets recomputed from the input", "[data][tasks]") {
  const auto task = make("even_pairs");
  for (const int64_t length : {1, 2, 3, 7, 40, 200})
    for (uint64_t index = 0; index < 50; ++index) {
      const Example example = example_of(*task, length, index);
      const Ids& x = example.input;
      INFO("length " << length << ", index " << index);
      int unequal = 0;
      for (size_t i = 1; i < x.size(); ++i) unequal += x[i] != x[i - 1];
      REQUIRE(example.target == Ids{unequal % 2});
    }
}

TEST_CASE("even_pairs: shape, streams and chance", "[data][tasks]") {
  const auto task = make("even_pairs");
  const TaskSpec spec = task->spec();
  CHECK(spec.level == "R");
  CHECK(spec.input_vocabulary == 2 + 1);
  CHECK(spec.placeholder_token == 2);
  CHECK(spec.output_classes == 2);
  CHECK(task->output_length(7) == 1);
  CHECK(task->output_length(40) == 1);
  check_contract(*task);
  check_chance(*task, 0.5);
}

}  // namespace
}  // namespace longshot::test
