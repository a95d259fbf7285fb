// The matrix product that everything dense on the CPU is made of: one register tile.
//
//   c[r][0, columns) = (accumulate ? c[r] : 0) + alpha * sum over k < inner of a(r, k) * b[k]
//
// r < rows (a template constant behind the table), columns <= vectors * Vec<T>::kWidth. b is read
// in whole vectors: row k begins at b + k * ldb. a(r, k) is a[r * lda + k], or a[k * lda + r] when
// `inner_major`. k runs in order, so each element's sum has one order of terms, whatever the tile.
//
// On AVX-512 the best tile is 14 x 2 vectors: 28 accumulators, 2 vectors of b and 1 broadcast of a
// are 31 of the 32 registers, and 16 loads feed 28 multiply-adds.
#pragma once

#include <cstdint>

#include "core/cpu/simd.h"

namespace longshot::cpu {

// Memory to be fetched into the second-level cache while a tile is made: one line a step, so at
// most `inner` lines. A burst of requests would hold up the loads of b.
template <class T>
struct FetchAhead {
  const T* at = nullptr;
  int64_t rows = 0, columns = 0, ld = 0;

  FetchAhead part(int64_t i, int64_t parts) const {
    const int64_t first = rows * i / parts, last = rows * (i + 1) / parts;
    return {at + first * ld, last - first, columns, ld};
  }
};

// The tile's own lines of c are fetched too.
template <class T>
using TileKernel = void (*)(int64_t inner, const T* a, int64_t lda, const T* b, int64_t ldb, T* c,
                            int64_t ldc, T alpha, bool accumulate, int64_t columns,
                            const FetchAhead<T>& ahead);

#if defined(__AVX512F__) || defined(__aarch64__)
inline constexpr int kVectorRegisters = 32;
#else
inline constexpr int kVectorRegisters = 16;
#endif
inline constexpr int kMaxTileVectors = 4;
inline constexpr int kMaxTileRows = 14;

// Most rows of a tile `vectors` wide that stay in registers.
constexpr int tile_rows(int vectors) {
  const int rows = (kVectorRegisters - vectors - 1) / vectors;
  return rows < kMaxTileRows ? rows : kMaxTileRows;
}

// The kernel for 1 <= rows <= tile_rows(vectors), 1 <= vectors <= kMaxTileVectors.
template <class T>
TileKernel<T> tile_kernel(int64_t rows, int64_t vectors, bool inner_major);

// Cuts `rows` into ceil(rows / tile_rows) tiles of nearly equal height, calls body(first, height).
template <class Body>
LONGSHOT_INLINE void for_each_row_tile(int64_t rows, int64_t most, const Body& body) {
  const int64_t tiles = (rows + most - 1) / most;
  for (int64_t tile = 0, first = 0; tile < tiles; ++tile) {
    const int64_t last = rows * (tile + 1) / tiles;
    body(first, last - first);
    first = last;
  }
}

// The same product with any number of rows and columns: all tiles of a small matrix.
template <class T>
inline void small_product(int64_t rows, int64_t columns, int64_t inner, const T* a, int64_t lda,
                          bool inner_major, const T* b, int64_t ldb, T* c, int64_t ldc, T alpha,
                          bool accumulate) {
  constexpr int64_t kWidth = Vec<T>::kWidth;
  const int64_t all_vectors = (columns + kWidth - 1) / kWidth;
  for (int64_t v = 0; v < all_vectors;) {
    const int64_t left = all_vectors - v;
    const int64_t vectors = left <= kMaxTileVectors ? left : 2;
    const int64_t width = columns - v * kWidth;
    for_each_row_tile(rows, tile_rows(int(vectors)), [&](int64_t first, int64_t height) {
      tile_kernel<T>(height, vectors, inner_major)(
          inner, inner_major ? a + first : a + first * lda, lda, b + v * kWidth, ldb,
          c + first * ldc + v * kWidth, ldc, alpha, accumulate,
          width < vectors * kWidth ? width : vectors * kWidth, {});
    });
    v += vectors;
  }
}

}  // namespace longshot::cpu
