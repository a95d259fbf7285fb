#include "tests/data/task_check.h"

namespace longshot::test {
namespace {

TEST_CASE("bucket_sort: examples worked by hand", "[data][tasks]") {
  const auto task = make("bucket_sort");
  CHECK(find_example(*task, 4, {3, 0, 2, 0}).target == Ids{0, 0, 2, 3});
  CHECK(find_example(*task, 2, {4, 4}).target == Ids{4, 4});
  CHECK(find_example(*task, 1, {2}).target == Ids{2});
}

TEST_CASE("bucket_sort: targets recomputed from the input", "[data][tasks]") {
  const auto task = make("bucket_sort");
  for (const int64_t length : {1, 2, 3, 7, 40, 200})
    for (uint64_t index = 0; index < 50; ++index) {
      const Example example = example_of(*task, length, index);
      const Ids& x = example.input;
      INFO("length " << length << ", index " << index);
      Ids wanted = x;
      std::sort(wanted.begin(), wanted.end());
      REQUIRE(example.target == wanted);
    }
}

TEST_CASE("bucket_sort: shape, streams and chance", "[data][tasks]") {
  const auto task = make("bucket_sort");
  const TaskSpec spec = task->spec();
  CHECK(spec.level == "CS");
  CHECK(spec.input_vocabulary == 5 + 1);
  CHECK(spec.placeholder_token == 5);
  CHECK(spec.output_classes == 5);
  CHECK(task->output_length(7) == 7);
  CHECK(task->output_length(40) == 40);
  check_contract(*task);
  check_chance(*task, 0.2);
}

}  // namespace
}  // namespace longshot::test
