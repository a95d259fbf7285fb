// norm and add_norm.

#include <cmath>

#include "tests/support/compositions.h"
#include "tests/support/op_test.h"

namespace longshot::testing {
namespace {

TEST_CASE("norm: biased variance, epsilon inside the root (B29)") {
  on_every_device([](Context& context) {
    const StepScope step(context);
    const Tensor x = value(context, {1, 0, 0, 0}, {1, 4});
    // mean 1/4, variance 3/16: 0.75 / sqrt(0.1875 + 1e-5) and -0.25 / sqrt(0.1875 + 1e-5)
    check_values(ops::norm(x, {}, {}), {1.73200462, -0.57733487, -0.57733487, -0.57733487}, 1e-8);
    // RMS: 1 / sqrt(1/4 + 1e-5)
    check_values(ops::norm(x, {}, {}, {.rms = true}), {1 / std::sqrt(0.25001), 0, 0, 0}, 1e-12);
    const Tensor gain = value(context, {2, 1, 1, 1}, {4}), bias = value(context, {1, 0, 0, 5}, {4});
    check_values(ops::norm(x, gain, bias),
                 {2 * 1.73200462 + 1, -0.57733487, -0.57733487, 5 - 0.57733487}, 1e-8);
  });
}

TEST_CASE("add_norm: the sum, and its normalised form, by hand") {
  on_every_device([](Context& context) {
    const StepScope step(context);
    const ops::AddNormResult result =
        ops::add_norm(value(context, {1, 2}, {1, 2}), value(context, {0, 3}, {1, 2}), {}, {});
    check_values(result.sum, {1, 5});
    // mean 3, variance 4
    const double unit = 2 / std::sqrt(4 + 1e-5);
    check_values(result.normed, {-unit, unit}, 1e-12);
  });
}

struct Case {
  Shape shape;
  bool rms, gain, bias;
};
const std::vector<Case> kCases = {
    {{1}, false, true, true},       {{1, 1}, true, true, true},      {{3, 5}, false, true, true},
    {{2, 3, 7}, true, true, false}, {{2, 3, 7}, false, false, true}, {{5, 17}, false, false, false},
    {{3, 16}, true, false, false},  {{0, 4}, false, true, true},     {{4, 33}, false, true, true},
};

TEST_CASE("norm: equals its composition, with gradients") {
  on_every_device([](Context& context) {
    for (const Case& each : kCases) {
      INFO(each.shape.to_string() << " rms " << each.rms);
      const int64_t width = each.shape[-1];
      std::vector<Tensor> leaves = {random_leaf(context, each.shape, 1)};
      Tensor gain, bias;
      if (each.gain) leaves.push_back(gain = random_leaf(context, {width}, 2));
      if (each.bias) leaves.push_back(bias = random_leaf(context, {width}, 3));
      const ops::NormOptions options{.rms = each.rms, .epsilon = 1e-3};
      const auto fused = [&] {
        return std::vector<Tensor>{ops::norm(leaves[0], gain, bias, options)};
      };
      const auto composed = [&] {
        return std::vector<Tensor>{compositions::norm(leaves[0], gain, bias, options)};
      };
      check_equal(evaluate(context, leaves, fused), evaluate(context, leaves, composed), 1e-9);
      check_gradients(context, leaves, fused);
    }
  });
}

TEST_CASE("add_norm: equals its composition with and without dropout, both results used") {
  on_every_device([](Context& context) {
    for (const Case& each : kCases) {
      for (const float p : {0.0f, 0.3f}) {
        for (int used = 1; used <= 3; ++used) {  // bit 0: the sum, bit 1: the normed result
          INFO(each.shape.to_string()
               << " rms " << each.rms << " dropout " << p << " used " << used);
          const int64_t width = each.shape[-1];
          std::vector<Tensor> leaves = {random_leaf(context, each.shape, 1),
                                        random_leaf(context, each.shape, 4)};
          Tensor gain, bias;
          if (each.gain) leaves.push_back(gain = random_leaf(context, {width}, 2));
          if (each.bias) leaves.push_back(bias = random_leaf(context, {width}, 3));
          const ops::NormOptions options{.rms = each.rms, .epsilon = 1e-3};
          const DropoutSpec dropout{.p = p, .stream = 4, .state = context.step_state()};
          const auto choose = [&](const Tensor& sum, const Tensor& normed) {
            std::vector<Tensor> results;
            if (used & 1) results.push_back(sum);
            if (used & 2) results.push_back(normed);
            return results;
          };
          const auto fused = [&] {
            const ops::AddNormResult result =
                ops::add_norm(leaves[0], leaves[1], gain, bias, dropout, options);
            return choose(result.sum, result.normed);
          };
          const auto composed = [&] {
            const std::vector<Tensor> result =
                compositions::add_norm(leaves[0], leaves[1], gain, bias, dropout, options);
            return choose(result[0], result[1]);
          };
          check_equal(evaluate(context, leaves, fused), evaluate(context, leaves, composed), 1e-9);
          if (used == 3) check_gradients(context, leaves, fused);
        }
      }
    }
  });
}

TEST_CASE("norm: one tensor in two roles") {
  on_every_device([](Context& context) {
    std::vector<Tensor> leaves = {random_leaf(context, {3, 5}, 1), random_leaf(context, {5}, 2)};
    check_gradients(context, leaves, [&] {
      const ops::AddNormResult doubled =
          ops::add_norm(leaves[0], leaves[0], leaves[1], leaves[1],
                        {.p = 0.3f, .stream = 4, .state = context.step_state()});
      return std::vector<Tensor>{doubled.sum, doubled.normed,
                                 ops::norm(leaves[0], leaves[1], leaves[1])};
    });
  });
}

}  // namespace
}  // namespace longshot::testing
