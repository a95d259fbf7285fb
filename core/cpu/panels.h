// Packed right-hand operands of matrix products: panels two vectors wide, [inner][2 W] each, the
// last one vector wide if that is enough for the columns left. The register tile
// (core/cpu/tile.h) streams a panel from end to end. Missing columns are 0.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/cpu/simd.h"

namespace longshot::cpu {

template <class T>
struct Panels {
  static constexpr int64_t kPanel = 2 * Vec<T>::kWidth;
  int64_t columns, inner;
  int64_t count() const { return (columns + kPanel - 1) / kPanel; }
  int64_t vectors(int64_t panel) const { return columns - panel * kPanel > Vec<T>::kWidth ? 2 : 1; }
  int64_t offset(int64_t panel) const { return panel * kPanel * inner; }
  int64_t elements() const { return count() * kPanel * inner; }
};

// What is packed: op(b) (inner, columns), stored (columns, inner) when transposed.
template <class T>
struct RightOperand {
  const T* b;
  int64_t ldb;
  bool transposed;
  const T* at(int64_t k, int64_t column) const {
    return transposed ? b + column * ldb + k : b + k * ldb + column;
  }
};

// Transposed: one panel of rows k0.. of op(b); its columns are contiguous rows of b.
template <class T>
void pack_panel(const RightOperand<T>& from, const Panels<T>& panels, int64_t panel, int64_t k0,
                T* packed) {
  constexpr int64_t kWidth = Vec<T>::kWidth;
  const int64_t vectors = panels.vectors(panel), ld = vectors * kWidth;
  packed += panels.offset(panel);
  for (int64_t v = 0; v < vectors; ++v) {
    const int64_t column = panel * Panels<T>::kPanel + v * kWidth;
    const int64_t valid = std::min(kWidth, panels.columns - column);
    for (int64_t k = 0; k < panels.inner; k += kWidth)
      transpose_tile(from.at(k0 + k, column), from.ldb, valid, std::min(kWidth, panels.inner - k),
                     packed + v * kWidth + k * ld, ld);
  }
}

// Not transposed: rows [begin, end) of all panels, each read from end to end.
template <class T>
void pack_rows(const RightOperand<T>& operand, const Panels<T>& panels, int64_t begin, int64_t end,
               int64_t k0, T* packed) {
  constexpr int64_t kWidth = Vec<T>::kWidth;
  constexpr int64_t kPanel = Panels<T>::kPanel;
  const int64_t whole = panels.columns / kPanel, step = kPanel * panels.inner;
  for (int64_t k = begin; k < end; ++k) {
    const T* from = operand.at(k0 + k, 0);
    T* to = packed + k * kPanel;
    for (int64_t panel = 0; panel < whole; ++panel, from += kPanel, to += step) {
      const Vec<T> left = Vec<T>::load(from), right = Vec<T>::load(from + kWidth);
      left.store(to);
      right.store(to + kWidth);
    }
    if (whole == panels.count()) continue;
    const int64_t ld = panels.vectors(whole) * kWidth, columns = panels.columns - whole * kPanel;
    to = packed + panels.offset(whole) + k * ld;
    for (int64_t i = 0; i < ld; i += kWidth)
      Vec<T>::load_partial(from + i, columns - i).store(to + i);
  }
}

}  // namespace longshot::cpu
