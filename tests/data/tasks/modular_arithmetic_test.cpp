#include "tests/data/task_check.h"

namespace longshot::test {
namespace {

TEST_CASE("modular_arithmetic: examples worked by hand", "[data][tasks]") {
  const auto task = make("modular_arithmetic");
  CHECK(find_example(*task, 7, {2, 5, 3, 7, 4, 6, 1}).target == Ids{3});  // 2 + 3 * 4 - 1 = 13
  CHECK(find_example(*task, 5, {1, 6, 3, 7, 3}).target == Ids{2});        // 1 - 3 * 3 = -8
  CHECK(find_example(*task, 5, {3, 7, 4, 6, 4}).target == Ids{3});        // 3 * 4 - 4 = 8
  CHECK(find_example(*task, 2, {3}).target == Ids{3});        // even lengths lose a token
  CHECK(find_example(*task, 3, {0, 6, 1}).target == Ids{4});  // 0 - 1
}

TEST_CASE("modular_arithmetic: targets recomputed from the input", "[data][tasks]") {
  const auto task = make("modular_arithmetic");
  for (const int64_t length : {1, 2, 3, 7, 40, 200})
    for (uint64_t index = 0; index < 50; ++index) {
      const Example example = example_of(*task, length, index);
      const Ids& x = example.input;
      INFO("length " << length << ", index " << index);
      REQUIRE(int64_t(x.size()) == (length % 2 == 0 ? length - 1 : length));
      // First all products, in a list of signed terms; then the sum, in wide integers.
      std::vector<int64_t> terms{x[0]};
      for (size_t i = 1; i < x.size(); i += 2) {
        REQUIRE(x[i] >= 5);
        REQUIRE(x[i] <= 7);
        REQUIRE(x[i + 1] <= 4);
        if (x[i] == 7)
          terms.back() = terms.back() * x[i + 1] % 5;
        else
          terms.push_back(x[i] == 5 ? x[i + 1] : -x[i + 1]);
      }
      int64_t sum = 0;
      for (const int64_t term : terms) sum += term;
      REQUIRE(example.target == Ids{int32_t(((sum % 5) + 5) % 5)});
    }
}

TEST_CASE("modular_arithmetic: shape, streams and chance", "[data][tasks]") {
  const auto task = make("modular_arithmetic");
  const TaskSpec spec = task->spec();
  CHECK(spec.level == "R");
  CHECK(spec.input_vocabulary == 9 + 1);
  CHECK(spec.placeholder_token == 9);
  CHECK(spec.output_classes == 5);
  CHECK(task->output_length(7) == 1);
  CHECK(task->output_length(40) == 1);
  check_contract(*task);
  check_chance(*task, 0.2);
}

}  // namespace
}  // namespace longshot::test
