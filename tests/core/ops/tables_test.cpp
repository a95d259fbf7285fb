// embedding and rotate.

#include <cmath>

#include "tests/support/compositions.h"
#include "tests/support/op_test.h"

namespace longshot::testing {
namespace {

TEST_CASE("embedding: values and the gradient of repeated ids by hand") {
  on_every_device([](Context& context) {
    const StepScope step(context);
    const Tensor table = value(context, {1, 2, 3, 4, 5, 6}, {3, 2}, true);
    const Tensor ids = ints(context, {2, 0, 2}, {3});
    const Tensor y = ops::embedding(ids, table, 10);
    check_values(y, {50, 60, 10, 20, 50, 60});
    backward_with(context, y, {1, 2, 3, 4, 5, 6});
    check_gradient(table, {30, 40, 0, 0, 60, 80});
  });
}

TEST_CASE("embedding: equals its composition, with gradients") {
  struct Case {
    Shape ids;
    int64_t rows, width;
  };
  const std::vector<Case> cases = {{{1}, 1, 1}, {{7}, 3, 5}, {{2, 3}, 11, 4}, {{2, 3, 5}, 2, 3},
                                   {{}, 4, 3},  {{0}, 3, 2}, {{2, 19}, 5, 17}};
  on_every_device([&](Context& context) {
    for (const Case& each : cases) {
      INFO(each.ids.to_string() << " of " << each.rows << " x " << each.width);
      std::vector<Tensor> leaves = {random_leaf(context, {each.rows, each.width}, 1)};
      const Tensor ids = integers(
          context, random_integers(each.ids.elements(), 2, 0, int32_t(each.rows) - 1), each.ids);
      const auto fused = [&] {  // the table used twice
        return std::vector<Tensor>{ops::embedding(ids, leaves[0], 1.5),
                                   ops::embedding(ids, leaves[0])};
      };
      const auto composed = [&] {
        return std::vector<Tensor>{compositions::embedding(ids, leaves[0], 1.5),
                                   compositions::embedding(ids, leaves[0], 1.0)};
      };
      check_equal(evaluate(context, leaves, fused), evaluate(context, leaves, composed), 1e-12);
      check_gradients(context, leaves, fused);
    }
  });
}

TEST_CASE("rotate: a quarter turn by hand, both pairings, partial width") {
  on_every_device([](Context& context) {
    const StepScope step(context);
    const Tensor x = value(context, {1, 2, 3, 4, 5}, {1, 1, 1, 5});
    // pair 0 by 90 degrees, pair 1 by 180
    const Tensor cosine = value(context, {0, -1}, {1, 1, 2}),
                 sine = value(context, {1, 0}, {1, 1, 2});
    check_values(ops::rotate(x, cosine, sine, {.width = 4}), {-2, 1, -3, -4, 5});
    // pairs (0, 2) and (1, 3)
    check_values(ops::rotate(x, cosine, sine, {.width = 4, .half = true}), {-3, -2, 1, -4, 5});
  });
}

TEST_CASE("rotate: equals its composition, with gradients") {
  struct Case {
    Shape x;
    int64_t width;
    int64_t angle_batches;
  };
  const std::vector<Case> cases = {
      {{1, 1, 1, 2}, 2, 1}, {{2, 3, 5, 8}, 8, 1}, {{2, 3, 5, 8}, 4, 2},  {{3, 1, 7, 5}, 4, 3},
      {{2, 2, 3, 6}, 0, 1}, {{2, 1, 0, 4}, 4, 2}, {{1, 2, 3, 34}, 34, 1}};
  on_every_device([&](Context& context) {
    for (const Case& each : cases) {
      for (const bool half : {false, true}) {
        INFO(each.x.to_string() << " width " << each.width << " half " << half);
        const Shape angles{each.angle_batches, each.x[2], each.width / 2};
        // Any numbers: the operation must not assume cos^2 + sin^2 = 1.
        Tensor cosine = random_leaf(context, angles, 5), sine = random_leaf(context, angles, 6);
        cosine.set_requires_gradient(false);
        sine.set_requires_gradient(false);
        std::vector<Tensor> leaves = {random_leaf(context, each.x, 1)};
        const ops::RotateOptions options{each.width, half};
        const auto fused = [&] {
          return std::vector<Tensor>{ops::rotate(leaves[0], cosine, sine, options),
                                     ops::rotate(ops::square(leaves[0]), cosine, sine, options)};
        };
        const auto composed = [&] {
          return std::vector<Tensor>{
              compositions::rotate(leaves[0], cosine, sine, options),
              compositions::rotate(ops::square(leaves[0]), cosine, sine, options)};
        };
        check_equal(evaluate(context, leaves, fused), evaluate(context, leaves, composed), 1e-12);
        check_gradients(context, leaves, fused);
      }
    }
  });
}

}  // namespace
}  // namespace longshot::testing
