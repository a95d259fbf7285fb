// matmul, outer, linear, linear_heads.

#include "tests/support/compositions.h"
#include "tests/support/op_test.h"

namespace longshot::testing {
namespace {

using ops::MatmulOptions;

TEST_CASE("matmul: values and gradients by hand") {
  on_every_device([](Context& context) {
    const StepScope step(context);
    // [1 2; 3 4] [5 6; 7 8] = [19 22; 43 50]
    const Tensor a = value(context, {1, 2, 3, 4}, {2, 2}, true);
    const Tensor b = value(context, {5, 6, 7, 8}, {2, 2}, true);
    const Tensor c = ops::matmul(a, b);
    check_values(c, {19, 22, 43, 50});
    // dA = dC B^T, dB = A^T dC with dC = [1 0; 0 2]
    backward_with(context, c, {1, 0, 0, 2});
    check_gradient(a, {5, 7, 12, 16});
    check_gradient(b, {1, 6, 2, 8});
  });
}

TEST_CASE("matmul: alpha and transposes by hand") {
  on_every_device([](Context& context) {
    const StepScope step(context);
    const Tensor a = value(context, {1, 2, 3, 4, 5, 6}, {2, 3});
    const Tensor b = value(context, {1, 0, 2, 1, 1, 3}, {2, 3});
    // a b^T: rows (1 2 3) and (4 5 6) against (1 0 2) and (1 1 3)
    check_values(ops::matmul(a, b, {.transpose_b = true}), {7, 12, 16, 27});
    // half of a^T b (3, 3)
    check_values(ops::matmul(a, b, {.transpose_a = true, .alpha = 0.5}),
                 {2.5, 2, 7, 3.5, 2.5, 9.5, 4.5, 3, 12});
  });
}

TEST_CASE("matmul: no inner extent gives zeros, no rows give nothing") {
  on_every_device([](Context& context) {
    const StepScope step(context);
    check_values(ops::matmul(value(context, {}, {2, 0}), value(context, {}, {0, 3})),
                 {0, 0, 0, 0, 0, 0});
    CHECK(ops::matmul(value(context, {}, {0, 2}), value(context, {1, 2}, {2, 1})).shape() ==
          Shape({0, 1}));
  });
}

TEST_CASE("matmul: gradients for every transpose and sharing") {
  struct Case {
    Shape a, b;  // without transposes
  };
  const std::vector<Case> cases = {
      {{1, 1}, {1, 1}},       {{2, 3}, {3, 5}},
      {{3, 2, 5}, {3, 5, 7}}, {{2, 3, 1, 4}, {2, 3, 4, 2}},
      {{3, 2, 5}, {5, 3}},    {{2, 5}, {3, 5, 2}},
      {{2, 2, 3, 2}, {2, 3}}, {{2, 0}, {0, 3}},
  };
  on_every_device([&](Context& context) {
    for (const Case& each : cases) {
      for (const bool transpose_a : {false, true}) {
        for (const bool transpose_b : {false, true}) {
          const auto stored = [](Shape shape, bool transposed) {
            if (transposed) {
              const int64_t last = shape[-1];
              shape.set(-1, shape[-2]);
              shape.set(-2, last);
            }
            return shape;
          };
          INFO(each.a.to_string() << transpose_a << " " << each.b.to_string() << transpose_b);
          std::vector<Tensor> leaves = {random_leaf(context, stored(each.a, transpose_a), 1),
                                        random_leaf(context, stored(each.b, transpose_b), 2)};
          check_gradients(context, leaves, [&] {
            return std::vector<Tensor>{ops::matmul(
                leaves[0], leaves[1],
                {.transpose_a = transpose_a, .transpose_b = transpose_b, .alpha = 0.7})};
          });
        }
      }
    }
    std::vector<Tensor> square = {random_leaf(context, {3, 3}, 3)};
    check_gradients(context, square, [&] {  // one tensor in both places
      return std::vector<Tensor>{ops::matmul(square[0], square[0], {.transpose_a = true}),
                                 ops::matmul(square[0], square[0])};
    });
  });
}

TEST_CASE("outer: values, and gradients in the operands' own shapes (B30)") {
  on_every_device([](Context& context) {
    {
      const StepScope step(context);
      check_values(ops::outer(value(context, {2, 3}, {2}), value(context, {1, 10, 100}, {3})),
                   {2, 20, 200, 3, 30, 300});
    }
    std::vector<Tensor> leaves = {random_leaf(context, {2}, 1), random_leaf(context, {3}, 2)};
    check_gradients(context, leaves,
                    [&] { return std::vector<Tensor>{ops::outer(leaves[0], leaves[1])}; });
  });
}

TEST_CASE("linear: values by hand, weight stored (out, in)") {
  on_every_device([](Context& context) {
    const StepScope step(context);
    const Tensor x = value(context, {1, -2}, {1, 2}, true);
    const Tensor weight = value(context, {1, 1, 2, -1, 0, 3}, {3, 2}, true);
    const Tensor bias = value(context, {0.5, 0, 1}, {3}, true);
    const Tensor y = ops::linear(x, weight, bias, Activation::relu);
    check_values(y, {0, 4, 0});  // before: (-0.5, 4, -5)
    backward_with(context, y, {10, 1, 10});
    check_gradient(x, {2, -1});
    check_gradient(weight, {0, 0, 1, -2, 0, 0});
    check_gradient(bias, {0, 1, 0});
  });
}

const std::vector<Activation> kActivations = {Activation::none, Activation::relu, Activation::gelu,
                                              Activation::gelu_tanh};

TEST_CASE("linear: equals its composition, with gradients") {
  struct Case {
    Shape x;
    int64_t out;
  };
  const std::vector<Case> cases = {{{1, 1}, 1}, {{3}, 5},       {{5, 7}, 3},      {{2, 3, 4}, 5},
                                   {{0, 3}, 2}, {{17, 33}, 19}, {{2, 1, 3, 2}, 1}};
  on_every_device([&](Context& context) {
    for (const Case& each : cases) {
      for (const Activation activation : kActivations) {
        for (const bool with_bias : {true, false}) {
          INFO(each.x.to_string() << " to " << each.out << " activation " << int(activation));
          const int64_t in = each.x[-1];
          std::vector<Tensor> leaves = {random_leaf(context, each.x, 1),
                                        random_leaf(context, {each.out, in}, 2)};
          if (with_bias) leaves.push_back(random_leaf(context, {each.out}, 3));
          const Tensor bias = with_bias ? leaves[2] : Tensor();
          const auto fused = [&] {
            return std::vector<Tensor>{ops::linear(leaves[0], leaves[1], bias, activation)};
          };
          const auto composed = [&] {
            return std::vector<Tensor>{
                compositions::linear(leaves[0], leaves[1], bias, activation)};
          };
          check_equal(evaluate(context, leaves, fused), evaluate(context, leaves, composed), 1e-11);
          if (each.x.elements() < 100) check_gradients(context, leaves, fused);
        }
      }
    }
  });
}

TEST_CASE("linear: gradients only where they are wanted") {
  on_every_device([](Context& context) {
    for (int wanted = 0; wanted < 3; ++wanted) {
      const StepScope step(context);
      const Tensor x = value(context, {1, 2}, {1, 2}, wanted == 0);
      const Tensor weight = value(context, {3, 4}, {1, 2}, wanted == 1);
      const Tensor bias = value(context, {5}, {1}, wanted == 2);
      const Tensor y = ops::linear(x, weight, bias, Activation::gelu);
      context.tape().backward(y);
      CHECK(x.has_gradient() == (wanted == 0));
      CHECK(weight.has_gradient() == (wanted == 1));
      CHECK(bias.has_gradient() == (wanted == 2));
    }
  });
}

TEST_CASE("feed_forward: equals its composition, with gradients") {
  struct Case {
    Shape x;
    int64_t hidden, out;
  };
  const std::vector<Case> cases = {{{1, 1}, 1, 1},      {{3}, 5, 2},    {{5, 7}, 3, 7},
                                   {{2, 3, 4}, 17, 5},  {{0, 3}, 2, 4}, {{131, 33}, 19, 35},
                                   {{2, 1, 3, 2}, 1, 3}};
  on_every_device([&](Context& context) {
    for (const Case& each : cases) {
      for (const Activation activation : kActivations) {
        for (const bool with_bias : {true, false}) {
          INFO(each.x.to_string() << " to " << each.hidden << " to " << each.out << " activation "
                                  << int(activation));
          std::vector<Tensor> leaves = {random_leaf(context, each.x, 1),
                                        random_leaf(context, {each.hidden, each.x[-1]}, 2),
                                        random_leaf(context, {each.out, each.hidden}, 3)};
          if (with_bias) {
            leaves.push_back(random_leaf(context, {each.hidden}, 4));
            leaves.push_back(random_leaf(context, {each.out}, 5));
          }
          const Tensor up_bias = with_bias ? leaves[3] : Tensor();
          const Tensor down_bias = with_bias ? leaves[4] : Tensor();
          const auto fused = [&] {
            return std::vector<Tensor>{
                ops::feed_forward(leaves[0], leaves[1], up_bias, leaves[2], down_bias, activation)};
          };
          const auto composed = [&] {
            return std::vector<Tensor>{compositions::linear(
                compositions::linear(leaves[0], leaves[1], up_bias, activation), leaves[2],
                down_bias)};
          };
          check_equal(evaluate(context, leaves, fused), evaluate(context, leaves, composed), 1e-11);
          if (each.x.elements() < 100) check_gradients(context, leaves, fused);
        }
      }
    }
  });
}

TEST_CASE("feed_forward: wide layers are two linear operations, with the same result") {
  // 513 (160 + 170) weights are more than the CPU takes at once.
  on_every_device([](Context& context) {
    std::vector<Tensor> leaves = {
        random_leaf(context, {3, 160}, 1), random_leaf(context, {513, 160}, 2),
        random_leaf(context, {513}, 3), random_leaf(context, {170, 513}, 4)};
    const auto whole = [&] {
      return std::vector<Tensor>{ops::feed_forward(leaves[0], leaves[1], leaves[2], leaves[3],
                                                   Tensor(), Activation::gelu)};
    };
    const auto composed = [&] {
      return std::vector<Tensor>{compositions::linear(
          compositions::linear(leaves[0], leaves[1], leaves[2], Activation::gelu), leaves[3],
          Tensor())};
    };
    check_equal(evaluate(context, leaves, whole), evaluate(context, leaves, composed), 1e-10);
  });
}

TEST_CASE("feed_forward: gradients only where they are wanted") {
  on_every_device([](Context& context) {
    for (int wanted = 0; wanted < 5; ++wanted) {
      const StepScope step(context);
      const Tensor x = value(context, {1, 2}, {1, 2}, wanted == 0);
      const Tensor up = value(context, {3, 4}, {1, 2}, wanted == 1);
      const Tensor up_bias = value(context, {5}, {1}, wanted == 2);
      const Tensor down = value(context, {2}, {1, 1}, wanted == 3);
      const Tensor down_bias = value(context, {1}, {1}, wanted == 4);
      const Tensor y = ops::feed_forward(x, up, up_bias, down, down_bias, Activation::gelu);
      context.tape().backward(y);
      CHECK(x.has_gradient() == (wanted == 0));
      CHECK(up.has_gradient() == (wanted == 1));
      CHECK(up_bias.has_gradient() == (wanted == 2));
      CHECK(down.has_gradient() == (wanted == 3));
      CHECK(down_bias.has_gradient() == (wanted == 4));
    }
  });
}

TEST_CASE("feed_forward refuses layers that do not follow each other") {
  Context context(cpu_backend(), guarded(DType::f64));
  const StepScope step(context);
  const Tensor x = value(context, {1, 2}, {1, 2}), up = value(context, {3, 4, 5, 6}, {2, 2});
  const Tensor down = value(context, {1, 2, 3}, {1, 3}), bias = value(context, {1, 2, 3}, {3});
  CHECK_THROWS_WITH(ops::feed_forward(x, down, {}, up, {}, Activation::relu),
                    ContainsSubstring("up weight is (1, 3)"));
  CHECK_THROWS_WITH(ops::feed_forward(x, up, {}, down, {}, Activation::relu),
                    ContainsSubstring("down weight is (1, 3)"));
  CHECK_THROWS_WITH(ops::feed_forward(x, up, bias, up, {}, Activation::relu),
                    ContainsSubstring("its bias (3)"));
}

TEST_CASE("linear_heads: equals its composition, with gradients") {
  struct Case {
    int64_t batch, length, in, heads, dim;
    int parts;
  };
  const std::vector<Case> cases = {{1, 1, 1, 1, 1, 1}, {2, 3, 4, 2, 3, 3}, {3, 5, 2, 1, 7, 2},
                                   {1, 7, 3, 3, 1, 3}, {2, 0, 3, 2, 2, 3}, {2, 17, 5, 3, 5, 3}};
  on_every_device([&](Context& context) {
    for (const Case& each : cases) {
      INFO(each.batch << " " << each.length << " " << each.in << " " << each.heads << " "
                      << each.dim << " " << each.parts);
      const int64_t out = each.parts * each.heads * each.dim;
      std::vector<Tensor> leaves = {random_leaf(context, {each.batch, each.length, each.in}, 1),
                                    random_leaf(context, {out, each.in}, 2),
                                    random_leaf(context, {out}, 3)};
      const auto fused = [&] {
        const std::array<Tensor, 3> all =
            ops::linear_heads(leaves[0], leaves[1], leaves[2], each.parts, each.heads);
        for (int i = each.parts; i < 3; ++i) CHECK(!all[i].defined());
        return std::vector<Tensor>(all.begin(), all.begin() + each.parts);
      };
      const auto composed = [&] {
        return compositions::linear_heads(leaves[0], leaves[1], leaves[2], each.parts, each.heads);
      };
      check_equal(evaluate(context, leaves, fused), evaluate(context, leaves, composed), 1e-11);
      if (each.length < 10) check_gradients(context, leaves, fused);
    }
  });
}

TEST_CASE("linear_heads: a part that no loss reaches counts as zero") {
  on_every_device([](Context& context) {
    std::vector<Tensor> leaves = {random_leaf(context, {2, 3, 4}, 1),
                                  random_leaf(context, {12, 4}, 2), random_leaf(context, {12}, 3)};
    check_gradients(context, leaves, [&] {
      const std::array<Tensor, 3> parts = ops::linear_heads(leaves[0], leaves[1], leaves[2], 3, 2);
      return std::vector<Tensor>{parts[1]};
    });
  });
}

}  // namespace
}  // namespace longshot::testing
