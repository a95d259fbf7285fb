// Each fused operation written with primitive ones: slow, obvious, and the oracle for value and
// gradient. Constants (masks, one-hot rows, angles) are built on the host, so that no composition
// uses a fused kernel.
#pragma once

#include <cmath>
#include <vector>

#include "core/context.h"
#include "core/ops.h"

namespace longshot::testing::compositions {

inline Tensor constant(Context& context, const std::vector<double>& values, const Shape& shape) {
  return context.from_doubles(values, shape);
}
inline Tensor ones(Context& context, const Shape& shape) {
  return constant(context, std::vector<double>(size_t(shape.elements()), 1.0), shape);
}

inline Tensor activate(const Tensor& z, Activation activation) {
  switch (activation) {
    case Activation::none:
      return z;
    case Activation::relu:
      return ops::relu(z);
    case Activation::gelu:
      return ops::gelu(z);
    case Activation::gelu_tanh:
      return ops::gelu_tanh(z);
  }
  return z;
}

inline Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias,
                     Activation activation = Activation::none) {
  const Tensor rows = x.reshape({x.shape().rows(), x.size(-1)});
  Tensor z = ops::matmul(rows, ops::transpose(weight, 0, 1));
  if (bias.defined()) z = ops::add(z, bias);
  Shape shape = x.shape();
  shape.set(-1, weight.size(0));
  return activate(z, activation).reshape(shape);
}

inline std::vector<Tensor> linear_heads(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                        int parts, int64_t heads) {
  const Tensor merged = linear(x, weight, bias);
  const int64_t width = weight.size(0) / parts;
  std::vector<Tensor> result;
  for (int i = 0; i < parts; ++i) {
    const Tensor part = ops::slice(merged, 2, i * width, (i + 1) * width);
    result.push_back(
        ops::transpose(part.reshape({x.size(0), x.size(1), heads, width / heads}), 1, 2));
  }
  return result;
}

// One number a row, repeated along the row.
inline Tensor spread(const Tensor& per_row, const Shape& shape) {
  return ops::scale_rows(ones(per_row.context(), shape), per_row);
}

inline Tensor norm(const Tensor& x, const Tensor& gain, const Tensor& bias,
                   const ops::NormOptions& options = {}) {
  Tensor centered = x;
  if (!options.rms) centered = ops::sub(x, spread(ops::mean(x, -1), x.shape()));
  const Tensor variance = ops::mean(ops::square(centered), -1);
  // 1 / sqrt(v) = exp(-log(v) / 2)
  const Tensor inverse =
      ops::exp(ops::scale(ops::log(ops::add_scalar(variance, options.epsilon)), -0.5));
  Tensor y = ops::scale_rows(centered, inverse);
  if (gain.defined()) y = ops::mul(y, gain);
  if (bias.defined()) y = ops::add(y, bias);
  return y;
}

inline std::vector<Tensor> add_norm(const Tensor& x, const Tensor& residual, const Tensor& gain,
                                    const Tensor& bias, const DropoutSpec& dropout,
                                    const ops::NormOptions& options = {}) {
  const Tensor sum = ops::add(x, ops::dropout(residual, dropout));
  return {sum, compositions::norm(sum, gain, bias, options)};
}

inline Tensor embedding(const Tensor& ids, const Tensor& table, double scale) {
  const std::vector<int32_t> rows = ids.to_host<int32_t>();
  const int64_t vocabulary = table.size(0);
  std::vector<double> one_hot(rows.size() * size_t(vocabulary));
  for (size_t r = 0; r < rows.size(); ++r) one_hot[r * size_t(vocabulary) + size_t(rows[r])] = 1.0;
  const Tensor selector = constant(table.context(), one_hot, {ids.elements(), vocabulary});
  Shape shape = ids.shape();
  shape.append(table.size(1));
  return ops::scale(ops::matmul(selector, table), scale).reshape(shape);
}

