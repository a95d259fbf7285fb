// s = x + dropout(residual), h = (s - mean) inv, y = h gain + bias, row by row.
//
// Backward, with g = dy gain, h recomputed from s, n the row length:
//   layer norm  ds = inv (g - mean(g) - h mean(g h))
//   RMS norm    ds = inv (g - h mean(g h))          (mean = 0 in h)
// Why: inv depends on s through the variance, d inv / d s = -inv^2 h / n, and the mean subtracts
// mean(g). Then dgain = column sums of dy h, dbias = column sums of dy; a gradient that reached
// s directly (dsum) is added to ds; dx = ds and dresidual = dropout(ds).
//
// A row is read from memory once: the further passes over it find it in the first-level cache.
// Memory is asked for what comes a row later, or kAhead elements where rows are short: the output
// in the first pass over the row in hand, the inputs in the last. Else it idles in some passes.
#include "core/cpu/norm.h"

#include <algorithm>
#include <cmath>

#include "core/cpu/dropout.h"
#include "core/cpu/lanes.h"
#include "core/cpu/pieces.h"
#include "core/cpu/scratch.h"

namespace longshot::cpu {
namespace {

// Dropout factors are drawn for several short rows at once: Philox works on groups of blocks.
constexpr int64_t kDrawnElements = 2048;
int64_t rows_drawn(int64_t columns) {
  return std::max<int64_t>(1, kDrawnElements / columns);
}

constexpr int64_t kAhead = 1024;

template <class T>
void normalise_row(const NormArgs& args, int64_t r, const T* s) {
  using V = Vec<T>;
  const int64_t n = args.columns;
  const T* gain = typed<T>(args.gain);
  const T* bias = typed<T>(args.bias);
  T* y = typed<T>(args.y) + r * n;
  const int64_t ahead = std::max(n, kAhead);
  const auto fetch_y = [&](int64_t i) { __builtin_prefetch(y + i + ahead - n, 1, 3); };
  const auto fetch_s = [&](int64_t i) { __builtin_prefetch(s + i + ahead, 0, 2); };
  T mean = 0;
  if (!args.rms)
    mean = sum_of<T>(
               n, [](V v) { return v; }, s) /
           T(n);
  const V m(mean);
  const T square = horizontal_sum(lane_sums_beside<T>(
                       n, fetch_y, [&](V v) { return (v - m) * (v - m); }, s)) /
                   T(n);
  const T inverse = T(1.0 / std::sqrt(double(square) + args.epsilon));
  const V inv(inverse);
  if (gain != nullptr && bias != nullptr) {
    map_into_beside<false>(
        n, y, fetch_s, [&](V v, V g, V b) { return fma((v - m) * inv, g, b); }, s, gain, bias);
  } else if (gain != nullptr) {
    map_into_beside<false>(
        n, y, fetch_s, [&](V v, V g) { return (v - m) * inv * g; }, s, gain);
  } else if (bias != nullptr) {
    map_into_beside<false>(
        n, y, fetch_s, [&](V v, V b) { return fma(v - m, inv, b); }, s, bias);
  } else {
    map_into_beside<false>(
        n, y, fetch_s, [&](V v) { return (v - m) * inv; }, s);
  }
  if (!args.rms) typed<T>(args.mean)[r] = mean;
  typed<T>(args.inverse_deviation)[r] = inverse;
}

}  // namespace

template <class T>
void norm(const NormArgs& args) {
  using V = Vec<T>;
  const int64_t n = args.columns;
  if (n <= 0) return;
  const T* x = typed<T>(args.x);
  const T* residual = typed<T>(args.residual);
  T* sum = typed<T>(args.sum);
  const DropoutFactors factors(args.dropout);
  const bool drop = residual != nullptr && factors.active();
  for_rows(
      args.rows, n,
      [&](int64_t begin, int64_t end) {
        ScratchScope scratch;
        const int64_t drawn = rows_drawn(n);
        T* factor = drop ? scratch.allocate<T>(drawn * n) : nullptr;
        for (int64_t r = begin; r < end; ++r) {
          const int64_t at = r * n;
          if (residual == nullptr) {
            if (sum != nullptr && sum != x) std::copy(x + at, x + at + n, sum + at);
            normalise_row(args, r, x + at);
            continue;
          }
          if (drop) {
            const int64_t since = (r - begin) % drawn;
            if (since == 0) factors.draw(at, std::min(drawn, end - r) * n, factor);
            map_into<false>(
                n, sum + at, [](V a, V b, V f) { return fma(b, f, a); }, x + at, residual + at,
                static_cast<const T*>(factor + since * n));
          } else {
            map_into<false>(
                n, sum + at, [](V a, V b) { return a + b; }, x + at, residual + at);
          }
          normalise_row(args, r, static_cast<const T*>(sum + at));
        }
      },
      drop ? 3 : 2);
}

namespace {

template <class T>
struct NormBackwardRows {
  const NormBackwardArgs& args;
  const T* gain;  // never null: ones where the caller gave none
  const DropoutFactors& factors;

  // Rows [begin, end); the columns' sums of dy h and dy are added to dgain and dbias where not
  // null.
  void run(int64_t begin, int64_t end, T* dgain, T* dbias) const {
    const int64_t n = args.columns;
    const bool drop = args.dresidual != nullptr && factors.active();
    ScratchScope scratch;
    const int64_t drawn = rows_drawn(n);
    T* factor = drop ? scratch.allocate<T>(drawn * n) : nullptr;
    // ds is kept in a row of its own when it does not simply go to dx or dresidual.
    T* ds_row = scratch.allocate<T>(n);
    for (int64_t r = begin; r < end; ++r) {
      const T* row_factor = nullptr;
      if (drop) {
        const int64_t since = (r - begin) % drawn;
        if (since == 0) factors.draw(r * n, std::min(drawn, end - r) * n, factor);
        row_factor = factor + since * n;
      }
      one_row(r, row_factor, ds_row, dgain, dbias);
    }
  }

