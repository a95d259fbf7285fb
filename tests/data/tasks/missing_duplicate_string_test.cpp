#include "tests/data/task_check.h"

namespace longshot::test {
namespace {

TEST_CASE("missing_duplicate_string: examples worked by hand", "[data][tasks]") {
  const auto task = make("missing_duplicate_string");
  CHECK(find_example(*task, 6, {0, 1, 1, 0, 2, 1}).target == Ids{1});
  CHECK(find_example(*task, 6, {2, 1, 1, 0, 1, 1}).target == Ids{0});
  CHECK(find_example(*task, 5, {0, 1, 2, 1, 3}).target == Ids{0});
  CHECK(find_example(*task, 2, {2, 1}).target == Ids{1});
  CHECK(find_example(*task, 3, {0, 2, 3}).target == Ids{0});
  CHECK(find_example(*task, 1, {3}).target == Ids{0});
}

TEST_CASE("missing_duplicate_string: targets recomputed from the input", "[data][tasks]") {
  const auto task = make("missing_duplicate_string");
  for (const int64_t length : {1, 2, 3, 7, 40, 200})
    for (uint64_t index = 0; index < 50; ++index) {
      const Example example = example_of(*task, length, index);
      const Ids& x = example.input;
      INFO("length " << length << ", index " << index);
      REQUIRE(int64_t(x.size()) == length);
      REQUIRE((x.back() == 3) == (length % 2 == 1));
      if (length == 1) continue;
      const size_t half = size_t(length / 2);
      size_t hole = 0, holes = 0;
      for (size_t i = 0; i < 2 * half; ++i)
        if (x[i] == 2) hole = i, ++holes;
      REQUIRE(holes == 1);
      REQUIRE(example.target == Ids{x[(hole + half) % (2 * half)]});  // its twin is visible
      for (size_t i = 0; i < half; ++i)
        if (i != hole % half) REQUIRE(x[i] == x[i + half]);
    }
}

TEST_CASE("missing_duplicate_string: shape, streams and chance", "[data][tasks]") {
  const auto task = make("missing_duplicate_string");
  const TaskSpec spec = task->spec();
  CHECK(spec.level == "CS");
  CHECK(spec.input_vocabulary == 4 + 1);
  CHECK(spec.placeholder_token == 4);
  CHECK(spec.output_classes == 2);
  CHECK(task->output_length(7) == 1);
  CHECK(task->output_length(40) == 1);
  check_contract(*task);
  check_chance(*task, 0.5);
}

}  // namespace
}  // namespace longshot::test
