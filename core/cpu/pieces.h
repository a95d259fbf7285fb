// How CPU kernels cut work: into pieces whose bounds depend on the shape alone, so that the bits of
// a result never depend on how many threads ran. Also the fixed-tree sum over pieces.
//
// Pieces are about 16k elements (64 KB of f32): small enough to share evenly and to stay in the
// first-level caches, large enough that handing one out costs nothing. Arrays too small to pay for
// a barrier (about 5 us) are done by the calling thread.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/backend.h"
#include "core/parallel.h"

namespace longshot::cpu {

constexpr int64_t kPieceElements = 16384;
constexpr int64_t kParallelElements = 32768;  // about 10 us of plain streaming on one core

inline int64_t divide_up(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

// body(begin, end) over [0, n) in pieces of `piece`. `cost` is the work of one index in units of
// one streamed element (a GELU costs about 4).
template <class Body>
void for_ranges(int64_t n, int64_t piece, int64_t cost, const Body& body) {
  if (n <= 0) return;
  if (n * cost < kParallelElements) {
    body(int64_t(0), n);
    return;
  }
  parallel_for(divide_up(n, piece),
               [&](int64_t p) { body(p * piece, std::min(n, (p + 1) * piece)); });
}

// Elementwise work: only for bodies whose results do not depend on where ranges are cut.
template <class Body>
void for_elements(int64_t n, const Body& body, int64_t cost = 1) {
  for_ranges(n, kPieceElements / std::min<int64_t>(cost, 16), cost, body);
}

// Rows of `columns` elements: body(row_begin, row_end), each row independent of the others.
template <class Body>
void for_rows(int64_t rows, int64_t columns, const Body& body, int64_t cost = 1) {
  const int64_t row_cost = std::max<int64_t>(1, columns * cost);
  for_ranges(rows, std::max<int64_t>(1, kPieceElements / row_cost), row_cost, body);
}

// Cuts `rows` into at most `limit` pieces of at least `least` rows, for sums over rows.
struct RowPieces {
  RowPieces(int64_t row_count, int64_t least, int64_t limit = 128)
      : rows(row_count),
        rows_per_piece(std::max(least, divide_up(row_count, limit))),
        count(divide_up(row_count, rows_per_piece)) {}
  int64_t begin(int64_t piece) const { return piece * rows_per_piece; }
  int64_t end(int64_t piece) const { return std::min(rows, (piece + 1) * rows_per_piece); }

  int64_t rows;
  int64_t rows_per_piece;
  int64_t count;
};

// Sums `count` values in place by the fixed binary tree ((0+1)+(2+3))+..., result in values[0].
template <class T>
T tree_sum(T* values, int64_t count) {
  if (count == 0) return T(0);
  for (int64_t stride = 1; stride < count; stride *= 2) {
    for (int64_t i = 0; i + stride < count; i += 2 * stride) values[i] += values[i + stride];
  }
  return values[0];
}

// The same tree over the rows of partial (count, columns); row 0 is then scaled into out
// (columns), which is written or added to.
template <class T>
void tree_sum_rows(T* partial, int64_t count, int64_t columns, T scale, T* out, bool accumulate) {
  for_ranges(columns, 256, std::max<int64_t>(1, count), [&](int64_t begin, int64_t end) {
    for (int64_t stride = 1; stride < count; stride *= 2) {
      for (int64_t i = 0; i + stride < count; i += 2 * stride) {
        T* to = partial + i * columns;
        const T* from = to + stride * columns;
        for (int64_t c = begin; c < end; ++c) to[c] += from[c];
      }
    }
    for (int64_t c = begin; c < end; ++c) {
      const T value = count == 0 ? T(0) : scale * partial[c];
      out[c] = accumulate ? out[c] + value : value;
    }
  });
}

template <class T>
const T* typed(const void* pointer) {
  return static_cast<const T*>(pointer);
}
template <class T>
T* typed(void* pointer) {
  return static_cast<T*>(pointer);
}

// to[i] = or += value, the two ways every output can be delivered.
template <bool kAccumulate, class T>
inline void deliver(T& to, T value) {
  if constexpr (kAccumulate) {
    to += value;
  } else {
    to = value;
  }
}

// Turns a run-time flag into a compile-time one: body(std::bool_constant<flag>{}).
template <class Body>
void with_flag(bool flag, const Body& body) {
  if (flag) {
    body(std::true_type{});
  } else {
    body(std::false_type{});
  }
}

}  // namespace longshot::cpu