 private:
  using V = Vec<T>;

  void one_row(int64_t r, const T* factor, T* ds_row, T* dgain, T* dbias) const {
    const int64_t n = args.columns, at = r * n;
    const T* s = typed<T>(args.sum) + at;
    const T* dy = typed<T>(args.dy) + at;
    const V m(args.rms ? T(0) : typed<T>(args.mean)[r]);
    const V inv(typed<T>(args.inverse_deviation)[r]);
    T* dx = args.dx == nullptr ? nullptr : typed<T>(args.dx) + at;
    T* dresidual = args.dresidual == nullptr ? nullptr : typed<T>(args.dresidual) + at;
    const int64_t ahead = std::max(n, kAhead);
    const T* written = dx != nullptr ? dx : dresidual;

    // All four sums in one pass; past the end d and g are 0.
    V sum_g[2] = {V::zero(), V::zero()}, sum_gh[2] = {V::zero(), V::zero()};
    for (int64_t i = 0, odd = 0; i < n; i += V::kWidth, odd ^= 1) {
      if (written != nullptr) __builtin_prefetch(written + i + ahead - n, 1, 3);
      const int64_t left = n - i;
      const V d = V::load_partial(dy + i, left);
      const V h = (V::load_partial(s + i, left) - m) * inv;
      if (dgain != nullptr)
        fma(h, d, V::load_partial(dgain + i, left)).store_partial(dgain + i, left);
      if (dbias != nullptr) (V::load_partial(dbias + i, left) + d).store_partial(dbias + i, left);
      const V g = d * V::load_partial(gain + i, left);
      sum_g[odd] += g;
      sum_gh[odd] = fma(g, h, sum_gh[odd]);
    }
    if (written == nullptr) return;

    const T scale = T(1) / T(n);
    const V mean_g(args.rms ? T(0) : scale * horizontal_sum(sum_g[0] + sum_g[1]));
    const V mean_gh(scale * horizontal_sum(sum_gh[0] + sum_gh[1]));
    const auto fetch = [&](int64_t i) {
      __builtin_prefetch(s + i + ahead, 0, 2);
      __builtin_prefetch(dy + i + ahead, 0, 2);
    };
    const bool straight = dx != nullptr && !args.accumulate_dx;
    T* ds = straight ? dx : ds_row;
    const auto gradient = [&](V v, V d, V g) {
      return inv * (d * g - mean_g - (v - m) * inv * mean_gh);
    };
    if (args.dsum == nullptr) {
      map_into_beside<false>(n, ds, fetch, gradient, s, dy, gain);
    } else {
      map_into_beside<false>(
          n, ds, fetch, [&](V v, V d, V g, V direct) { return direct + gradient(v, d, g); }, s, dy,
          gain, typed<T>(args.dsum) + at);
    }
    const T* from = ds;
    if (dx != nullptr && !straight)
      map_into<true>(
          n, dx, [](V d) { return d; }, from);
    if (dresidual == nullptr) return;
    with_flag(args.accumulate_dresidual, [&](auto accumulate) {
      constexpr bool kAccumulate = decltype(accumulate)::value;
      if (factor != nullptr) {
        map_into<kAccumulate>(
            n, dresidual, [](V d, V f) { return d * f; }, from, factor);
      } else {
        map_into<kAccumulate>(
            n, dresidual, [](V d) { return d; }, from);
      }
    });
  }
};

}  // namespace

template <class T>
void norm_backward(const NormBackwardArgs& args) {
  const int64_t n = args.columns;
  if (n <= 0) return;
  const DropoutFactors factors(args.dropout);
  ScratchScope scratch;
  const T* gain = typed<T>(args.gain);
  if (gain == nullptr) {
    T* ones = scratch.allocate<T>(n);
    std::fill(ones, ones + n, T(1));
    gain = ones;
  }
  const NormBackwardRows<T> rows{args, gain, factors};
  const bool wants_gain = args.dgain != nullptr, wants_bias = args.dbias != nullptr;
  const RowPieces pieces(args.rows, 16);
  T* dgain = wants_gain ? scratch.allocate<T>(pieces.count * n) : nullptr;
  T* dbias = wants_bias ? scratch.allocate<T>(pieces.count * n) : nullptr;
  parallel_for(
      pieces.count,
      [&](int64_t p) {
        T* piece_gain = wants_gain ? dgain + p * n : nullptr;
        T* piece_bias = wants_bias ? dbias + p * n : nullptr;
        if (wants_gain) std::fill(piece_gain, piece_gain + n, T(0));
        if (wants_bias) std::fill(piece_bias, piece_bias + n, T(0));
        rows.run(pieces.begin(p), pieces.end(p), piece_gain, piece_bias);
      },
      args.rows * n * 3 >= kParallelElements);
  if (wants_gain) {
    tree_sum_rows(dgain, pieces.count, n, T(1), typed<T>(args.dgain), args.accumulate_dgain);
  }
  if (wants_bias) {
    tree_sum_rows(dbias, pieces.count, n, T(1), typed<T>(args.dbias), args.accumulate_dbias);
  }
}

template void norm<float>(const NormArgs&);
template void norm<double>(const NormArgs&);
template void norm_backward<float>(const NormBackwardArgs&);
template void norm_backward<double>(const NormBackwardArgs&);

}  // namespace longshot::cpu
