// gather and relative_shift.

#include "tests/support/op_test.h"

namespace longshot::testing {
namespace {

TEST_CASE("gather: values and gradient by hand, repeated and negative indices") {
  on_every_device([](Context& context) {
    const StepScope step(context);
    const Tensor x = value(context, {10, 11, 12, 20, 21, 22}, {2, 3}, true);
    const Tensor index = ints(context, {2, 0, 2, -1, 1, 1, 0, -1}, {2, 4});
    const Tensor y = ops::gather(x, index);
    check_values(y, {12, 10, 12, 0, 21, 21, 20, 0});
    backward_with(context, y, {1, 2, 4, 100, 8, 16, 32, 100});
    check_gradient(x, {2, 0, 5, 32, 24, 0});
  });
}

TEST_CASE("gather: gradients, one index for all or one a batch") {
  struct Case {
    Shape x, index;
  };
  const std::vector<Case> cases = {{{1, 1}, {1, 1}},       {{3, 5}, {3, 2}},
                                   {{2, 3, 5}, {3, 7}},    {{2, 3, 5}, {2, 3, 7}},
                                   {{2, 3, 4, 5}, {4, 3}}, {{2, 3, 4, 5}, {2, 4, 3}},
                                   {{2, 3, 5}, {3, 0}}};
  on_every_device([&](Context& context) {
    for (const Case& each : cases) {
      INFO(each.x.to_string() << " by " << each.index.to_string());
      std::vector<Tensor> leaves = {random_leaf(context, each.x, 1)};
      const Tensor index =
          integers(context, random_integers(each.index.elements(), 2, -1, int32_t(each.x[-1]) - 1),
                   each.index);
      check_gradients(context, leaves, [&] {
        return std::vector<Tensor>{ops::gather(leaves[0], index),
                                   ops::gather(ops::square(leaves[0]), index)};
      });
    }
  });
}

TEST_CASE("relative_shift: bidirectional distances (B19)") {
  on_every_device([](Context& context) {
    const StepScope step(context);
    // Table value = query - key, so that row i must read i - j.
    const Tensor x = value(context, {2, 1, 0, -1, -2, 2, 1, 0, -1, -2, 2, 1, 0, -1, -2}, {3, 5});
    check_values(ops::relative_shift(x, 3), {0, -1, -2, 1, 0, -1, 2, 1, 0});
    // One query at the end of three keys.
    const Tensor last = ops::slice(x, 0, 0, 1);
    check_values(ops::relative_shift(last, 3, 2), {2, 1, 0});
  });
}

TEST_CASE("relative_shift: equals gather, with gradients") {
  struct Case {
    Shape x;
    int64_t keys, offset;
  };
  const std::vector<Case> cases = {{{1, 1}, 1, 0},    {{3, 5}, 3, 0},    {{2, 3, 7}, 4, 0},
                                   {{2, 3, 9}, 5, 1}, {{5, 2, 5}, 2, 1}, {{2, 3, 2, 13}, 7, 5},
                                   {{2, 0, 3}, 2, 0}, {{2, 3, 7}, 0, 0}, {{7, 2, 3}, 2, 0}};
  on_every_device([&](Context& context) {
    for (const Case& each : cases) {
      INFO(each.x.to_string() << " to " << each.keys << " keys from " << each.offset);
      std::vector<Tensor> leaves = {random_leaf(context, each.x, 1)};
      const int64_t rows = each.x[-2], reach = (each.x[-1] + 1) / 2;
      std::vector<int32_t> picked;
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < each.keys; ++j)
          picked.push_back(int32_t(reach - 1 + j - i - each.offset));
      const Tensor index = integers(context, picked, {rows, each.keys});
      const auto shifted = [&] {
        return std::vector<Tensor>{ops::relative_shift(leaves[0], each.keys, each.offset),
                                   ops::square(leaves[0])};
      };
      const auto gathered = [&] {
        return std::vector<Tensor>{ops::gather(leaves[0], index), ops::square(leaves[0])};
      };
      check_equal(evaluate(context, leaves, shifted), evaluate(context, leaves, gathered), 1e-15);
      check_gradients(context, leaves, shifted);
    }
  });
}

}  // namespace
}  // namespace longshot::testing
