#include "tests/data/task_check.h"

namespace longshot::test {
namespace {

TEST_CASE("parity: examples worked by hand", "[data][tasks]") {
  const auto task = make("parity");
  CHECK(find_example(*task, 4, {2, 1, 0, 1, 1}).target == Ids{1});
  CHECK(find_example(*task, 2, {2, 1, 1}).target == Ids{0});
  CHECK(find_example(*task, 1, {2, 0}).target == Ids{0});
}

TEST_CASE("parity: targets recomputed from the input", "[data][tasks]") {
  const auto task = make("parity");
  for (const int64_t length : {1, 2, 3, 10, 1000})
    for (uint64_t index = 0; index < 50; ++index) {
      const Example example = example_of(*task, length, index);
      const Ids& x = example.input;
      REQUIRE(int64_t(x.size()) == length + 1);
      REQUIRE(x[0] == 2);  // CLS, and only there
      REQUIRE(*std::max_element(x.begin() + 1, x.end()) <= 1);
      REQUIRE(example.target == Ids{int32_t(std::count(x.begin() + 1, x.end(), 1) % 2)});
    }
}

TEST_CASE("parity: shape, streams and chance", "[data][tasks]") {
  const auto task = make("parity");
  const TaskSpec spec = task->spec();
  CHECK(spec.output == Output::first_token);
  CHECK(spec.input_vocabulary == 3);
  CHECK(spec.output_classes == 2);
  CHECK_FALSE(spec.causal);
  CHECK(task->model_length(30) == 31);
  check_contract(*task);
  check_chance(*task, 0.5);
}

}  // namespace
}  // namespace longshot::test
