// reshape, slice, concat, permute, transpose, split_heads, merge_heads.

#include <algorithm>
#include <numeric>

#include "tests/support/op_test.h"

namespace longshot::testing {
namespace {

std::vector<double> counting(int64_t n) {
  std::vector<double> values(static_cast<size_t>(n));
  std::iota(values.begin(), values.end(), 0.0);
  return values;
}

TEST_CASE("reshape: the same memory, the same gradient") {
  on_every_device([](Context& context) {
    const StepScope step(context);
    const Tensor x = value(context, counting(6), {2, 3}, true);
    const Tensor y = ops::reshape(x, {3, 2});
    CHECK(y.data() == x.data());
    CHECK(context.tape().size() == 0);
    backward_with(context, y, {1, 2, 3, 4, 5, 6});
    check_gradient(x, {1, 2, 3, 4, 5, 6});
  });
}

TEST_CASE("slice, concat, permute, transpose: values by hand") {
  on_every_device([](Context& context) {
    const StepScope step(context);
    const Tensor x = value(context, counting(12), {3, 4});
    check_values(ops::slice(x, 0, 1, 3), {4, 5, 6, 7, 8, 9, 10, 11});
    check_values(ops::slice(x, -1, 1, 3), {1, 2, 5, 6, 9, 10});
    CHECK(ops::slice(x, 1, 2, 2).shape() == Shape({3, 0}));
    check_values(ops::transpose(x, 0, 1), {0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11});
    const std::vector<Tensor> parts = {value(context, {1, 2}, {2, 1}),
                                       value(context, {3, 4, 5, 6}, {2, 2}),
                                       value(context, {}, {2, 0})};
    check_values(ops::concat(parts, 1), {1, 3, 4, 2, 5, 6});
    const std::vector<Tensor> rows = {value(context, {1, 2}, {1, 2}),
                                      value(context, {3, 4, 5, 6}, {2, 2})};
    check_values(ops::concat(rows, 0), {1, 2, 3, 4, 5, 6});
    // (2, 1, 3) to (3, 2, 1): element [c, a, b] is x[a, b, c]
    const std::vector<int> axes = {2, 0, 1};
    const Tensor turned = ops::permute(value(context, counting(6), {2, 1, 3}), axes);
    CHECK(turned.shape() == Shape({3, 2, 1}));
    check_values(turned, {0, 3, 1, 4, 2, 5});
  });
}

TEST_CASE("slice and concat: gradients, parts used twice") {
  on_every_device([](Context& context) {
    for (const Shape& shape : {Shape{5}, Shape{3, 4}, Shape{2, 3, 5}, Shape{2, 3, 2, 4}}) {
      std::vector<Tensor> leaves = {random_leaf(context, shape, 1), random_leaf(context, shape, 2)};
      check_gradients(context, leaves, [&] {
        std::vector<Tensor> results;
        for (int axis = 0; axis < shape.rank(); ++axis) {
          results.push_back(ops::slice(leaves[0], axis, 1, shape[axis]));
          results.push_back(ops::slice(leaves[0], axis, 0, 1));
          const std::vector<Tensor> parts = {leaves[0], leaves[1], leaves[0]};
          results.push_back(ops::concat(parts, axis));
        }
        return results;
      });
    }
  });
}

TEST_CASE("permute: gradients for every order of four axes") {
  on_every_device([](Context& context) {
    std::vector<int> axes = {0, 1, 2, 3};
    std::vector<Tensor> leaves = {random_leaf(context, {2, 3, 1, 5}, 1)};
    do {
      check_gradients(context, leaves,
                      [&] { return std::vector<Tensor>{ops::permute(leaves[0], axes)}; });
    } while (std::next_permutation(axes.begin(), axes.end()));
    std::vector<Tensor> others = {random_leaf(context, {3, 7}, 1),
                                  random_leaf(context, {0, 3, 2}, 2)};
    check_gradients(context, others, [&] {
      return std::vector<Tensor>{ops::transpose(others[0], 0, 1), ops::transpose(others[1], 0, -1),
                                 ops::permute(others[1], std::vector<int>{-1, 0, 1})};
    });
  });
}

TEST_CASE("split_heads and merge_heads: equal to slices and transposes, and each other's inverse") {
  on_every_device([](Context& context) {
    for (const Shape& shape : {Shape{1, 1, 1}, Shape{2, 3, 6}, Shape{1, 7, 15}, Shape{2, 0, 3}}) {
      const int64_t heads = shape[2] == 1 ? 1 : 3;
      const int64_t dim = shape[2] / heads;
      std::vector<Tensor> leaves = {random_leaf(context, shape, 1),
                                    random_leaf(context, {shape[0], heads, shape[1], dim}, 2)};
      const auto direct = [&] {
        return std::vector<Tensor>{ops::split_heads(leaves[0], heads), ops::merge_heads(leaves[1]),
                                   ops::merge_heads(ops::split_heads(leaves[0], heads))};
      };
      const auto composed = [&] {
        return std::vector<Tensor>{
            ops::transpose(leaves[0].reshape({shape[0], shape[1], heads, dim}), 1, 2),
            ops::transpose(leaves[1], 1, 2).reshape(shape), ops::scale(leaves[0], 1.0)};
      };
      check_equal(evaluate(context, leaves, direct), evaluate(context, leaves, composed), 0);
      check_gradients(context, leaves, direct);
    }
  });
}

}  // namespace
}  // namespace longshot::testing