// y = x * C + (x P) * S, P the signed permutation that puts -x_b in lane a and x_a in lane b.
inline Tensor rotate(const Tensor& x, const Tensor& cosine, const Tensor& sine,
                     const ops::RotateOptions& options) {
  const int64_t batch = x.size(0), heads = x.size(1), length = x.size(2), dim = x.size(3);
  const int64_t pairs = options.width / 2;
  const std::vector<double> c = cosine.to_doubles(), s = sine.to_doubles();
  std::vector<double> swap(size_t(dim * dim)), keep, turn;
  std::vector<int64_t> pair_of(size_t(dim), -1);
  for (int64_t p = 0; p < pairs; ++p) {
    const int64_t a = options.half ? p : 2 * p, b = options.half ? p + pairs : 2 * p + 1;
    swap[size_t(b * dim + a)] = -1.0;
    swap[size_t(a * dim + b)] = 1.0;
    pair_of[size_t(a)] = pair_of[size_t(b)] = p;
  }
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t t = 0; t < length; ++t)
        for (int64_t d = 0; d < dim; ++d) {
          const int64_t pair = pair_of[size_t(d)];
          const int64_t angle = ((cosine.size(0) == 1 ? 0 : b) * length + t) * pairs + pair;
          keep.push_back(pair < 0 ? 1.0 : c[size_t(angle)]);
          turn.push_back(pair < 0 ? 0.0 : s[size_t(angle)]);
        }
  Context& context = x.context();
  const Tensor turned = ops::matmul(x, constant(context, swap, {dim, dim}));
  return ops::add(ops::mul(x, constant(context, keep, x.shape())),
                  ops::mul(turned, constant(context, turn, x.shape())));
}

// `count` < 0: the number of counted rows.
inline Tensor cross_entropy(const Tensor& logits, const Tensor& targets, double smoothing = 0,
                            double count = -1) {
  const std::vector<int32_t> ids = targets.to_host<int32_t>();
  const int64_t classes = logits.size(-1);
  double counted = 0;
  for (const int32_t id : ids) counted += id >= 0 ? 1 : 0;
  if (count >= 0) counted = count;
  std::vector<double> weight(ids.size() * size_t(classes), 0.0);
  for (size_t r = 0; r < ids.size(); ++r)
    for (int64_t c = 0; c < classes && ids[r] >= 0 && counted > 0; ++c)
      weight[r * size_t(classes) + size_t(c)] =
          -((c == ids[r] ? 1.0 - smoothing : 0.0) + smoothing / double(classes)) / counted;
  return ops::sum(
      ops::mul(ops::log_softmax(logits), constant(logits.context(), weight, logits.shape())));
}

inline std::vector<double> counted_weights(const Tensor& x, const Tensor& mask, double& counted) {
  std::vector<double> weight(size_t(x.elements()), 1.0);
  if (mask.defined()) {
    const std::vector<int32_t> kept = mask.to_host<int32_t>();
    weight.assign(kept.begin(), kept.end());
  }
  counted = 0;
  for (const double w : weight) counted += w;
  return weight;
}

inline Tensor mean_squared_error(const Tensor& x, const Tensor& target, const Tensor& mask) {
  double counted = 0;
  const std::vector<double> weight = counted_weights(x, mask, counted);
  const Tensor total = ops::sum(
      ops::mul(ops::square(ops::sub(x, target)), constant(x.context(), weight, x.shape())));
  return ops::scale(total, counted > 0 ? 1.0 / counted : 0.0);
}

// log(1 + e^x) - t x
inline Tensor binary_logistic(const Tensor& x, const Tensor& target, const Tensor& mask) {
  double counted = 0;
  const std::vector<double> weight = counted_weights(x, mask, counted);
  const Tensor each = ops::sub(ops::log(ops::add_scalar(ops::exp(x), 1.0)), ops::mul(x, target));
  const Tensor total = ops::sum(ops::mul(each, constant(x.context(), weight, x.shape())));
  return ops::scale(total, counted > 0 ? 1.0 / counted : 0.0);
}

