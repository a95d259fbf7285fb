// add, sub, mul, scale, add_scalar, scale_rows, the functions of one number, dropout.

#include <cmath>

#include "core/random.h"
#include "tests/support/op_test.h"

namespace longshot::testing {
namespace {

TEST_CASE("add, sub, mul: values by hand, equal shapes and repeated suffixes") {
  on_every_device([](Context& context) {
    const StepScope step(context);
    const Tensor a = value(context, {1, 2, 3, 4, 5, 6}, {2, 3});
    const Tensor b = value(context, {10, 20, 30}, {3});
    const Tensor scalar = value(context, {2}, {});
    check_values(ops::add(a, b), {11, 22, 33, 14, 25, 36});
    check_values(ops::sub(a, b), {-9, -18, -27, -6, -15, -24});
    check_values(ops::mul(a, b), {10, 40, 90, 40, 100, 180});
    check_values(ops::mul(a, a), {1, 4, 9, 16, 25, 36});
    check_values(ops::mul(a, scalar), {2, 4, 6, 8, 10, 12});
    check_values(ops::add(scalar, scalar), {4});
  });
}

TEST_CASE("add: the repeated operand's gradient has its own shape (B30)") {
  on_every_device([](Context& context) {
    const StepScope step(context);
    const Tensor a = value(context, {1, 2, 3, 4, 5, 6}, {2, 3}, true);
    const Tensor b = value(context, {0, 0, 0}, {3}, true);
    backward_with(context, ops::add(a, b), {1, 2, 3, 10, 20, 30});
    check_gradient(a, {1, 2, 3, 10, 20, 30});
    check_gradient(b, {11, 22, 33});
  });
}

TEST_CASE("add, sub, mul: gradients over odd shapes and reused operands (B30)") {
  struct Case {
    Shape a, b;
  };
  const std::vector<Case> cases = {
      {{}, {}},         {{1}, {1}},          {{2, 3}, {3}},       {{2, 3}, {}},
      {{2, 3}, {2, 3}}, {{5, 7, 3}, {7, 3}}, {{2, 3, 1, 5}, {5}}, {{0, 3}, {3}},
      {{3, 0}, {0}},    {{1, 17}, {17}}};
  on_every_device([&](Context& context) {
    for (const Case& each : cases) {
      INFO(each.a.to_string() << " and " << each.b.to_string());
      std::vector<Tensor> leaves = {random_leaf(context, each.a, 1),
                                    random_leaf(context, each.b, 2)};
      check_gradients(context, leaves, [&] {
        const Tensor& a = leaves[0];
        const Tensor& b = leaves[1];
        return std::vector<Tensor>{ops::add(a, b), ops::sub(a, b), ops::mul(a, b)};
      });
      check_gradients(context, leaves, [&] {
        const Tensor product = ops::mul(leaves[0], leaves[0]);  // one tensor twice
        return std::vector<Tensor>{ops::add(product, product), ops::sub(product, leaves[0])};
      });
    }
  });
}

TEST_CASE("scale, add_scalar, scale_rows: values and gradients") {
  on_every_device([](Context& context) {
    {
      const StepScope step(context);
      const Tensor x = value(context, {1, 2, 3, 4, 5, 6}, {2, 3});
      check_values(ops::scale(x, -2), {-2, -4, -6, -8, -10, -12});
      check_values(ops::add_scalar(x, 0.5), {1.5, 2.5, 3.5, 4.5, 5.5, 6.5});
      check_values(ops::scale_rows(x, value(context, {10, -1}, {2})), {10, 20, 30, -4, -5, -6});
    }
    for (const Shape& shape : {Shape{1}, Shape{2, 3}, Shape{3, 5, 7}, Shape{0, 3}, Shape{3, 0}}) {
      Shape rows;
      for (int i = 0; i + 1 < shape.rank(); ++i) rows.append(shape[i]);
      std::vector<Tensor> leaves = {random_leaf(context, shape, 1), random_leaf(context, rows, 2)};
      check_gradients(context, leaves, [&] {
        return std::vector<Tensor>{ops::scale(leaves[0], 3), ops::add_scalar(leaves[0], 3),
                                   ops::scale_rows(leaves[0], leaves[1])};
      });
    }
  });
}

TEST_CASE("functions of one number: values from independent sources") {
  on_every_device([](Context& context) {
    const StepScope step(context);
    const Tensor x = value(context, {-1, 0, 2}, {3});
    check_values(ops::relu(x), {0, 0, 2});
    // x Phi(x): Phi(1) = 0.841344746068543, Phi(2) = 0.977249868051821 (tables of the normal law)
    check_values(ops::gelu(x), {-0.158655253931457, 0, 1.954499736103642}, 1e-12);
    // sqrt(2/pi) (2 + 0.044715 * 8) = 1.8812... ; 1 + tanh(u) by its definition
    const auto approximate = [](double v) {
      const double u = 0.7978845608028654 * (v + 0.044715 * v * v * v);
      return v * (1 - 1 / (std::exp(2 * u) + 1));
    };
    check_values(ops::gelu_tanh(x), {approximate(-1), 0, approximate(2)}, 1e-12);
    check_values(ops::exp(x), {0.36787944117144233, 1, 7.38905609893065}, 1e-12);
    check_values(ops::tanh(x), {-0.7615941559557649, 0, 0.9640275800758169}, 1e-12);
    check_values(ops::sigmoid(x), {0.2689414213699951, 0.5, 0.8807970779778823}, 1e-12);
    check_values(ops::square(x), {1, 0, 4});
    check_values(ops::log(value(context, {1, 10, 0.5}, {3})),
                 {0, 2.302585092994046, -0.6931471805599453}, 1e-12);
  });
}

TEST_CASE("functions of one number: gradients, also far from zero") {
  on_every_device([](Context& context) {
    for (const int64_t n : {0, 1, 7, 64, 131}) {
      std::vector<Tensor> leaves = {random_leaf(context, {n}, 1, -4, 4),
                                    random_leaf(context, {n}, 2, 0.2, 3)};
      check_gradients(context, leaves, [&] {
        const Tensor& x = leaves[0];
        return std::vector<Tensor>{ops::relu(x),        ops::gelu(x),       ops::gelu_tanh(x),
                                   ops::tanh(x),        ops::sigmoid(x),    ops::square(x),
                                   ops::log(leaves[1]), ops::exp(leaves[1])};
      });
    }
  });
}

TEST_CASE("relu: no gradient at zero") {
  on_every_device([](Context& context) {
    const StepScope step(context);
    const Tensor x = value(context, {-1, 0, 1}, {3}, true);
    backward_with(context, ops::relu(x), {5, 5, 5});
    check_gradient(x, {0, 0, 5});
  });
}

TEST_CASE("dropout: exactly the elements that Philox names, scaled by 1 / (1 - p)") {
  on_every_device([](Context& context) {
    const StepScope step(context);
    const StepState state{.seed = 11, .step = 5, .training = 1, .sample_offset = 2};
    context.set_step_state(state);
    const DropoutSpec spec{
        .p = 0.25f, .stream = 9, .elements_per_sample = 13, .state = context.step_state()};
    const int64_t n = 101;
    const Tensor x = value(context, random_values(n, 1), {n}, true);
    const Tensor y = ops::dropout(x, spec);
    std::vector<double> expected = x.to_doubles(), gradient;
    const RandomKey key{11, RandomPurpose::dropout, 9, 5};
    int dropped = 0;
    for (int64_t i = 0; i < n; ++i) {
      const bool kept = to_unit_float(random_word(key, uint64_t(i + 2 * 13))) >= 0.25f;
      dropped += kept ? 0 : 1;
      gradient.push_back(kept ? 1.0 / 0.75 : 0.0);
      expected[size_t(i)] *= gradient.back();
    }
    CHECK(dropped > 10);
    CHECK(dropped < 45);
    check_values(y, expected, 1e-7);  // the rate is a float
    context.tape().backward(ops::sum(y));
    check_gradient(x, gradient, 1e-7);
  });
}

TEST_CASE("dropout: does nothing in evaluation or at rate 0") {
  on_every_device([](Context& context) {
    const StepScope step(context);
    context.set_step_state({.seed = 1, .training = 0});
    const Tensor x = value(context, {1, 2, 3}, {3});
    check_values(ops::dropout(x, {.p = 0.9f, .stream = 1, .state = context.step_state()}),
                 {1, 2, 3});
    CHECK(ops::dropout(x, {}).data() == x.data());
    // Without a state the context's own is used.
    context.set_step_state({.seed = 1, .training = 1});
    const std::vector<double> a = ops::dropout(x, {.p = 0.9f, .stream = 1}).to_doubles();
    CHECK(a ==
          ops::dropout(x, {.p = 0.9f, .stream = 1, .state = context.step_state()}).to_doubles());
  });
}

TEST_CASE("dropout: gradients") {
  on_every_device([](Context& context) {
    std::vector<Tensor> leaves = {random_leaf(context, {3, 7}, 1)};
    check_gradients(context, leaves, [&] {
      const DropoutSpec spec{.p = 0.4f, .stream = 1, .state = context.step_state()};
      return std::vector<Tensor>{ops::dropout(leaves[0], spec), ops::square(leaves[0])};
    });
  });
}

}  // namespace
}  // namespace longshot::testing
