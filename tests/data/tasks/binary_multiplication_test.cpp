#include "tests/data/task_check.h"

namespace longshot::test {
namespace {

// Schoolbook arithmetic on digit lists, least significant first: written for the test alone.
Ids trimmed(Ids digits) {
  while (!digits.empty() && digits.back() == 0) digits.pop_back();
  return digits;
}
Ids multiply(const Ids& a, const Ids& b) {
  std::vector<int64_t> columns(a.size() + b.size() + 1);
  for (size_t i = 0; i < a.size(); ++i)
    for (size_t j = 0; j < b.size(); ++j) columns[i + j] += a[i] * b[j];
  Ids product;
  int64_t carry = 0;
  for (const int64_t column : columns) {
    product.push_back(int32_t((column + carry) % 2));
    carry = (column + carry) / 2;
  }
  REQUIRE(carry == 0);
  return trimmed(product);
}

TEST_CASE("binary_multiplication: examples worked by hand", "[data][tasks]") {
  const auto task = make("binary_multiplication");
  CHECK(find_example(*task, 5, {1, 1, 2, 0, 1}).target == Ids{0, 1, 1, 2, 0});  // 3 * 2 = 6
  CHECK(find_example(*task, 3, {1, 2, 1}).target == Ids{1, 2, 0});              // 1 * 1 = 1
  CHECK(find_example(*task, 5, {1, 1, 2, 1, 1}).target ==
        Ids{1, 0, 0, 1, 2});  // 3 * 3 = 9 leaves room for the terminator alone
  CHECK(find_example(*task, 1, {0}).target == Ids{0});
  CHECK(find_example(*task, 2, {0, 0}).target == Ids{0, 0});
  CHECK(find_example(*task, 3, {1, 2, 1}).scored == std::vector<uint8_t>{1, 1, 0});
}

TEST_CASE("binary_multiplication: targets recomputed from the input", "[data][tasks]") {
  const auto task = make("binary_multiplication");
  for (const int64_t length : {1, 2, 3, 4, 5, 40, 500})
    for (uint64_t index = 0; index < 50; ++index) {
      const Example example = example_of(*task, length, index);
      const Ids& x = example.input;
      INFO("length " << length << ", index " << index);
      REQUIRE(int64_t(x.size()) == length);
      if (length <= 2) continue;
      const auto times = std::find(x.begin(), x.end(), 2);
      REQUIRE(times != x.end());
      const Ids a(x.begin(), times), b(times + 1, x.end());
      REQUIRE_FALSE(trimmed(a).empty());
      REQUIRE_FALSE(trimmed(b).empty());
      Ids wanted = multiply(a, b);
      wanted.push_back(2);
      REQUIRE(scored_places(example) == int64_t(wanted.size()));
      wanted.resize(size_t(length), 0);
      REQUIRE(example.target == wanted);
    }
}

TEST_CASE("binary_multiplication: shape, streams and chance", "[data][tasks]") {
  const auto task = make("binary_multiplication");
  const TaskSpec spec = task->spec();
  CHECK(spec.level == "CS");
  CHECK(spec.input_vocabulary == 3 + 1);
  CHECK(spec.placeholder_token == 3);
  CHECK(spec.output_classes == 3);
  CHECK(task->output_length(7) == 7);
  CHECK(task->output_length(40) == 40);
  check_contract(*task);
  check_chance(*task, 0.5);
}

}  // namespace
}  // namespace longshot::test