inline Tensor attention(const Tensor& query, const Tensor& key, const Tensor& value,
                        const ops::AttentionOptions& options) {
  Context& context = query.context();
  const int64_t batch = query.size(0), heads = query.size(1), queries = query.size(2);
  const int64_t keys = key.size(2);
  const Shape full{batch, heads, queries, keys};
  Tensor logits = ops::matmul(query, key, {.transpose_b = true, .alpha = options.scale});
  if (const Tensor& rows = options.relative.rows; rows.defined()) {
    const int64_t groups = rows.size(0), dim = query.size(3);
    Tensor pairs = rows;  // (groups, T, S, D)
    if (rows.shape().rank() == 3) {
      const int64_t count = rows.size(1);
      std::vector<double> pick(size_t(queries * keys * count));
      for (int64_t i = 0; i < queries; ++i)
        for (int64_t j = 0; j < keys; ++j)
          pick[size_t((i * keys + j) * count + (count - 1) / 2 + j - options.query_offset - i)] = 1;
      pairs = ops::matmul(constant(context, pick, {queries * keys, count}), rows);
    }
    if (groups == 1) pairs = ops::repeat_rows(pairs.reshape({queries, keys, dim}), heads);
    pairs = ops::repeat_rows(pairs.reshape({heads * queries, keys, dim}), batch)
                .reshape({batch * heads * queries, keys, dim});
    Tensor w = query;
    if (options.relative.bias.defined())
      w = ops::add(w, ops::transpose(ops::repeat_rows(options.relative.bias, queries), 0, 1));
    const Tensor scores = ops::matmul(w.reshape({batch * heads * queries, 1, dim}), pairs,
                                      {.transpose_b = true, .alpha = options.relative.scale});
    logits = ops::add(logits, scores.reshape(full));
  }
  if (options.row_scale.defined()) {
    const std::vector<double> given = options.row_scale.to_doubles();
    std::vector<double> factors;
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t h = 0; h < heads; ++h)
        for (int64_t i = 0; i < queries; ++i)
          factors.push_back(given[size_t((options.row_scale.size(0) == 1 ? 0 : b) * queries + i)]);
    logits = ops::scale_rows(logits, constant(context, factors, {batch, heads, queries}));
  }
  if (options.bias_table.defined()) {
    const int64_t reach = (options.bias_table.size(1) + 1) / 2;
    std::vector<int32_t> q, k, index;
    const bool given = options.position_q.defined();
    const int64_t sets = given ? options.position_q.size(0) : 1;
    if (given) q = options.position_q.to_host<int32_t>(), k = options.position_k.to_host<int32_t>();
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t i = 0; i < queries; ++i)
        for (int64_t j = 0; j < keys; ++j) {
          const int64_t set = sets == 1 ? 0 : b;
          const int64_t distance = given ? k[size_t(set * keys + j)] - q[size_t(set * queries + i)]
                                         : j - (options.query_offset + i);
          index.push_back(int32_t(reach - 1 + distance));
        }
    // The table as (B, H, T, 2R - 1), one copy for each batch and query, then picked from.
    Tensor table = ops::transpose(ops::repeat_rows(options.bias_table, queries), 0, 1);
    table = ops::repeat_rows(table, batch);
    logits = ops::add(
        logits, ops::gather(table, context.from_host<int32_t>(index, {batch, queries, keys})));
  }
  if (options.bias_dense.defined()) {
    const Tensor& dense = options.bias_dense;
    logits = ops::add(logits, dense.size(0) == 1 ? dense.reshape({heads, queries, keys}) : dense);
  }
  std::vector<double> allowed, lowered;
  std::vector<int32_t> kept;
  if (options.key_mask.defined()) kept = options.key_mask.to_host<int32_t>();
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t i = 0; i < queries; ++i)
        for (int64_t j = 0; j < keys; ++j) {
          const bool open = (kept.empty() || kept[size_t(b * keys + j)] != 0) &&
                            (!options.causal || j <= options.query_offset + i);
          allowed.push_back(open ? 1.0 : 0.0);
          lowered.push_back(open ? 0.0 : -1e30);
        }
  // exp(-1e30 - largest) is exactly 0; a row without any allowed key is made 0 by the product.
  Tensor p = ops::softmax(ops::add(logits, constant(context, lowered, full)));
  p = ops::dropout(ops::mul(p, constant(context, allowed, full)), options.dropout);
  return ops::transpose(ops::matmul(p, value), 1, 2)
      .reshape({batch, queries, heads * query.size(3)});
}

}  // namespace longshot::testing::compositions
