// Loops over contiguous arrays in whole vectors with a partial one at the end: the shape of nearly
// every memory-bound kernel. Lanes past the end are read as 0 and never written.
#pragma once

#include <cstdint>

#include "core/cpu/simd.h"

namespace longshot::cpu {

// Mask of the lanes below n.
template <class T>
LONGSHOT_INLINE typename Vec<T>::Int lanes_below(int64_t n) {
  typename Vec<T>::Int lane;
  for (int i = 0; i < Vec<T>::kWidth; ++i) lane[i] = i;
  using Index = std::remove_reference_t<decltype(lane[0])>;
  return lane < Index(n < Vec<T>::kWidth ? n : Vec<T>::kWidth);
}

// out[i] = (or +=) f(in[i]...), vector by vector. Inputs may be the output itself.
template <bool kAccumulate, class T, class F, class... In>
LONGSHOT_INLINE void map_into(int64_t n, T* out, F f, const In*... in) {
  constexpr int64_t kWidth = Vec<T>::kWidth;
  int64_t i = 0;
  for (; i + kWidth <= n; i += kWidth) {
    Vec<T> value = f(Vec<T>::load(in + i)...);
    if constexpr (kAccumulate) value = Vec<T>::load(out + i) + value;
    value.store(out + i);
  }
  if (i < n) {
    Vec<T> value = f(Vec<T>::load_partial(in + i, n - i)...);
    if constexpr (kAccumulate) value = Vec<T>::load_partial(out + i, n - i) + value;
    value.store_partial(out + i, n - i);
  }
}

// Sum of f(in[i]...) over i < n, in four interleaved accumulators (the latency of an addition is
// four cycles) joined by a fixed tree. f must give any finite value for lanes past the end.
template <class T, class F, class... In>
LONGSHOT_INLINE T sum_of(int64_t n, F f, const In*... in) {
  constexpr int64_t kWidth = Vec<T>::kWidth;
  Vec<T> a = Vec<T>::zero(), b = a, c = a, d = a;
  int64_t i = 0;
  for (; i + 4 * kWidth <= n; i += 4 * kWidth) {
    a += f(Vec<T>::load(in + i)...);
    b += f(Vec<T>::load(in + i + kWidth)...);
    c += f(Vec<T>::load(in + i + 2 * kWidth)...);
    d += f(Vec<T>::load(in + i + 3 * kWidth)...);
  }
  for (; i + kWidth <= n; i += kWidth) a += f(Vec<T>::load(in + i)...);
  if (i < n) {
    b +=
        select<T>(lanes_below<T>(n - i), f(Vec<T>::load_partial(in + i, n - i)...), Vec<T>::zero());
  }
  return horizontal_sum((a + b) + (c + d));
}

// Largest of x; n >= 1.
template <class T>
LONGSHOT_INLINE T max_of(int64_t n, const T* x) {
  constexpr int64_t kWidth = Vec<T>::kWidth;
  Vec<T> a(x[0]), b = a;
  int64_t i = 0;
  for (; i + 2 * kWidth <= n; i += 2 * kWidth) {
    a = max(a, Vec<T>::load(x + i));
    b = max(b, Vec<T>::load(x + i + kWidth));
  }
  for (; i + kWidth <= n; i += kWidth) a = max(a, Vec<T>::load(x + i));
  if (i < n) b = select<T>(lanes_below<T>(n - i), max(b, Vec<T>::load_partial(x + i, n - i)), b);
  return horizontal_max(max(a, b));
}

}  // namespace longshot::cpu
