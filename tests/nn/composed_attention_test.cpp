// Composed attention against the fused operation, where both apply, and relative values by hand.
#include "nn/composed_attention.h"

#include <cmath>

#include "tests/catch.h"
#include "tests/support/gradient_check.h"
#include "tests/support/test_backends.h"

using namespace longshot;
using namespace longshot::testing;

namespace {

Context make_context() {
  return Context(cpu_backend(), {.dtype = DType::f64, .heap = {}});
}

// Masks in both forms, from one description.
struct Masks {
  Tensor fused_keys, key_allowed, distance_allowed;
};
Masks make_masks(Context& context, const std::vector<int32_t>& keys, int64_t batch, int64_t length,
                 bool causal) {
  Masks masks;
  masks.fused_keys = context.from_host(std::span<const int32_t>(keys), {batch, length});
  masks.key_allowed =
      context.from_doubles(std::vector<double>(keys.begin(), keys.end()), {batch, length});
  if (causal) {
    std::vector<double> allowed(size_t(2 * length - 1), 0.0);
    for (int64_t d = 0; d < length; ++d) allowed[size_t(d)] = 1;  // distances 1 - length .. 0
    masks.distance_allowed = context.from_doubles(allowed, {2 * length - 1});
  }
  return masks;
}

}  // namespace

TEST_CASE("composed attention: equals the fused one under masks, biases and row scales",
          "[attention]") {
  const int64_t batch = 2, heads = 3, rows = 2, length = 5, head_dim = 4;
  // Row 1 is all padding: no query of it may see anything.
  const std::vector<int32_t> keys = {1, 1, 1, 0, 0, 0, 0, 0, 0, 0};
  for (const bool causal : {false, true}) {
    for (const int64_t dense_batches : {int64_t(0), int64_t(1), batch}) {
      for (const int64_t scale_batches : {int64_t(0), int64_t(1), batch}) {
        INFO("causal " << causal << ", dense " << dense_batches << ", row scale " << scale_batches);
        Context context = make_context();
        std::vector<Tensor> leaves = {random_leaf(context, {batch, heads, rows, head_dim}, 1),
                                      random_leaf(context, {batch, heads, length, head_dim}, 2),
                                      random_leaf(context, {batch, heads, length, head_dim}, 3)};
        if (dense_batches > 0)
          leaves.push_back(random_leaf(context, {dense_batches, heads, rows, length}, 4));
        else
          leaves.push_back(random_leaf(context, {heads, 2 * length - 1}, 5));
        const auto row_scale = [&]() {
          return scale_batches == 0
                     ? Tensor()
                     : context.from_doubles(random_values(scale_batches * rows, 6, 0.5, 2),
                                            {scale_batches, rows});
        };
        const int64_t offset = 1;
        const Evaluation fused = evaluate(context, leaves, [&] {
          const Masks masks = make_masks(context, keys, batch, length, causal);
          ops::AttentionOptions options;
          options.scale = 0.5;
          options.row_scale = row_scale();
          options.key_mask = masks.fused_keys;
          options.causal = causal;
          options.query_offset = offset;
          (dense_batches > 0 ? options.bias_dense : options.bias_table) = leaves[3];
          return std::vector{ops::attention(leaves[0], leaves[1], leaves[2], options)};
        });
        const Evaluation composed = evaluate(context, leaves, [&] {
          const Masks masks = make_masks(context, keys, batch, length, causal);
          ComposedAttentionOptions options;
          options.scale = 0.5;
          options.row_scale = row_scale();
          options.key_allowed = masks.key_allowed;
          options.distance_allowed = masks.distance_allowed;
          options.query_offset = offset;
          (dense_batches > 0 ? options.bias_dense : options.bias_table) = leaves[3];
          return std::vector{composed_attention(leaves[0], leaves[1], leaves[2], options)};
        });
        check_equal(composed, fused, 1e-10);
        for (size_t i = size_t(rows * heads * head_dim); i < composed.outputs[0].size(); ++i)
          CHECK(composed.outputs[0][i] == 0);
      }
    }
  }
}

TEST_CASE("composed attention: relative values by hand", "[attention]") {
  // One head of width 1, q = 0: weights are 1/2 each. v = (3, 5), r = (10, 20, 40), index j - i
  // + 1.
  Context context = make_context();
  const StepScope step(context);
  const Tensor query = context.from_doubles(std::vector<double>{0, 0}, {1, 1, 2, 1});
  const Tensor value = context.from_doubles(std::vector<double>{3, 5}, {1, 1, 2, 1});
  const std::vector<int32_t> index = {1, 2, 0, 1};
  ComposedAttentionOptions options;
  options.relative_values = context.from_doubles(std::vector<double>{10, 20, 40}, {3, 1});
  options.value_index = context.from_host(std::span<const int32_t>(index), {2, 2});
  const std::vector<double> expected = {(3 + 20 + 5 + 40) / 2.0, (3 + 10 + 5 + 20) / 2.0};
  check_close(composed_attention(query, query, value, options).to_doubles(), expected, 1e-12,
              "shared index");
  options.value_index = context.from_host(std::span<const int32_t>(index), {1, 2, 2});
  check_close(composed_attention(query, query, value, options).to_doubles(), expected, 1e-12,
              "index by sequence");
}

