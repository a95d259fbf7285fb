// sum, mean, repeat_rows, softmax, log_softmax, argmax.

#include <cmath>

#include "tests/support/op_test.h"

namespace longshot::testing {
namespace {

TEST_CASE("sum and mean: values by hand") {
  on_every_device([](Context& context) {
    const StepScope step(context);
    const Tensor x = value(context, {1, 2, 3, 4, 5, 6}, {2, 3});
    check_values(ops::sum(x), {21});
    CHECK(ops::sum(x).shape() == Shape{});
    check_values(ops::mean(x), {3.5});
    check_values(ops::sum(x, 0), {5, 7, 9});
    check_values(ops::sum(x, -1), {6, 15});
    check_values(ops::mean(x, 0), {2.5, 3.5, 4.5});
    check_values(ops::mean(x, 1), {2, 5});
    const Tensor cube = value(context, {1, 2, 3, 4, 5, 6, 7, 8}, {2, 2, 2});
    check_values(ops::sum(cube, 1), {4, 6, 12, 14});
    check_values(ops::sum(value(context, {}, {0, 3}), 0), {0, 0, 0});
    check_values(ops::sum(value(context, {}, {0})), {0});
  });
}

TEST_CASE("sum, mean, repeat_rows: gradients") {
  on_every_device([](Context& context) {
    for (const Shape& shape :
         {Shape{1}, Shape{7}, Shape{2, 3}, Shape{5, 1, 3}, Shape{2, 3, 5, 7}}) {
      std::vector<Tensor> leaves = {random_leaf(context, shape, 1)};
      check_gradients(context, leaves, [&] {
        std::vector<Tensor> results = {ops::sum(leaves[0]), ops::mean(leaves[0])};
        for (int axis = 0; axis < shape.rank(); ++axis) {
          results.push_back(ops::sum(leaves[0], axis));
          results.push_back(ops::mean(leaves[0], axis));
        }
        if (shape.rank() < 4) results.push_back(ops::repeat_rows(leaves[0], 3));
        return results;
      });
    }
  });
}

TEST_CASE("repeat_rows: values by hand") {
  on_every_device([](Context& context) {
    const StepScope step(context);
    const Tensor x = value(context, {1, 2}, {2});
    const Tensor y = ops::repeat_rows(x, 3);
    CHECK(y.shape() == Shape({3, 2}));
    check_values(y, {1, 2, 1, 2, 1, 2});
    CHECK(ops::repeat_rows(x, 0).shape() == Shape({0, 2}));
  });
}

TEST_CASE("softmax: values by hand, large inputs included") {
  on_every_device([](Context& context) {
    const StepScope step(context);
    const double ln2 = std::log(2.0), ln3 = std::log(3.0);
    const Tensor x = value(context, {0, ln2, ln3, 1000, 1000 + ln3, -1000}, {2, 3});
    check_values(ops::softmax(x), {1.0 / 6, 2.0 / 6, 3.0 / 6, 0.25, 0.75, 0}, 1e-12);
    check_values(ops::log_softmax(x),
                 {-std::log(6.0), ln2 - std::log(6.0), ln3 - std::log(6.0), -std::log(4.0),
                  ln3 - std::log(4.0), -2000 - std::log(4.0)},
                 1e-12);
  });
}

TEST_CASE("softmax: gradient by hand") {
  on_every_device([](Context& context) {
    const StepScope step(context);
    const Tensor x = value(context, {0, 0}, {2}, true);
    backward_with(context, ops::softmax(x), {1, 0});
    check_gradient(x, {0.25, -0.25});  // p (dy - sum dy p), p = 1/2
    const Tensor z = value(context, {0, 0}, {2}, true);
    backward_with(context, ops::log_softmax(z), {1, 0});
    check_gradient(z, {0.5, -0.5});
  });
}

TEST_CASE("softmax, log_softmax: gradients") {
  on_every_device([](Context& context) {
    for (const Shape& shape :
         {Shape{1}, Shape{3, 1}, Shape{2, 5}, Shape{2, 3, 17}, Shape{0, 3}, Shape{3, 0}}) {
      std::vector<Tensor> leaves = {random_leaf(context, shape, 1, -3, 3)};
      check_gradients(context, leaves, [&] {
        return std::vector<Tensor>{ops::softmax(leaves[0]), ops::log_softmax(leaves[0]),
                                   ops::softmax(ops::mul(leaves[0], leaves[0]))};
      });
    }
  });
}

TEST_CASE("argmax: first of equals, no gradient") {
  on_every_device([](Context& context) {
    const StepScope step(context);
    const Tensor x = value(context, {1, 3, 3, -5, -7, -5, 0, 0, 0}, {3, 3}, true);
    const Tensor best = ops::argmax(x);
    CHECK(best.shape() == Shape({3}));
    CHECK(best.to_host<int32_t>() == std::vector<int32_t>{1, 0, 0});
    CHECK(!best.requires_gradient());
  });
}

}  // namespace
}  // namespace longshot::testing
