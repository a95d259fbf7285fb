// Attention of the reference backend: all of a row's probabilities at once, the Jacobian written
// out.

#include <vector>

#include "tests/support/reference_array.h"
#include "tests/support/reference_backend.h"

namespace longshot::testing {
namespace {

// One query row: its probabilities, dropout factors and where its biases live.
struct Row {
  std::vector<double> probability, dropped;  // dropped: 0 or 1 / (1 - p)
  std::vector<int64_t> table_entry, dense_entry;
  double factor = 0;  // scale * row_scale
  double log_sum_exp = -INFINITY;
};

Row make_row(const AttentionArgs& args, int64_t b, int64_t h, int64_t i) {
  const AttentionShape& shape = args.shape;
  const ConstArray query(args.query, args.dtype), key(args.key, args.dtype);
  const ConstArray row_scale(args.row_scale, args.dtype), table(args.bias_table, args.dtype);
  const ConstArray dense(args.bias_dense, args.dtype);
  Row row;
  row.factor = args.scale;
  if (row_scale) row.factor *= row_scale[(args.row_scale_batches == 1 ? 0 : b) * shape.queries + i];
  const int64_t position_batch = args.position_batches == 1 ? 0 : b;
  std::vector<double> logits;
  double largest = -INFINITY;
  for (int64_t j = 0; j < shape.keys; ++j) {
    double logit = 0;
    for (int64_t d = 0; d < shape.head_dim; ++d)
      logit += query[((b * shape.heads + h) * shape.queries + i) * shape.head_dim + d] *
               key[((b * shape.heads + h) * shape.keys + j) * shape.head_dim + d];
    logit *= row.factor;
    const bool allowed = (args.key_mask == nullptr || args.key_mask[b * shape.keys + j] != 0) &&
                         (!args.causal || j <= args.query_offset + i);
    int64_t distance = j - (args.query_offset + i);
    if (args.position_q != nullptr)
      distance = args.position_k[position_batch * shape.keys + j] -
                 args.position_q[position_batch * shape.queries + i];
    row.table_entry.push_back(h * (2 * args.reach - 1) + args.reach - 1 + distance);
    row.dense_entry.push_back(
        (((args.dense_batches == 1 ? 0 : b) * shape.heads + h) * shape.queries + i) * shape.keys +
        j);
    if (allowed && table) logit += table[row.table_entry.back()];
    if (allowed && dense) logit += dense[row.dense_entry.back()];
    if (!allowed) logit = -INFINITY;
    logits.push_back(logit);
    largest = std::max(largest, logit);
    row.dropped.push_back(
        dropout_factor(args.dropout, ((b * shape.heads + h) * shape.queries + i) * shape.keys + j));
  }
  double total = 0;
  if (largest > -INFINITY)
    for (const double logit : logits) total += std::exp(logit - largest);
  for (const double logit : logits)
    row.probability.push_back(total > 0 ? std::exp(logit - largest) / total : 0.0);
  if (total > 0) row.log_sum_exp = largest + std::log(total);
  return row;
}

// Elements of an array of doubles of `n`, kept beside the output and added to it at the end.
struct Sums {
  std::vector<double> values;
  void* target;
  bool accumulate;
  Sums(void* to, bool add, int64_t n) : values(size_t(to ? n : 0)), target(to), accumulate(add) {}
  void add(int64_t i, double value) {
    if (target != nullptr) values[size_t(i)] += value;
  }
  void store(DType dtype) const {
    for (size_t i = 0; i < values.size(); ++i)
      Array(target, dtype).put(int64_t(i), values[i], accumulate);
  }
};

}  // namespace

void ReferenceBackend::attention(const AttentionArgs& args) {
  const AttentionShape& shape = args.shape;
  const ConstArray value(args.value, args.dtype);
  const Array out(args.out, args.dtype), log_sum_exp(args.log_sum_exp, args.dtype);
  for (int64_t b = 0; b < shape.batch; ++b)
    for (int64_t h = 0; h < shape.heads; ++h)
      for (int64_t i = 0; i < shape.queries; ++i) {
        const Row row = make_row(args, b, h, i);
        log_sum_exp.put((b * shape.heads + h) * shape.queries + i, row.log_sum_exp);
        for (int64_t d = 0; d < shape.head_dim; ++d) {
          double total = 0;
          for (int64_t j = 0; j < shape.keys; ++j)
            total += row.probability[size_t(j)] * row.dropped[size_t(j)] *
                     value[((b * shape.heads + h) * shape.keys + j) * shape.head_dim + d];
          out.put(((b * shape.queries + i) * shape.heads + h) * shape.head_dim + d, total);
        }
      }
}

void ReferenceBackend::attention_backward(const AttentionBackwardArgs& args) {
  const AttentionArgs& forward = args.forward;
  const AttentionShape& shape = forward.shape;
  const ConstArray query(forward.query, forward.dtype), key(forward.key, forward.dtype);
  const ConstArray value(forward.value, forward.dtype), dout(args.dout, forward.dtype);
  const int64_t dim = shape.head_dim, pairs = shape.batch * shape.heads;
  Sums dquery(args.dquery, args.accumulate_dquery, pairs * shape.queries * dim);
  Sums dkey(args.dkey, args.accumulate_dkey, pairs * shape.keys * dim);
  Sums dvalue(args.dvalue, args.accumulate_dvalue, pairs * shape.keys * dim);
  Sums dtable(args.dbias_table, args.accumulate_dbias_table, shape.heads * (2 * forward.reach - 1));
  Sums ddense(args.dbias_dense, args.accumulate_dbias_dense,
              forward.dense_batches * shape.heads * shape.queries * shape.keys);
  for (int64_t b = 0; b < shape.batch; ++b)
    for (int64_t h = 0; h < shape.heads; ++h)
      for (int64_t i = 0; i < shape.queries; ++i) {
        const Row row = make_row(forward, b, h, i);
        const int64_t query_row = ((b * shape.heads + h) * shape.queries + i) * dim;
        const int64_t out_row = ((b * shape.queries + i) * shape.heads + h) * dim;
        const auto key_row = [&](int64_t j) {
          return ((b * shape.heads + h) * shape.keys + j) * dim;
        };
        std::vector<double> dprobability;
        double mean = 0;
        for (int64_t j = 0; j < shape.keys; ++j) {
          double total = 0;
          for (int64_t d = 0; d < dim; ++d) total += dout[out_row + d] * value[key_row(j) + d];
          dprobability.push_back(total * row.dropped[size_t(j)]);
          mean += dprobability.back() * row.probability[size_t(j)];
        }
        for (int64_t j = 0; j < shape.keys; ++j) {
          const double p = row.probability[size_t(j)];
          if (p == 0) continue;
          const double dlogit = p * (dprobability[size_t(j)] - mean);
          if (args.dbias_table) dtable.add(row.table_entry[size_t(j)], dlogit);
          if (args.dbias_dense) ddense.add(row.dense_entry[size_t(j)], dlogit);
          for (int64_t d = 0; d < dim; ++d) {
            dvalue.add(key_row(j) + d, p * row.dropped[size_t(j)] * dout[out_row + d]);
            dquery.add(query_row + d, row.factor * dlogit * key[key_row(j) + d]);
            dkey.add(key_row(j) + d, row.factor * dlogit * query[query_row + d]);
          }
        }
      }
  for (const Sums* sums : {&dquery, &dkey, &dvalue, &dtable, &ddense}) sums->store(forward.dtype);
}

}  // namespace longshot::testing
