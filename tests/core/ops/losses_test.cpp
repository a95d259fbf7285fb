// cross_entropy, mean_squared_error, binary_logistic.

#include <cmath>

#include "tests/support/compositions.h"
#include "tests/support/op_test.h"

namespace longshot::testing {
namespace {

TEST_CASE("cross_entropy: values and gradient by hand, ignored rows not counted (B23)") {
  on_every_device([](Context& context) {
    const StepScope step(context);
    const double ln3 = std::log(3.0);
    // p = (1/4, 3/4), (1/2, 1/2), ignored
    const Tensor logits = value(context, {0, ln3, 5, 5, 1, 2}, {3, 2}, true);
    const Tensor targets = ints(context, {1, 0, -1}, {3});
    const ops::LossResult result = ops::cross_entropy(logits, targets);
    check_values(result.row_loss, {std::log(4.0 / 3), std::log(2.0), 0}, 1e-12);
    check_values(result.loss, {(std::log(4.0 / 3) + std::log(2.0)) / 2}, 1e-12);
    CHECK(!result.row_loss.requires_gradient());
    context.tape().backward(result.loss);
    check_gradient(logits, {0.125, -0.125, -0.25, 0.25, 0, 0}, 1e-12);
  });
}

TEST_CASE("cross_entropy: label smoothing by hand") {
  on_every_device([](Context& context) {
    const StepScope step(context);
    const double ln3 = std::log(3.0);
    const Tensor logits = value(context, {0, ln3}, {1, 2}, true);
    const ops::LossResult result =
        ops::cross_entropy(logits, ints(context, {1}, {1}), {.smoothing = 0.2});
    // 0.8 log(4/3) + 0.2 (log 4 + log(4/3)) / 2
    check_values(result.loss, {0.9 * std::log(4.0 / 3) + 0.1 * std::log(4.0)}, 1e-12);
    context.tape().backward(result.loss);
    check_gradient(logits, {0.25 - 0.1, 0.75 - 0.9}, 1e-12);
  });
}

TEST_CASE("cross_entropy: all targets ignored gives loss 0 and zero gradients (B23)") {
  on_every_device([](Context& context) {
    const StepScope step(context);
    const Tensor logits = value(context, random_values(15, 1), {3, 5}, true);
    const ops::LossResult result =
        ops::cross_entropy(logits, ints(context, {-1, -1, -1}, {3}), {.smoothing = 0.1});
    check_values(result.loss, {0}, 0);
    context.tape().backward(result.loss);
    check_gradient(logits, std::vector<double>(15, 0.0), 0);
    const ops::LossResult empty =
        ops::cross_entropy(value(context, {}, {0, 4}), ints(context, {}, {0}));
    check_values(empty.loss, {0}, 0);
  });
}

TEST_CASE("cross_entropy: a given count makes micro-batches add up (B24)") {
  on_every_device([](Context& context) {
    const StepScope step(context);
    context.set_step_state({.training = 1, .target_count = 8});
    const double* count = &context.step_state()->target_count;
    const Tensor logits = value(context, {0, 0, 0, 0}, {2, 2}, true);
    const ops::LossResult result =
        ops::cross_entropy(logits, ints(context, {0, 1}, {2}), {.count_override = count});
    check_values(result.loss, {2 * std::log(2.0) / 8}, 1e-12);
    context.tape().backward(result.loss);
    check_gradient(logits, {-0.0625, 0.0625, 0.0625, -0.0625}, 1e-12);
  });
}

TEST_CASE("cross_entropy: equals its composition, with gradients") {
  struct Case {
    Shape logits;
    double smoothing;
  };
  const std::vector<Case> cases = {{{1, 1}, 0},        {{5, 3}, 0.1}, {{2, 3, 7}, 0},
                                   {{2, 3, 17}, 0.25}, {{4}, 0},      {{2, 2, 2, 5}, 0.1},
                                   {{7, 33}, 0},       {{67, 2}, 0.1}};
  on_every_device([&](Context& context) {
    for (const Case& each : cases) {
      INFO(each.logits.to_string() << " smoothing " << each.smoothing);
      std::vector<Tensor> leaves = {random_leaf(context, each.logits, 1, -3, 3)};
      Shape rows;
      for (int i = 0; i + 1 < each.logits.rank(); ++i) rows.append(each.logits[i]);
      const Tensor targets = integers(
          context, random_integers(rows.elements(), 2, -1, int32_t(each.logits[-1]) - 1), rows);
      const auto fused = [&] {
        return std::vector<Tensor>{
            ops::cross_entropy(leaves[0], targets, {.smoothing = each.smoothing}).loss};
      };
      const auto composed = [&] {
        return std::vector<Tensor>{compositions::cross_entropy(leaves[0], targets, each.smoothing)};
      };
      check_equal(evaluate(context, leaves, fused), evaluate(context, leaves, composed), 1e-11);
      check_gradients(context, leaves, fused);
    }
  });
}

TEST_CASE("cross_entropy: large logits stay finite") {
  on_every_device([](Context& context) {
    const StepScope step(context);
    const Tensor logits = value(context, {1e4, -1e4, 0}, {1, 3}, true);
    const ops::LossResult result = ops::cross_entropy(logits, ints(context, {1}, {1}));
    check_values(result.loss, {2e4}, 1e-12);
    context.tape().backward(result.loss);
    check_gradient(logits, {1, -1, 0}, 1e-12);
  });
}

TEST_CASE("mean_squared_error and binary_logistic: by hand") {
  on_every_device([](Context& context) {
    const StepScope step(context);
    const Tensor x = value(context, {1, 2, 0}, {3}, true);
    const Tensor target = value(context, {0, 4, 7}, {3});
    const Tensor loss = ops::mean_squared_error(x, target, ints(context, {1, 1, 0}, {3}));
    check_values(loss, {2.5});  // (1 + 4) / 2
    context.tape().backward(loss);
    check_gradient(x, {1, -2, 0});
    const Tensor z = value(context, {0, std::log(3.0)}, {2}, true);
    const Tensor logistic = ops::binary_logistic(z, value(context, {1, 0}, {2}));
    check_values(logistic, {(std::log(2.0) + std::log(4.0)) / 2}, 1e-12);
    context.tape().backward(logistic);
    check_gradient(z, {-0.25, 0.375}, 1e-12);
    const Tensor none = ops::mean_squared_error(x, target, ints(context, {0, 0, 0}, {3}));
    check_values(none, {0}, 0);
  });
}

TEST_CASE("mean_squared_error and binary_logistic: equal their compositions, with gradients") {
  on_every_device([](Context& context) {
    for (const Shape& shape : {Shape{1}, Shape{7}, Shape{3, 5}, Shape{2, 3, 11}, Shape{0}}) {
      for (const bool masked : {false, true}) {
        INFO(shape.to_string() << " masked " << masked);
        std::vector<Tensor> leaves = {random_leaf(context, shape, 1, -4, 4)};
        Tensor target = random_leaf(context, shape, 2, 0, 1);
        target.set_requires_gradient(false);
        Tensor mask;
        if (masked) mask = integers(context, random_integers(shape.elements(), 3, 0, 1), shape);
        const auto fused = [&] {
          return std::vector<Tensor>{ops::mean_squared_error(leaves[0], target, mask),
                                     ops::binary_logistic(leaves[0], target, mask)};
        };
        const auto composed = [&] {
          return std::vector<Tensor>{compositions::mean_squared_error(leaves[0], target, mask),
                                     compositions::binary_logistic(leaves[0], target, mask)};
        };
        check_equal(evaluate(context, leaves, fused), evaluate(context, leaves, composed), 1e-11);
        check_gradients(context, leaves, fused);
      }
    }
  });
}

}  // namespace
}  // namespace longshot::testing
