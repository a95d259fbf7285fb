// Gradients of relative keys (core/cpu/attention_relative.h): how the batch is cut for them, each
// piece's own sums, and the pieces' sums added in order. dr_ij = dS_ij w_i, added over all (i, j)
// that a row of the table stands for.
#pragma once

#include <algorithm>

#include "core/cpu/attention_relative.h"

namespace longshot::cpu {

// Gradient of a table over distances, to this piece's own sums: dr(j, d)[i] += ds[j - j0][i]
// w[d][i]. ds is turned to rows of queries, each a place further left than the one above, so that
// columns are distances, with a lane's last key last: x = j - j0 + kWidth - 1 - lane. Then sums (D,
// distances)
// += w^T ds, one vector of queries at a time.
//
// Turning and multiplying are two calls, with other work between them: vectors just written at odd
// places are slow to read back across.
template <class T>
class DistanceGradient {
 public:
  static constexpr int64_t kWidth = Vec<T>::kWidth;

  DistanceGradient(int64_t lanes, int64_t most_keys, ScratchScope& scratch)
      : lanes_(lanes), ld_((most_keys + 2 * kWidth - 1) / kWidth * kWidth + kWidth) {
    turned_ = scratch.allocate<T>(lanes * ld_);
    std::fill_n(turned_, lanes * ld_, T(0));
  }
  void turn(int64_t keys, const T* ds) {
    if (keys < keys_) std::fill_n(turned_, lanes_ * ld_, T(0));
    keys_ = keys;
    for (int64_t v = 0; v < lanes_; v += kWidth)
      for (int64_t j = 0; j < keys; j += kWidth)
        transpose_tile(ds + j * lanes_ + v, lanes_, std::min(kWidth, keys - j), kWidth,
                       turned_ + v * ld_ + kWidth - 1 + j, ld_ - 1);
  }
  // rows_of_w (lanes, ld_w)
  void multiply(const RelativeTable<T>& table, const AttentionArgs& args, int64_t first, int64_t j0,
                const T* rows_of_w, int64_t ld_w, T* sums) const {
    for (int64_t v = 0; v < lanes_; v += kWidth) {
      const int64_t row =
          args.relative_reach - 1 + j0 - args.query_offset - first - v - (kWidth - 1);
      small_product<T>(args.shape.head_dim, keys_ + kWidth - 1, kWidth, rows_of_w + v * ld_w, ld_w,
                       true, turned_ + v * ld_, ld_, sums + RelativeTable<T>::kPadding + row,
                       table.gradient_stride(), T(1), true);
    }
  }

 private:
  int64_t lanes_, ld_, keys_ = 0;
  T* turned_;
};

// Gradient of a table over pairs, element by element. To add to a sum costs more than to form what
// is added, so a piece keeps what comes of a few matrices (of one block of queries and of keys) and
// adds it at once. Always in the same order, since pieces follow from the shape.
template <class T>
class PairGradient {
 public:
  static constexpr int64_t kWidth = Vec<T>::kWidth;
  static constexpr int kKept = 4;

  PairGradient(const RelativeTable<T>& table, const AttentionArgs& args, T* sums,
               ScratchScope& scratch)
      : dim_(args.shape.head_dim), stride_(table.gradient_stride()), sums_(sums) {
    keeps_ = stride_ <= RelativeTable<T>::kPadding && args.shape.keys <= kKeys;
    if (!keeps_) return;
    keys_ = args.shape.keys;
    ds_ = scratch.allocate<T>(kKept * keys_ * stride_);
    w_ = scratch.allocate<T>(kKept * dim_ * stride_);
  }
  // ds (j1 - j0, lanes), w (D, lanes)
  void add(int64_t first, int64_t j0, int64_t j1, const T* ds, const T* w, int64_t lanes) {
    if (keeps_ && j1 - j0 == keys_ && lanes == stride_) {
      std::copy_n(ds, keys_ * lanes, ds_ + kept_ * keys_ * lanes);
      std::copy_n(w, dim_ * lanes, w_ + kept_ * dim_ * lanes);
      if (++kept_ == kKept) flush();
      return;
    }
    for (int64_t j = j0; j < j1; ++j)
      for (int64_t v = 0; v < lanes; v += kWidth) {
        const Vec<T> each = Vec<T>::load(ds + (j - j0) * lanes + v);
        T* at = sums_ + j * dim_ * stride_ + first + v;
        for (int64_t d = 0; d < dim_; ++d, at += stride_)
          fma(each, Vec<T>::load(w + d * lanes + v), Vec<T>::load(at)).store(at);
      }
  }
  void flush() {
    if (kept_ == kKept)
      add_kept<kKept>(0);
    else
      for (int m = 0; m < kept_; ++m) add_kept<1>(m);
    kept_ = 0;
  }

