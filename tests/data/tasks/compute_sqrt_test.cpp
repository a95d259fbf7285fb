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
bool less(const Ids& a, const Ids& b) {  // both trimmed
  if (a.size() != b.size()) return a.size() < b.size();
  return std::lexicographical_compare(a.rbegin(), a.rend(), b.rbegin(), b.rend());
}

TEST_CASE("compute_sqrt: examples worked by hand", "[data][tasks]") {
  const auto task = make("compute_sqrt");
  CHECK(find_example(*task, 5, {0, 1, 1, 0, 1}).target == Ids{0, 1, 1});  // 13: 3
  CHECK(find_example(*task, 4, {1, 1, 1, 1}).target == Ids{1, 1});        // 15: 3
  CHECK(find_example(*task, 5, {1, 0, 0, 0, 0}).target == Ids{1, 0, 0});  // 16: 4
  CHECK(find_example(*task, 1, {1}).target == Ids{1});
  CHECK(find_example(*task, 2, {1, 0}).target == Ids{1});
  CHECK(find_example(*task, 3, {1, 1, 1}).target == Ids{1, 0});  // 7: 2
}

TEST_CASE("compute_sqrt: targets recomputed from the input", "[data][tasks]") {
  const auto task = make("compute_sqrt");
  for (const int64_t length : {1, 2, 3, 4, 5, 40, 500})
    for (uint64_t index = 0; index < 50; ++index) {
      const Example example = example_of(*task, length, index);
      const Ids& x = example.input;
      INFO("length " << length << ", index " << index);
      // root^2 <= number < (root + 1)^2, all least significant first.
      const Ids number = trimmed(Ids(x.rbegin(), x.rend()));
      const Ids root = trimmed(Ids(example.target.rbegin(), example.target.rend()));
      REQUIRE_FALSE(number.empty());
      REQUIRE_FALSE(less(number, multiply(root, root)));
      const Ids next = add(root, {1});
      REQUIRE(less(number, multiply(next, next)));
      REQUIRE(scored_places(example) == (length + 1) / 2);
    }
}

TEST_CASE("compute_sqrt: shape, streams and chance", "[data][tasks]") {
  const auto task = make("compute_sqrt");
  const TaskSpec spec = task->spec();
  CHECK(spec.level == "CS");
  CHECK(spec.input_vocabulary == 2 + 1);
  CHECK(spec.placeholder_token == 2);
  CHECK(spec.output_classes == 2);
  CHECK(task->output_length(7) == 4);
  CHECK(task->output_length(40) == 20);
  check_contract(*task);
  check_chance(*task, 0.5);
}

}  // namespace
}  // namespace longshot::test
