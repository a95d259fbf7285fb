// Relative keys in attention (Shaw et al. 2018, Dai et al. 2019): logit_ij += w_i . r_ij with
// w_i = relative_scale row_scale_i (q_i + relative_bias), r_ij a row of a table over distances or
// of one over pairs. No (queries, keys) array of products is made.
//
// As everywhere in attention a vector lies along the queries. The table is laid out once a call so
// that 16 neighbouring queries' numbers are neighbours, and each multiply-add reads its vector
// where it lies:
//   distances  reversed, (D, rows): with the key fixed, the next query's row is the previous one
//   pairs      (keys, D, queries)
#pragma once

#include <algorithm>

#include "core/backend.h"
#include "core/cpu/scratch.h"
#include "core/cpu/tile.h"
#include "core/parallel.h"

namespace longshot::cpu {

template <class T>
class RelativeTable {
 public:
  static constexpr int64_t kWidth = Vec<T>::kWidth;
  static constexpr int64_t kPadding = kMaxTileVectors * kWidth;  // lanes beyond the last query

  RelativeTable(const AttentionArgs& args, ScratchScope& scratch)
      : args_(args), used_(args.relative_key != nullptr && args.shape.keys > 0) {
    if (!used_) return;
    const AttentionShape& s = args.shape;
    if (pairs()) {
      dim_stride_ = (s.queries + kWidth - 1) / kWidth * kWidth;
      key_stride_ = s.head_dim * dim_stride_;
      head_size_ = s.keys * key_stride_;
    } else {
      rows_ = 2 * args.relative_reach - 1;
      dim_stride_ = rows_ + kPadding;
      key_stride_ = -1;
      head_size_ = s.head_dim * dim_stride_;
    }
    data_ = scratch.allocate<T>(args.relative_heads * head_size_);
    const T* in = static_cast<const T*>(args.relative_key);
    const bool threaded = args.relative_heads * head_size_ > 16384;
    if (pairs()) {
      // (queries, keys D) to (keys D, queries), a key at a time.
      parallel_for(
          args.relative_heads * s.keys,
          [&](int64_t piece) {
            const int64_t g = piece / s.keys, j = piece % s.keys, ld = s.keys * s.head_dim;
            const T* from = in + g * s.queries * ld + j * s.head_dim;
            T* to = data_ + piece * key_stride_;
            for (int64_t i = 0; i < dim_stride_; i += kWidth)
              for (int64_t d = 0; d < s.head_dim; d += kWidth)
                transpose_tile(from + i * ld + d, ld, std::min(kWidth, s.queries - i),
                               std::min(kWidth, s.head_dim - d), to + d * dim_stride_ + i,
                               dim_stride_);
          },
          threaded);
    } else {
      parallel_for(
          args.relative_heads,
          [&](int64_t g) {
            const T* from = in + g * rows_ * s.head_dim;
            T* to = data_ + g * head_size_;
            for (int64_t d = 0; d < s.head_dim; ++d) {
              T* row = to + d * dim_stride_;
              for (int64_t y = 0; y < rows_; ++y) row[y] = from[(rows_ - 1 - y) * s.head_dim + d];
              std::fill_n(row + rows_, kPadding, T(0));
            }
          },
          threaded);
    }
  }

  bool used() const { return used_; }
  bool pairs() const { return args_.relative_reach == 0; }
  int64_t rows() const { return rows_; }
  // r of lane i, key j and component d is at(h, first)[j * key_stride + d * dim_stride + i], for
  // the block of queries that begins at `first`.
  const T* at(int64_t h, int64_t first) const {
    const T* head = data_ + (args_.relative_heads == 1 ? 0 : h) * head_size_;
    return head + first + (pairs() ? 0 : args_.relative_reach - 1 + args_.query_offset);
  }
  int64_t key_stride() const { return key_stride_; }
  int64_t dim_stride() const { return dim_stride_; }

  // Of a piece's own sums of gradients: distances (D, kPadding + rows), pairs like the table.
  int64_t gradient_stride() const { return pairs() ? dim_stride_ : kPadding + rows_; }
  int64_t gradient_size() const {
    if (!used_) return 0;
    return pairs() ? head_size_ : args_.shape.head_dim * gradient_stride();
  }

