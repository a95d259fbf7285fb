// Relative keys (Shaw et al. 2018, Dai et al. 2019) written with other operations: what attention
// adds to its logits where a kernel does not do it (core/backend.h, fuses_relative_keys), and for
// attention that is itself composed.
//
//   scores_ij = scale (q_i + bias) . r_ij,  (B, H, T, D) to (B, H, T, S)
//
// r_ij is row R - 1 + j - (offset + i) of distances (1 or H, 2R - 1, D): products with all rows,
// then one shift. Or row (i, j) of pairs (1 or H, T, S, D): for each query a product of the whole
// batch with its rows.

#include <array>

#include "core/ops/common.h"

namespace longshot::ops {

void check_relative_keys(const Context& context, const RelativeKeys& relative, int64_t heads,
                         int64_t queries, int64_t keys, int64_t dim, int64_t query_offset) {
  const Tensor& rows = relative.rows;
  check_operands("relative keys", {&rows}, {&relative.bias});
  LONGSHOT_CHECK(&rows.context() == &context,
                 "relative keys: the rows live in another context than the query");
  const int rank = rows.shape().rank();
  const bool fits =
      (rank == 3 || rank == 4) && (rows.size(0) == 1 || rows.size(0) == heads) &&
      rows.size(-1) == dim &&
      (rank == 3 ? rows.size(1) % 2 == 1 : rows.size(1) == queries && rows.size(2) == keys);
  LONGSHOT_CHECK(fits,
                 "relative keys: rows {} must be (1 or {}, 2 reach - 1, {}), or (1 or {}, {}, {}, "
                 "{}) of pairs",
                 rows.shape().to_string(), heads, dim, heads, queries, keys, dim);
  const int64_t reach = (rows.size(1) + 1) / 2;
  LONGSHOT_CHECK(rank == 4 || queries == 0 || keys == 0 ||
                     (query_offset + queries <= reach && keys - query_offset <= reach),
                 "relative keys: rows {} reach distances below {}, too few for query rows {} to "
                 "{} and {} keys",
                 rows.shape().to_string(), reach, query_offset, query_offset + queries - 1, keys);
  LONGSHOT_CHECK(!relative.bias.defined() || relative.bias.shape() == Shape({heads, dim}),
                 "relative keys: bias {} must be ({}, {})", relative.bias.shape().to_string(),
                 heads, dim);
}

Tensor relative_scores(const Tensor& query, int64_t keys, const RelativeKeys& relative,
                       int64_t query_offset) {
  Context& context = check_operands("relative keys", {&query});
  LONGSHOT_CHECK(query.shape().rank() == 4, "relative keys: query {} must be (B, H, T, D)",
                 query.shape().to_string());
  const int64_t batch = query.size(0), heads = query.size(1), queries = query.size(2),
                dim = query.size(3);
  check_relative_keys(context, relative, heads, queries, keys, dim, query_offset);
  Tensor w = query;
  if (relative.bias.defined()) w = add(w, transpose(repeat_rows(relative.bias, queries), 0, 1));
  const Tensor& rows = relative.rows;
  const int64_t groups = rows.size(0);
  const MatmulOptions options{.transpose_b = true, .alpha = relative.scale};
  if (rows.shape().rank() == 3) {
    const int64_t distances = rows.size(1);
    if (groups != heads)
      return relative_shift(matmul(w, reshape(rows, {distances, dim}), options), keys,
                            query_offset);
    const Tensor by_head = reshape(transpose(w, 0, 1), {heads, batch * queries, dim});
    const Tensor scores =
        reshape(matmul(by_head, rows, options), {heads, batch, queries, distances});
    return relative_shift(transpose(scores, 0, 1), keys, query_offset);
  }
  if (groups == heads) {  // (H, T, B, D) times (H, T, S, D), transposed
    const Tensor scores = matmul(permute(w, std::array{1, 2, 0, 3}), rows, options);
    return permute(scores, std::array{2, 0, 1, 3});
  }
  const Tensor by_query =
      reshape(permute(w, std::array{2, 0, 1, 3}), {queries, batch * heads, dim});
  const Tensor scores = matmul(by_query, reshape(rows, {queries, keys, dim}), options);
  return permute(reshape(scores, {queries, batch, heads, keys}), std::array{1, 2, 0, 3});
}

Tensor scale_query_rows(const Tensor& logits, const Tensor& row_scale) {
  const int64_t batch = logits.size(0), heads = logits.size(1), queries = logits.size(2);
  LONGSHOT_CHECK(
      (row_scale.size(0) == 1 || row_scale.size(0) == batch) && row_scale.size(1) == queries,
      "attention: row scale {} does not fit logits {}", row_scale.shape().to_string(),
      logits.shape().to_string());
  // (1 or B, T) to one factor for each of the B * H * T rows.
  Tensor factor = row_scale;
  if (factor.size(0) != batch) factor = repeat_rows(reshape(factor, {queries}), batch);
  factor = permute(repeat_rows(factor, heads), std::array{1, 0, 2});
  return scale_rows(logits, factor);
}

}  // namespace longshot::ops
