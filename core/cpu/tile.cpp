#include "core/cpu/tile.h"

#include <array>

namespace longshot::cpu {
namespace {

constexpr int64_t kAhead = 24;  // steps of about 14 cycles: the latency of the last-level cache

template <class T, int kRows, int kVectors, bool kInnerMajor>
void multiply(int64_t inner, const T* a, int64_t lda, const T* b, int64_t ldb, T* c, int64_t ldc,
              T alpha, bool accumulate, int64_t columns, const FetchAhead<T>& ahead) {
  constexpr int kWidth = Vec<T>::kWidth;
  Vec<T> sum[kRows][kVectors];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) sum[r][v] = Vec<T>::zero();

  // Row-major a: a base pointer for every three rows and twice lda as index keep all addresses in
  // the general registers.
  constexpr int kBases = (kRows + 2) / 3;
  const T* base[kBases];
#pragma GCC unroll 16
  for (int i = 0; i < kBases; ++i) base[i] = a + 3 * i * lda;

  const auto step = [&](int64_t k) __attribute__((always_inline)) {
    Vec<T> row[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) row[v] = Vec<T>::load(b + v * kWidth);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const Vec<T> left(kInnerMajor ? a[r] : base[r / 3][(r % 3) * lda + k]);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sum[r][v] = fma(left, row[v], sum[r][v]);
    }
    if constexpr (kInnerMajor) {
      // Rows of unpacked operands lie far apart: neither is what the machine prefetches by itself.
      __builtin_prefetch(a + kAhead * lda);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) __builtin_prefetch(b + kAhead * ldb + v * kWidth);
      a += lda;
    }
    b += ldb;
  };
  // The same steps three times over: beside fetching the lines of c, beside fetching what the
  // caller asked for, and alone.
  int64_t k = 0;
  if (inner >= 2 * kRows)
    for (const T* line = c; k < 2 * kRows; k += 2, line += ldc) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) __builtin_prefetch(line + v * kWidth, 1);
      step(k);
      step(k + 1);
    }
  for (int64_t r = 0; r < ahead.rows; ++r)
    for (int64_t i = 0; i < ahead.columns && k < inner; i += kWidth, ++k) {
      __builtin_prefetch(ahead.at + r * ahead.ld + i, 0, 2);
      step(k);
    }
#pragma GCC unroll 2
  for (; k < inner; ++k) step(k);

  const Vec<T> factor(alpha);
  if (columns == kVectors * kWidth) {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        T* out = c + r * ldc + v * kWidth;
        (accumulate ? fma(factor, sum[r][v], Vec<T>::load(out)) : factor * sum[r][v]).store(out);
      }
    return;
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      const int64_t valid = columns - v * kWidth;
      if (valid <= 0) continue;
      T* out = c + r * ldc + v * kWidth;
      (accumulate ? fma(factor, sum[r][v], Vec<T>::load_partial(out, valid)) : factor * sum[r][v])
          .store_partial(out, valid);
    }
}

template <class T, int kVectors, bool kInnerMajor, size_t... kRow>
constexpr std::array<TileKernel<T>, kMaxTileRows> row_table(std::index_sequence<kRow...>) {
  return {multiply<T, int(kRow) + 1, kVectors, kInnerMajor>...};
}
template <class T, int kVectors, bool kInnerMajor>
constexpr std::array<TileKernel<T>, kMaxTileRows> row_table() {
  return row_table<T, kVectors, kInnerMajor>(
      std::make_index_sequence<size_t(tile_rows(kVectors))>{});
}
template <class T>
constexpr std::array<TileKernel<T>, kMaxTileRows> kKernels[2][kMaxTileVectors] = {
    {row_table<T, 1, false>(), row_table<T, 2, false>(), row_table<T, 3, false>(),
     row_table<T, 4, false>()},
    {row_table<T, 1, true>(), row_table<T, 2, true>(), row_table<T, 3, true>(),
     row_table<T, 4, true>()}};

}  // namespace

template <class T>
TileKernel<T> tile_kernel(int64_t rows, int64_t vectors, bool inner_major) {
  return kKernels<T>[inner_major ? 1 : 0][vectors - 1][size_t(rows - 1)];
}
template TileKernel<float> tile_kernel<float>(int64_t, int64_t, bool);
template TileKernel<double> tile_kernel<double>(int64_t, int64_t, bool);

}  // namespace longshot::cpu
