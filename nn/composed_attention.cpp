#include "nn/composed_attention.h"

#include <array>

namespace longshot {

namespace {

Tensor permute(const Tensor& x, std::array<int, 4> axes) {
  return ops::permute(x, axes);
}

// Which keys each query may see, 1 or 0: (T, S) or (B, H, T, S), either of which adds to and
// multiplies (B, H, T, S); undefined when all may be seen.
Tensor allowed_keys(const ComposedAttentionOptions& options, const Shape& logits) {
  const int64_t batch = logits[0], heads = logits[1], queries = logits[2], keys = logits[3];
  Tensor by_distance, by_key;
  if (options.distance_allowed.defined())
    by_distance = ops::relative_shift(ops::repeat_rows(options.distance_allowed, queries), keys,
                                      options.query_offset);
  if (options.key_allowed.defined()) {
    const std::array<int, 3> batch_first = {1, 0, 2};
    by_key = ops::reshape(
        ops::permute(ops::repeat_rows(options.key_allowed, heads * queries), batch_first),
        {batch, heads, queries, keys});
  }
  if (!by_key.defined()) return by_distance;
  return by_distance.defined() ? ops::mul(by_key, by_distance) : by_key;
}

Tensor add_bias(const Tensor& logits, const ComposedAttentionOptions& options) {
  Tensor result = logits;
  if (const Tensor& dense = options.bias_dense; dense.defined()) {
    const bool shared = dense.size(0) == 1;
    result =
        ops::add(result, shared ? ops::reshape(dense, {dense.size(1), dense.size(2), dense.size(3)})
                                : dense);
  }
  if (options.bias_table.defined()) {
    const int64_t queries = logits.size(2), keys = logits.size(3);
    const std::array<int, 3> heads_first = {1, 0, 2};
    const Tensor rows = ops::permute(ops::repeat_rows(options.bias_table, queries), heads_first);
    result = ops::add(result, ops::relative_shift(rows, keys, options.query_offset));
  }
  return result;
}

// sum_j p_ij r[index_ij]: (B, H, T, S) to (B, T, H, D).
Tensor relative_part(const Tensor& weights, const ComposedAttentionOptions& options) {
  const int64_t batch = weights.size(0), heads = weights.size(1), queries = weights.size(2),
                keys = weights.size(3), head_dim = options.relative_values.size(-1);
  const Tensor values = ops::embedding(options.value_index, options.relative_values);
  if (options.value_index.shape().rank() == 3)  // (B, T, H, S) x (B, T, S, D)
    return ops::matmul(permute(weights, {0, 2, 1, 3}), values);
  // One index for the whole batch: (T, B * H, S) x (T, S, D).
  const Tensor by_query =
      ops::reshape(permute(weights, {2, 0, 1, 3}), {queries, batch * heads, keys});
  const Tensor summed =
      ops::reshape(ops::matmul(by_query, values), {queries, batch, heads, head_dim});
  return permute(summed, {1, 0, 2, 3});
}

}  // namespace

Tensor composed_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                          const ComposedAttentionOptions& options) {
  const int64_t batch = query.size(0), heads = query.size(1), queries = query.size(2),
                head_dim = query.size(3);
  Tensor logits =
      ops::matmul(query, key, {.transpose_a = false, .transpose_b = true, .alpha = options.scale});
  if (options.row_scale.defined()) logits = ops::scale_query_rows(logits, options.row_scale);
  logits = add_bias(logits, options);

  const Tensor allowed = allowed_keys(options, logits.shape());
  if (allowed.defined()) {
    // 0 where allowed, else so low that exp() of it is exactly 0; finite, so that a row with
    // nothing allowed has no NaN in it. The product below then clears such a row.
    constexpr double kFar = 1e30;
    logits = ops::add(logits, ops::scale(ops::add_scalar(allowed, -1.0), kFar));
  }
  Tensor weights = ops::softmax(logits);
  if (allowed.defined()) weights = ops::mul(weights, allowed);
  if (options.dropout.p > 0) weights = ops::dropout(weights, options.dropout);

  Tensor out = permute(ops::matmul(weights, value), {0, 2, 1, 3});  // (B, T, H, D)
  if (options.relative_values.defined()) out = ops::add(out, relative_part(weights, options));
  return ops::reshape(out, {batch, queries, heads * head_dim});
}

}  // namespace longshot