TEST_CASE("composed attention: relative values under row scales, biases and masks, by loops",
          "[attention]") {
  const int64_t batch = 2, heads = 2, length = 4, width = 3, vectors = 5;
  const std::vector<int32_t> keys = {1, 1, 1, 1, 1, 1, 1, 0};
  const std::vector<double> q = random_values(batch * heads * length * width, 1, -1, 1),
                            k = random_values(batch * heads * length * width, 2, -1, 1),
                            v = random_values(batch * heads * length * width, 3, -1, 1),
                            dense = random_values(batch * heads * length * length, 4, -1, 1),
                            relative = random_values(vectors * width, 5, -1, 1),
                            scale = random_values(batch * length, 6, 0.5, 2);
  const std::vector<int32_t> index = random_integers(length * length, 7, 0, vectors - 1);
  for (const bool causal : {false, true})
    for (const int64_t scale_batches : {int64_t(1), batch}) {
      INFO("causal " << causal << ", row scales " << scale_batches);
      std::vector<double> expected(size_t(batch * length * heads * width), 0.0);
      for (int64_t b = 0; b < batch; ++b)
        for (int64_t h = 0; h < heads; ++h)
          for (int64_t i = 0; i < length; ++i) {
            const int64_t at = (b * heads + h) * length;
            const double factor = scale[size_t((scale_batches == 1 ? 0 : b) * length + i)];
            std::vector<double> weight(size_t(length), 0.0);
            double sum = 0;
            for (int64_t j = 0; j < length; ++j) {
              if (keys[size_t(b * length + j)] == 0 || (causal && j > i)) continue;
              double product = 0;
              for (int64_t d = 0; d < width; ++d)
                product += q[size_t((at + i) * width + d)] * k[size_t((at + j) * width + d)];
              weight[size_t(j)] =
                  std::exp(factor * 0.5 * product + dense[size_t((at + i) * length + j)]);
              sum += weight[size_t(j)];
            }
            for (int64_t j = 0; j < length; ++j)
              for (int64_t d = 0; d < width; ++d)
                expected[size_t(((b * length + i) * heads + h) * width + d)] +=
                    weight[size_t(j)] / sum *
                    (v[size_t((at + j) * width + d)] +
                     relative[size_t(index[size_t(i * length + j)] * width + d)]);
          }
      Context context = make_context();
      const StepScope step(context);
      const Masks masks = make_masks(context, keys, batch, length, causal);
      const Shape shape{batch, heads, length, width};
      ComposedAttentionOptions options;
      options.scale = 0.5;
      options.row_scale = context.from_doubles(
          std::vector<double>(scale.begin(), scale.begin() + scale_batches * length),
          {scale_batches, length});
      options.bias_dense = context.from_doubles(dense, {batch, heads, length, length});
      options.key_allowed = masks.key_allowed;
      options.distance_allowed = masks.distance_allowed;
      options.relative_values = context.from_doubles(relative, {vectors, width});
      options.value_index = context.from_host(std::span<const int32_t>(index), {length, length});
      check_close(composed_attention(context.from_doubles(q, shape), context.from_doubles(k, shape),
                                     context.from_doubles(v, shape), options)
                      .to_doubles(),
                  expected, 1e-12, "relative values");
    }
}

TEST_CASE("composed attention: gradients with relative values", "[attention]") {
  const int64_t batch = 2, heads = 2, length = 3, head_dim = 2;
  Context context = make_context();
  std::vector<Tensor> leaves = {random_leaf(context, {batch, heads, length, head_dim}, 1),
                                random_leaf(context, {batch, heads, length, head_dim}, 2),
                                random_leaf(context, {batch, heads, length, head_dim}, 3),
                                random_leaf(context, {4, head_dim}, 4)};
  for (const int64_t index_batches : {int64_t(1), batch}) {
    const std::vector<int32_t> index = random_integers(index_batches * length * length, 5, 0, 3);
    check_gradients(context, leaves, [&] {
      const Masks masks = make_masks(context, {1, 1, 1, 1, 1, 0}, batch, length, true);
      ComposedAttentionOptions options;
      options.scale = 0.7;
      options.row_scale =
          context.from_doubles(random_values(batch * length, 6, 0.5, 2), {batch, length});
      options.key_allowed = masks.key_allowed;
      options.distance_allowed = masks.distance_allowed;
      options.relative_values = leaves[3];
      options.value_index = context.from_host(
          std::span<const int32_t>(index),
          index_batches == 1 ? Shape{length, length} : Shape{index_batches, length, length});
      options.dropout = {.p = 0.3f,
                         .stream = 2,
                         .elements_per_sample = heads * length * length,
                         .state = context.step_state()};
      return std::vector{composed_attention(leaves[0], leaves[1], leaves[2], options)};
    });
  }
}