 private:
  const AttentionArgs& args_;
  bool used_;
  T* data_ = nullptr;
  int64_t rows_ = 0, key_stride_ = 0, dim_stride_ = 0, head_size_ = 0;
};

namespace detail {

// Keys of a tile of scores and components of a tile of dw: accumulators, one vector each.
inline constexpr int kRelativeRows = 12;

template <class T, int kRows, bool kPairs>
void relative_scores(int64_t dim, const T* w, int64_t lanes, const T* r, int64_t key_stride,
                     int64_t dim_stride, T* s) {
  Vec<T> sum[kRows];
#pragma GCC unroll 16
  for (int k = 0; k < kRows; ++k) sum[k] = Vec<T>::load(s + k * lanes);
  for (int64_t d = 0; d < dim; ++d) {
    const Vec<T> left = Vec<T>::load(w);
#pragma GCC unroll 16
    for (int k = 0; k < kRows; ++k)
      sum[k] = fma(left, Vec<T>::load(kPairs ? r + k * key_stride : r - k), sum[k]);
    w += lanes;
    r += dim_stride;
  }
#pragma GCC unroll 16
  for (int k = 0; k < kRows; ++k) sum[k].store(s + k * lanes);
}

template <class T, int kDims>
void relative_query_gradient(int64_t keys, const T* ds, int64_t lanes, const T* r,
                             int64_t key_stride, int64_t dim_stride, T* dw) {
  Vec<T> sum[kDims];
#pragma GCC unroll 16
  for (int d = 0; d < kDims; ++d) sum[d] = Vec<T>::load(dw + d * lanes);
  for (int64_t j = 0; j < keys; ++j) {
    const Vec<T> left = Vec<T>::load(ds);
#pragma GCC unroll 16
    for (int d = 0; d < kDims; ++d) sum[d] = fma(left, Vec<T>::load(r + d * dim_stride), sum[d]);
    ds += lanes;
    r += key_stride;
  }
#pragma GCC unroll 16
  for (int d = 0; d < kDims; ++d) sum[d].store(dw + d * lanes);
}

}  // namespace detail

// s[j - j0][i] += sum_d w[d][i] r(j, d)[i]; w (D, lanes), s (j1 - j0, lanes), r = table.at(..).
template <class T>
void add_relative_scores(const RelativeTable<T>& table, const T* r, int64_t dim, int64_t j0,
                         int64_t j1, const T* w, int64_t lanes, T* s) {
  using detail::kRelativeRows;
  const int64_t ks = table.key_stride(), ds = table.dim_stride();
  const auto rows = [&](auto count, int64_t j, int64_t v) {
    constexpr int kRows = decltype(count)::value;
    const T* from = r + j * ks + v;
    T* to = s + (j - j0) * lanes + v;
    if (table.pairs())
      detail::relative_scores<T, kRows, true>(dim, w + v, lanes, from, ks, ds, to);
    else
      detail::relative_scores<T, kRows, false>(dim, w + v, lanes, from, ks, ds, to);
  };
  int64_t j = j0;
  for (; j + kRelativeRows <= j1; j += kRelativeRows)
    for (int64_t v = 0; v < lanes; v += Vec<T>::kWidth)
      rows(std::integral_constant<int, kRelativeRows>{}, j, v);
  for (; j + 4 <= j1; j += 4)
    for (int64_t v = 0; v < lanes; v += Vec<T>::kWidth)
      rows(std::integral_constant<int, 4>{}, j, v);
  for (; j < j1; ++j)
    for (int64_t v = 0; v < lanes; v += Vec<T>::kWidth)
      rows(std::integral_constant<int, 1>{}, j, v);
}

// dw[d][i] += sum_j ds[j - j0][i] r(j, d)[i]
template <class T>
void add_relative_query_gradient(const RelativeTable<T>& table, const T* r, int64_t dim, int64_t j0,
                                 int64_t j1, const T* ds, int64_t lanes, T* dw) {
  const int64_t key_stride = table.key_stride(), dim_stride = table.dim_stride();
  const auto dims = [&](auto count, int64_t d, int64_t v) {
    detail::relative_query_gradient<T, decltype(count)::value>(
        j1 - j0, ds + v, lanes, r + j0 * key_stride + d * dim_stride + v, key_stride, dim_stride,
        dw + d * lanes + v);
  };
  int64_t d = 0;
  for (; d + 8 <= dim; d += 8)
    for (int64_t v = 0; v < lanes; v += Vec<T>::kWidth)
      dims(std::integral_constant<int, 8>{}, d, v);
  for (; d < dim; ++d)
    for (int64_t v = 0; v < lanes; v += Vec<T>::kWidth)
      dims(std::integral_constant<int, 1>{}, d, v);
}

}  // namespace longshot::cpu
