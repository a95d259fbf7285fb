#include "tests/data/task_check.h"

namespace longshot::test {
namespace {

// Schoolbook arithmetic on digit lists, least significant first: written for the test alone.
Ids trimmed(Ids digits) {
  while (!digits.empty() && digits.back() == 0) digits.pop_back();
  return digits;
}
Ids add(const Ids& a, const Ids& b) {
  Ids sum;
  int32_t carry = 0;
  for (size_t i = 0; i < std::max(a.size(), b.size()) + 1; ++i) {
    const int32_t column = (i < a.size() ? a[i] : 0) + (i < b.size() ? b[i] : 0) + carry;
    sum.push_back(column % 2);
    carry = column / 2;
  }
  return trimmed(sum);
}

TEST_CASE("binary_addition: examples worked by hand", "[data][tasks]") {
  const auto task = make("binary_addition");
  CHECK(find_example(*task, 5, {1, 1, 2, 0, 1}).target == Ids{1, 0, 1, 2, 0, 0});  // 3 + 2 = 5
  CHECK(find_example(*task, 3, {1, 2, 1}).target == Ids{0, 1, 2, 0});              // 1 + 1 = 2
  CHECK(find_example(*task, 6, {1, 1, 1, 2, 1, 0}).target ==
        Ids{0, 0, 0, 1, 2, 0, 0});  // 7 + 1 = 8, the second number zero-padded
  CHECK(find_example(*task, 1, {1}).target == Ids{1, 2});
  CHECK(find_example(*task, 2, {0, 1}).target == Ids{0, 1, 2});
  CHECK(find_example(*task, 2, {1, 0}).target == Ids{1, 2, 0});
  CHECK(find_example(*task, 5, {1, 1, 2, 0, 1}).scored == std::vector<uint8_t>{1, 1, 1, 1, 0, 0});
}

TEST_CASE("binary_addition: targets recomputed from the input", "[data][tasks]") {
  const auto task = make("binary_addition");
  for (const int64_t length : {1, 2, 3, 4, 5, 40, 500})
    for (uint64_t index = 0; index < 50; ++index) {
      const Example example = example_of(*task, length, index);
      const Ids& x = example.input;
      INFO("length " << length << ", index " << index);
      REQUIRE(int64_t(x.size()) == length);
      Ids wanted;
      if (length <= 2) {
        wanted = trimmed(x);
      } else {
        REQUIRE(std::count(x.begin(), x.end(), 2) == 1);
        const auto plus = std::find(x.begin(), x.end(), 2);
        const Ids a(x.begin(), plus), b(plus + 1, x.end());
        REQUIRE_FALSE(trimmed(a).empty());
        REQUIRE_FALSE(trimmed(b).empty());
        wanted = add(a, b);
      }
      wanted.push_back(2);
      REQUIRE(scored_places(example) == int64_t(wanted.size()));
      wanted.resize(size_t(length + 1), 0);
      REQUIRE(example.target == wanted);
    }
}

TEST_CASE("binary_addition: shape, streams and chance", "[data][tasks]") {
  const auto task = make("binary_addition");
  const TaskSpec spec = task->spec();
  CHECK(spec.level == "CS");
  CHECK(spec.input_vocabulary == 3 + 1);
  CHECK(spec.placeholder_token == 3);
  CHECK(spec.output_classes == 3);
  CHECK(task->output_length(7) == 8);
  CHECK(task->output_length(40) == 41);
  check_contract(*task);
  check_chance(*task, 0.5);
}

}  // namespace
}  // namespace longshot::test
