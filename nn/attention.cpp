#include "nn/attention.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <vector>

#include "nn/composed_attention.h"
#include "nn/dropout.h"

namespace longshot {

namespace {

// Rows [begin, begin + rows) of a per-query factor (1 or B, T).
Tensor rows_of(const Tensor& factor, int64_t begin, int64_t rows) {
  if (!factor.defined() || factor.size(-1) == rows) return factor;
  return ops::slice(factor, 1, begin, begin + rows);
}

// The product of two per-query factors, each (1 or B, rows) or undefined.
Tensor combined(const Tensor& a, const Tensor& b) {
  if (!a.defined()) return b;
  if (!b.defined()) return a;
  const Tensor& large = a.size(0) >= b.size(0) ? a : b;
  const Tensor& small = a.size(0) >= b.size(0) ? b : a;
  if (large.size(0) == small.size(0)) return ops::mul(large, small);
  return ops::mul(large, ops::reshape(small, {small.size(1)}));
}

}  // namespace

MultiHeadAttention::MultiHeadAttention(const ModuleScope& scope, const ModelOptions& options,
                                       int layer)
    : layer_(layer),
      heads_(options.heads),
      head_dim_(options.dim / options.heads),
      dropout_(options.attention_dropout),
      qkv_(scope.sub("qkv"), options.dim, 3 * options.dim, options.attention_bias),
      out_(scope.sub("out"), options.dim, options.dim, options.attention_bias) {}

int64_t MultiHeadAttention::dense_row_bytes(int64_t batch, int64_t heads, int64_t head_dim,
                                            int64_t length, DType dtype) {
  // A bias for every head, and head_dim numbers for relative keys or values, for each key.
  return batch * length * (heads + head_dim) * size_of(dtype);
}

Tensor MultiHeadAttention::attend(const Tensor& query, const Tensor& key, const Tensor& value,
                                  const LogitBias& bias, const PreparedInput& input,
                                  int64_t query_begin) const {
  const SequenceContext& sequence = input.sequence;
  const int64_t rows = query.size(2), length = sequence.length;
  const double scale = 1.0 / std::sqrt(double(head_dim_));
  const DropoutSpec dropout = dropout_at(*sequence.context, dropout_, sequence.training, layer_,
                                         DropoutPlace::attention_weights, heads_ * length * length);
  const Tensor row_scale = combined(rows_of(input.row_scale, query_begin, rows), bias.row_scale);
  const Tensor dense = bias.dense_of_query && row_scale.defined()
                           ? ops::scale_query_rows(bias.dense, row_scale)
                           : bias.dense;

  if (!bias.relative_values.defined()) {
    ops::AttentionOptions options;
    options.scale = scale;
    options.row_scale = row_scale;
    options.key_mask = sequence.key_mask;
    options.causal = sequence.causal;
    options.query_offset = query_begin;
    options.bias_table = bias.table;
    options.position_q = bias.position_q;
    options.position_k = bias.position_k;
    options.bias_dense = dense;
    options.relative = bias.relative;
    options.dropout = dropout;
    return ops::attention(query, key, value, options);
  }

  LONGSHOT_CHECK(
      !bias.position_q.defined(),
      "attention: relative values go with a dense bias, not with a table at given positions");
  LONGSHOT_CHECK(!bias.relative.rows.defined(),
                 "attention: relative values go with a dense bias, not with relative keys");
  ComposedAttentionOptions options;
  options.scale = scale;
  options.row_scale = row_scale;
  options.bias_dense = dense;
  options.bias_table = bias.table;
  options.query_offset = query_begin;
  options.relative_values = bias.relative_values;
  options.value_index = bias.value_index;
  options.dropout = dropout;
  options.key_allowed = input.key_allowed;
  options.distance_allowed = input.distance_allowed;
  return composed_attention(query, key, value, options);
}

Tensor MultiHeadAttention::attend_in_blocks(const Tensor& query, const Tensor& key,
                                            const Tensor& value, const PreparedInput& input,
                                            PositionalEncoding& encoding) const {
  const SequenceContext& sequence = input.sequence;
  const int64_t length = sequence.length;
  const int64_t row_bytes =
      dense_row_bytes(sequence.batch, heads_, head_dim_, length, query.dtype());
  const int64_t block = std::max<int64_t>(1, kDenseBytes / row_bytes);
  if (block >= length)
    return attend(query, key, value, encoding.on_logits(query, key, sequence, layer_, 0), input, 0);

  std::vector<Tensor> parts;
  for (int64_t begin = 0; begin < length; begin += block) {
    const int64_t end = std::min(begin + block, length);
    const Tensor rows = ops::slice(query, 2, begin, end);
    LogitBias bias = encoding.on_logits(rows, key, sequence, layer_, begin);
    const bool composed =
        bias.relative.rows.defined() && !sequence.context->backend().fuses_relative_keys();
    if (begin == 0 && !bias.dense.defined() && !bias.relative_values.defined() && !composed) {
      // A table or nothing: no memory to save, so all rows at once.
      return attend(query, key, value, encoding.on_logits(query, key, sequence, layer_, 0), input,
                    0);
    }
    parts.push_back(attend(rows, key, value, bias, input, begin));
  }
  return ops::concat(parts, 1);
}

Tensor MultiHeadAttention::operator()(const Tensor& x, const PreparedInput& input,
                                      PositionalEncoding& encoding) const {
  const SequenceContext& sequence = input.sequence;
  auto [query, key, value] = ops::linear_heads(x, qkv_.weight(), qkv_.bias(), 3, heads_);
  std::tie(query, key) = encoding.on_query_key(query, key, sequence, layer_);

  Tensor mixed;
  if (sequence.context->recording())
    mixed =
        attend(query, key, value, encoding.on_logits(query, key, sequence, layer_, 0), input, 0);
  else
    mixed = attend_in_blocks(query, key, value, input, encoding);
  return out_(mixed);
}

}  // namespace longshot