 private:
  static constexpr int64_t kKeys = 128;

  template <int kCount>
  void add_kept(int begin) {
    const T* ds = ds_ + begin * keys_ * stride_;
    const T* w = w_ + begin * dim_ * stride_;
    for (int64_t j = 0; j < keys_; ++j)
      for (int64_t v = 0; v < stride_; v += kWidth) {
        Vec<T> each[kCount];
#pragma GCC unroll 4
        for (int m = 0; m < kCount; ++m) each[m] = Vec<T>::load(ds + (m * keys_ + j) * stride_ + v);
        T* at = sums_ + j * dim_ * stride_ + v;
        for (int64_t d = 0; d < dim_; ++d, at += stride_) {
          Vec<T> sum = Vec<T>::load(at);
#pragma GCC unroll 4
          for (int m = 0; m < kCount; ++m)
            sum = fma(each[m], Vec<T>::load(w + (m * dim_ + d) * stride_ + v), sum);
          sum.store(at);
        }
      }
  }

  int64_t dim_, stride_, keys_ = 0;
  T* sums_;
  bool keeps_ = false;
  int kept_ = 0;
  T* ds_ = nullptr;
  T* w_ = nullptr;
};

// The gradient of the relative keys from the sums of heads x chunks pieces, chunks in order.
template <class T>
void sum_relative_keys(const AttentionBackwardArgs& args, const RelativeTable<T>& relative,
                       int64_t chunks, const T* partial) {
  const AttentionArgs& forward = args.forward;
  const AttentionShape& s = forward.shape;
  const int64_t size = relative.gradient_size(), stride = relative.gradient_stride();
  const int64_t dim = s.head_dim, shared = forward.relative_heads == 1 ? s.heads : 1;
  constexpr int64_t kWidth = Vec<T>::kWidth;
  // Of each group of heads, `width` neighbouring columns of each of `rows` rows of `dim`.
  const int64_t rows = relative.pairs() ? s.keys : 1;
  const int64_t columns = relative.pairs() ? s.queries : relative.rows();
  const int64_t skip = relative.pairs() ? 0 : RelativeTable<T>::kPadding;
  T* out = static_cast<T*>(args.drelative_key);
  parallel_for(
      forward.relative_heads * rows,
      [&](int64_t piece) {
        const int64_t g = piece / rows, row = piece % rows;
        const T* from = partial + g * shared * chunks * size + row * dim * stride + skip;
        for (int64_t x = 0; x < columns; x += kWidth)
          for (int64_t d = 0; d < dim; ++d) {
            const int64_t valid = columns - x;
            Vec<T> sum = Vec<T>::zero();
            for (int64_t c = 0; c < shared * chunks; ++c)
              sum += Vec<T>::load_partial(from + c * size + d * stride + x, valid);
            alignas(64) T lanes[kWidth];
            sum.store(lanes);
            for (int64_t i = 0; i < std::min(kWidth, valid); ++i) {
              T& to = relative.pairs() ? out[((g * s.queries + x + i) * s.keys + row) * dim + d]
                                       : out[(g * columns + x + i) * dim + d];
              to = lanes[i] + (args.accumulate_drelative_key ? to : T(0));
            }
          }
      },
      forward.relative_heads * rows * columns * dim > 4096);
}

template <class T>
void sum_relative_bias(const AttentionBackwardArgs& args, const T* partial) {
  const AttentionShape& s = args.forward.shape;
  T* out = static_cast<T*>(args.drelative_bias);
  for (int64_t x = 0; x < s.heads * s.head_dim; ++x) {
    T sum = args.accumulate_drelative_bias ? out[x] : T(0);
    for (int64_t b = 0; b < s.batch; ++b) sum += partial[b * s.heads * s.head_dim + x];
    out[x] = sum;
  }
}

// How the batch is cut for gradients of relative keys, each part with its own sums: enough parts
// for any machine's processors, few enough that their sums cost little. A part takes all heads of a
// sequence in turn, which share lines of memory; with few sequences, or large sums, a head a piece.
struct RelativeParts {
  bool all_heads = false;
  int64_t chunks = 1;
};
inline RelativeParts relative_parts(const AttentionArgs& args) {
  constexpr int64_t kPieces = 32;
  const AttentionShape& s = args.shape;
  if (args.relative_reach > 0 && s.batch >= kPieces) return {true, std::min(kPieces, s.batch / 4)};
  const int64_t most = std::max<int64_t>(1, s.batch);
  return {false, std::clamp<int64_t>(kPieces / std::max<int64_t>(1, s.heads), 1, most)};
}

}  // namespace longshot::cpu
