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

// out[i] = (or +=) f(in[i]...), vector by vector. Inputs may be the output itself. beside(i) is
// called before the vector at i: a place for prefetches.
template <bool kAccumulate, class T, class Beside, class F, class... In>
LONGSHOT_INLINE void map_into_beside(int64_t n, T* out, Beside beside, F f, const In*... in) {
  constexpr int64_t kWidth = Vec<T>::kWidth;
  int64_t i = 0;
  for (; i + kWidth <= n; i += kWidth) {
    beside(i);
    Vec<T> value = f(Vec<T>::load(in + i)...);
    if constexpr (kAccumulate) value = Vec<T>::load(out + i) + value;
    value.store(out + i);
  }
  if (i < n) {
    beside(i);
    Vec<T> value = f(Vec<T>::load_partial(in + i, n - i)...);
    if constexpr (kAccumulate) value = Vec<T>::load_partial(out + i, n - i) + value;
    value.store_partial(out + i, n - i);
  }
}
template <bool kAccumulate, class T, class F, class... In>
LONGSHOT_INLINE void map_into(int64_t n, T* out, F f, const In*... in) {
  map_into_beside<kAccumulate>(
      n, out, [](int64_t) {}, f, in...);
}

// Sum of f(in[i]...) over i < n, lane by lane, in four interleaved accumulators (the latency of an
// addition is four cycles). f must give any finite value for lanes past the end.
template <class T, class Beside, class F, class... In>
LONGSHOT_INLINE Vec<T> lane_sums_beside(int64_t n, Beside beside, F f, const In*... in) {
  constexpr int64_t kWidth = Vec<T>::kWidth;
  Vec<T> a = Vec<T>::zero(), b = a, c = a, d = a;
  int64_t i = 0;
  const auto term = [&](int64_t at) {
    beside(at);
    return f(Vec<T>::load(in + at)...);
  };
  for (; i + 4 * kWidth <= n; i += 4 * kWidth) {
    a += term(i);
    b += term(i + kWidth);
    c += term(i + 2 * kWidth);
    d += term(i + 3 * kWidth);
  }
  for (; i + kWidth <= n; i += kWidth) a += term(i);
  if (i < n) {
    beside(i);
    b +=
        select<T>(lanes_below<T>(n - i), f(Vec<T>::load_partial(in + i, n - i)...), Vec<T>::zero());
  }
  return (a + b) + (c + d);
}
// The same over all lanes, which a fixed tree joins.
template <class T, class F, class... In>
LONGSHOT_INLINE T sum_of(int64_t n, F f, const In*... in) {
  return horizontal_sum(lane_sums_beside<T>(
      n, [](int64_t) {}, f, in...));
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
