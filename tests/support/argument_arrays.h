// Every array in a method's arguments with the number of its elements, as the method's comment in
// core/backend.h gives its shape: visit(pointer&, elements). Pointers may be null.
#pragma once

#include "core/backend.h"

namespace longshot::testing {

// Elements from the first to the last of `rows` rows of `columns`, `stride` apart.
inline int64_t strided(int64_t rows, int64_t columns, int64_t stride) {
  return rows <= 0 || columns <= 0 ? 0 : (rows - 1) * stride + columns;
}

template <class Visit>
void for_each_array(GemmArgs& a, const Visit& visit) {
  const auto matrices = [&](int64_t one, int64_t stride) { return strided(a.batch, one, stride); };
  visit(a.a,
        matrices(a.transpose_a ? strided(a.inner, a.rows, a.lda) : strided(a.rows, a.inner, a.lda),
                 a.stride_a));
  visit(a.b, matrices(a.transpose_b ? strided(a.columns, a.inner, a.ldb)
                                    : strided(a.inner, a.columns, a.ldb),
                      a.stride_b));
  visit(a.c, matrices(strided(a.rows, a.columns, a.ldc), a.stride_c));
  visit(a.bias, a.columns);
  visit(a.pre_activation, matrices(strided(a.rows, a.columns, a.ldc), a.stride_c));
}
template <class Visit>
void for_each_array(HeadsArgs& a, const Visit& visit) {
  const int64_t part = a.batch * a.length * a.heads * a.head_dim;
  visit(a.merged, part * a.parts);
  for (int i = 0; i < a.parts; ++i) visit(a.part[i], part);
}
template <class Visit>
void for_each_array(UnaryArgs& a, const Visit& visit) {
  visit(a.x, a.n), visit(a.y, a.n);
}
template <class Visit>
void for_each_array(UnaryBackwardArgs& a, const Visit& visit) {
  visit(a.x, a.n), visit(a.y, a.n), visit(a.dy, a.n), visit(a.dx, a.n);
}
template <class Visit>
void for_each_array(ActivationBackwardArgs& a, const Visit& visit) {
  const int64_t n = a.rows * a.columns;
  visit(a.pre_activation, n), visit(a.dy, n), visit(a.dx, n), visit(a.dbias, a.columns);
}
template <class Visit>
void for_each_array(AffineArgs& a, const Visit& visit) {
  visit(a.x, a.n), visit(a.y, a.n);
}
template <class Visit>
void for_each_array(BinaryArgs& a, const Visit& visit) {
  visit(a.a, a.n), visit(a.b, a.period), visit(a.out, a.n);
}
template <class Visit>
void for_each_array(ScaleRowsArgs& a, const Visit& visit) {
  visit(a.x, a.rows * a.columns), visit(a.scale, a.rows), visit(a.out, a.rows * a.columns);
}
template <class Visit>
void for_each_array(ReduceArgs& a, const Visit& visit) {
  const int64_t n = a.outer * a.reduced * a.inner;
  visit(a.x, n), visit(a.weight, n), visit(a.out, a.outer * a.inner);
}
template <class Visit>
void for_each_array(ExpandArgs& a, const Visit& visit) {
  visit(a.x, a.outer * a.inner), visit(a.out, a.outer * a.repeat * a.inner);
}
template <class Visit>
void for_each_array(SoftmaxArgs& a, const Visit& visit) {
  visit(a.x, a.rows * a.columns), visit(a.y, a.rows * a.columns);
}
template <class Visit>
void for_each_array(SoftmaxBackwardArgs& a, const Visit& visit) {
  const int64_t n = a.rows * a.columns;
  visit(a.y, n), visit(a.dy, n), visit(a.dx, n);
}
template <class Visit>
void for_each_array(PermuteArgs& a, const Visit& visit) {
  visit(a.x, a.shape.elements()), visit(a.out, a.shape.elements());
}
template <class Visit>
void for_each_array(CopyChunksArgs& a, const Visit& visit) {
  const bool any = a.outer > 0 && a.chunk > 0;
  visit(a.x, any ? a.x_offset + strided(a.outer, a.chunk, a.x_stride) : 0);
  visit(a.out, any ? a.out_offset + strided(a.outer, a.chunk, a.out_stride) : 0);
}
template <class Visit>
void for_each_array(GatherArgs& a, const Visit& visit) {
  visit(a.index, a.index_batches * a.rows * a.columns);
  visit(a.x, a.outer * a.rows * a.source), visit(a.out, a.outer * a.rows * a.columns);
}
template <class Visit>
void for_each_array(GatherBackwardArgs& a, const Visit& visit) {
  visit(a.index, a.index_batches * a.rows * a.columns);
  visit(a.dy, a.outer * a.rows * a.columns), visit(a.dx, a.outer * a.rows * a.source);
}
template <class Visit>
void for_each_array(DropoutArgs& a, const Visit& visit) {
  visit(a.x, a.n), visit(a.y, a.n), visit(a.dropout.state, 1);
}
template <class Visit>
void for_each_array(ArgmaxArgs& a, const Visit& visit) {
  visit(a.x, a.rows * a.columns), visit(a.out, a.rows);
}
template <class Visit>
void for_each_array(NormArgs& a, const Visit& visit) {
  const int64_t n = a.rows * a.columns;
  visit(a.x, n), visit(a.residual, n), visit(a.dropout.state, 1);
  visit(a.gain, a.columns), visit(a.bias, a.columns), visit(a.sum, n), visit(a.y, n);
  visit(a.mean, a.rows), visit(a.inverse_deviation, a.rows);
}
template <class Visit>
void for_each_array(NormBackwardArgs& a, const Visit& visit) {
  const int64_t n = a.rows * a.columns;
  visit(a.sum, n), visit(a.gain, a.columns), visit(a.mean, a.rows);
  visit(a.inverse_deviation, a.rows), visit(a.dy, n), visit(a.dsum, n);
  visit(a.dropout.state, 1), visit(a.dx, n), visit(a.dresidual, n);
  visit(a.dgain, a.columns), visit(a.dbias, a.columns);
}
template <class Visit>
void for_each_array(EmbeddingArgs& a, const Visit& visit) {
  visit(a.ids, a.count), visit(a.table, a.rows * a.columns), visit(a.out, a.count * a.columns);
}
template <class Visit>
void for_each_array(EmbeddingBackwardArgs& a, const Visit& visit) {
  visit(a.ids, a.count), visit(a.dout, a.count * a.columns), visit(a.dtable, a.rows * a.columns);
}
template <class Visit>
void for_each_array(RotateArgs& a, const Visit& visit) {
  const int64_t n = a.batch * a.heads * a.length * a.head_dim;
  const int64_t angles = a.angle_batches * a.length * (a.width / 2);
  visit(a.cosine, angles), visit(a.sine, angles), visit(a.x, n), visit(a.y, n);
}
template <class Visit>
void for_each_array(CrossEntropyArgs& a, const Visit& visit) {
  visit(a.logits, a.rows * a.columns), visit(a.targets, a.rows), visit(a.count_override, 1);
  visit(a.log_sum_exp, a.rows), visit(a.row_loss, a.rows), visit(a.loss, 1);
  visit(a.denominator, 1);
}
template <class Visit>
void for_each_array(CrossEntropyBackwardArgs& a, const Visit& visit) {
  visit(a.logits, a.rows * a.columns), visit(a.targets, a.rows), visit(a.log_sum_exp, a.rows);
  visit(a.denominator, 1), visit(a.dloss, 1), visit(a.dlogits, a.rows * a.columns);
}
template <class Visit>
void for_each_array(PointwiseLossArgs& a, const Visit& visit) {
  visit(a.x, a.n), visit(a.target, a.n), visit(a.mask, a.n), visit(a.count_override, 1);
  visit(a.loss, 1), visit(a.denominator, 1);
}
template <class Visit>
void for_each_array(PointwiseLossBackwardArgs& a, const Visit& visit) {
  visit(a.x, a.n), visit(a.target, a.n), visit(a.mask, a.n), visit(a.denominator, 1);
  visit(a.dloss, 1), visit(a.dx, a.n);
}
template <class Visit>
void for_each_array(AttentionArgs& a, const Visit& visit) {
  const auto& [batch, heads, queries, keys, dim] = a.shape;
  visit(a.query, batch * heads * queries * dim), visit(a.key, batch * heads * keys * dim);
  visit(a.value, batch * heads * keys * dim), visit(a.row_scale, a.row_scale_batches * queries);
  visit(a.key_mask, batch * keys), visit(a.bias_table, heads * (2 * a.reach - 1));
  visit(a.position_q, a.position_batches * queries), visit(a.position_k, a.position_batches * keys);
  visit(a.bias_dense, a.dense_batches * heads * queries * keys);
  const int64_t rows = a.relative_reach > 0 ? 2 * a.relative_reach - 1 : queries * keys;
  visit(a.relative_key, a.relative_heads * rows * dim), visit(a.relative_bias, heads * dim);
  visit(a.dropout.state, 1), visit(a.out, batch * heads * queries * dim);
  visit(a.log_sum_exp, batch * heads * queries);
}
template <class Visit>
void for_each_array(AttentionBackwardArgs& a, const Visit& visit) {
  for_each_array(a.forward, visit);
  const AttentionArgs& f = a.forward;
  const auto& [batch, heads, queries, keys, dim] = f.shape;
  visit(a.dout, batch * heads * queries * dim), visit(a.dquery, batch * heads * queries * dim);
  visit(a.dkey, batch * heads * keys * dim), visit(a.dvalue, batch * heads * keys * dim);
  visit(a.dbias_table, heads * (2 * f.reach - 1));
  visit(a.dbias_dense, f.dense_batches * heads * queries * keys);
  const int64_t rows = f.relative_reach > 0 ? 2 * f.relative_reach - 1 : queries * keys;
  visit(a.drelative_key, f.relative_heads * rows * dim), visit(a.drelative_bias, heads * dim);
}
template <class Visit>
void for_each_array(ClipArgs& a, const Visit& visit) {
  visit(a.gradient, a.n), visit(a.state, 1), visit(a.update, 1);
}
template <class Visit>
void for_each_array(AdamArgs& a, const Visit& visit) {
  visit(a.parameter, a.n), visit(a.gradient, a.n), visit(a.first_moment, a.n);
  visit(a.second_moment, a.n), visit(a.state, 1), visit(a.update, 1);
}

}  // namespace longshot::testing
