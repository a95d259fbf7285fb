// Vec<T>: one machine vector of f32 or f64, through the compilers' vector extensions (GCC 12+,
// clang 14+; x86 and Arm alike). Width: 64 bytes with AVX-512, 32 with AVX2, 16 elsewhere.
//
// Sums across lanes use one fixed tree, so results never depend on optimisation. `a * b + c` is
// contracted to a fused multiply-add where the machine has one. Intrinsics appear only where
// compilers miss an instruction, always beside a portable path with the same value.
// The functions exp, log, tanh, erf are in core/cpu/simd_math.h, which this header includes.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

namespace longshot::cpu {

#if defined(__AVX512F__)
inline constexpr int kVectorBytes = 64;
#elif defined(__AVX2__)
inline constexpr int kVectorBytes = 32;
#else
inline constexpr int kVectorBytes = 16;
#endif

#define LONGSHOT_INLINE inline __attribute__((always_inline))

template <class T>
struct VecTypes;
template <>
struct VecTypes<float> {
  typedef float Native __attribute__((vector_size(kVectorBytes)));
  typedef float Unaligned
      __attribute__((vector_size(kVectorBytes), aligned(sizeof(float)), may_alias));
  typedef int32_t Int __attribute__((vector_size(kVectorBytes)));
};
template <>
struct VecTypes<double> {
  typedef double Native __attribute__((vector_size(kVectorBytes)));
  typedef double Unaligned
      __attribute__((vector_size(kVectorBytes), aligned(sizeof(double)), may_alias));
  typedef int64_t Int __attribute__((vector_size(kVectorBytes)));
};

template <class T>
struct Vec {
  static constexpr int kWidth = kVectorBytes / int(sizeof(T));
  using Native = typename VecTypes<T>::Native;
  // Through a type, not memcpy: GCC may cut a copy into 16-byte pieces (CMakeLists.txt limits it).
  using Unaligned = typename VecTypes<T>::Unaligned;
  using Int = typename VecTypes<T>::Int;  // integer lanes; also the type of a comparison

  Native v;

  Vec() = default;
  LONGSHOT_INLINE Vec(Native native) : v(native) {}
  LONGSHOT_INLINE Vec(T scalar) : v(scalar - Native{}) {}  // broadcast; x - 0 = x for every x
  LONGSHOT_INLINE static Vec zero() { return Vec(Native{}); }

  // Unaligned. `n` lanes are touched in the partial forms, 0 <= n; n >= kWidth is a whole vector.
  LONGSHOT_INLINE static Vec load(const T* p) {
    return Vec(Native(*reinterpret_cast<const Unaligned*>(p)));
  }
  LONGSHOT_INLINE void store(T* p) const { *reinterpret_cast<Unaligned*>(p) = v; }
  static Vec load_partial(const T* p, int64_t n,
                          Vec rest = zero());  // lanes from n on: those of rest
  void store_partial(T* p, int64_t n) const;

  LONGSHOT_INLINE T operator[](int lane) const { return v[lane]; }
  LONGSHOT_INLINE Vec& operator+=(Vec o) {
    v += o.v;
    return *this;
  }
  LONGSHOT_INLINE Vec& operator-=(Vec o) {
    v -= o.v;
    return *this;
  }
  LONGSHOT_INLINE Vec& operator*=(Vec o) {
    v *= o.v;
    return *this;
  }
  friend LONGSHOT_INLINE Vec operator+(Vec a, Vec b) { return a.v + b.v; }
  friend LONGSHOT_INLINE Vec operator-(Vec a, Vec b) { return a.v - b.v; }
  friend LONGSHOT_INLINE Vec operator*(Vec a, Vec b) { return a.v * b.v; }
  friend LONGSHOT_INLINE Vec operator/(Vec a, Vec b) { return a.v / b.v; }
  friend LONGSHOT_INLINE Vec operator-(Vec a) { return -a.v; }
  friend LONGSHOT_INLINE Int operator<(Vec a, Vec b) { return a.v < b.v; }
  friend LONGSHOT_INLINE Int operator<=(Vec a, Vec b) { return a.v <= b.v; }
  friend LONGSHOT_INLINE Int operator>(Vec a, Vec b) { return a.v > b.v; }
  friend LONGSHOT_INLINE Int operator>=(Vec a, Vec b) { return a.v >= b.v; }
  friend LONGSHOT_INLINE Int operator==(Vec a, Vec b) { return a.v == b.v; }
};

// mask ? a : b, lane by lane (mask lanes are all ones or all zeros).
template <class T>
LONGSHOT_INLINE Vec<T> select(typename Vec<T>::Int mask, Vec<T> a, Vec<T> b) {
  return mask ? a.v : b.v;
}

template <class T>
LONGSHOT_INLINE Vec<T> fma(Vec<T> a, Vec<T> b, Vec<T> c) {
  return a.v * b.v + c.v;
}

// (Masked intrinsics with a full mask: GCC 12 warns about its unmasked ones. The code is the same.)
// The second argument where the lanes are unordered or equal, as x86 does.
template <class T>
LONGSHOT_INLINE Vec<T> max(Vec<T> a, Vec<T> b) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4) return Vec<T>(_mm512_maskz_max_ps(__mmask16(-1), a.v, b.v));
  if constexpr (sizeof(T) == 8) return Vec<T>(_mm512_maskz_max_pd(__mmask8(-1), a.v, b.v));
#endif
  return a.v > b.v ? a.v : b.v;
}
template <class T>
LONGSHOT_INLINE Vec<T> min(Vec<T> a, Vec<T> b) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4) return Vec<T>(_mm512_maskz_min_ps(__mmask16(-1), a.v, b.v));
  if constexpr (sizeof(T) == 8) return Vec<T>(_mm512_maskz_min_pd(__mmask8(-1), a.v, b.v));
#endif
  return a.v < b.v ? a.v : b.v;
}

template <class T>
LONGSHOT_INLINE typename Vec<T>::Int bits(Vec<T> a) {
  typename Vec<T>::Int r;
  std::memcpy(&r, &a.v, kVectorBytes);
  return r;
}
template <class T>
LONGSHOT_INLINE Vec<T> from_bits(typename Vec<T>::Int a) {
  Vec<T> r;
  std::memcpy(&r.v, &a, kVectorBytes);
  return r;
}
template <class T>
LONGSHOT_INLINE Vec<T> abs(Vec<T> a) {
  return max(a, -a);
}

template <class T>
LONGSHOT_INLINE Vec<T> sqrt(Vec<T> a) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4) return Vec<T>(_mm512_maskz_sqrt_ps(__mmask16(-1), a.v));
  if constexpr (sizeof(T) == 8) return Vec<T>(_mm512_maskz_sqrt_pd(__mmask8(-1), a.v));
#endif
  for (int i = 0; i < Vec<T>::kWidth; ++i) a.v[i] = __builtin_sqrt(a.v[i]);
  return a;
}

// 1 / a. In f32 on AVX-512 the machine's 14-bit estimate and one Newton step, within 1 ulp for
// normal results: a division takes as long as eight multiply-adds. Not for a = 0 or infinity.
template <class T>
LONGSHOT_INLINE Vec<T> reciprocal(Vec<T> a) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4) {
    const Vec<T> estimate(_mm512_maskz_rcp14_ps(__mmask16(-1), a.v));
    return fma(estimate, fma(-a, estimate, Vec<T>(T(1))), estimate);
  }
#endif
  return Vec<T>(T(1)) / a;
}

template <class T>
LONGSHOT_INLINE Vec<T> Vec<T>::load_partial(const T* p, int64_t n, Vec rest) {
  if (n >= kWidth) return load(p);
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4)
    return Vec(_mm512_mask_loadu_ps(rest.v, __mmask16((1u << n) - 1), p));
  if constexpr (sizeof(T) == 8)
    return Vec(_mm512_mask_loadu_pd(rest.v, __mmask8((1u << n) - 1), p));
#endif
  alignas(kVectorBytes) T lanes[kWidth];
  rest.store(lanes);
  for (int64_t i = 0; i < n; ++i) lanes[i] = p[i];
  return load(lanes);
}
template <class T>
LONGSHOT_INLINE void Vec<T>::store_partial(T* p, int64_t n) const {
  if (n >= kWidth) return store(p);
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4) return _mm512_mask_storeu_ps(p, __mmask16((1u << n) - 1), v);
  if constexpr (sizeof(T) == 8) return _mm512_mask_storeu_pd(p, __mmask8((1u << n) - 1), v);
#endif
  alignas(kVectorBytes) T lanes[kWidth];
  store(lanes);
  for (int64_t i = 0; i < n; ++i) p[i] = lanes[i];
}

namespace detail {
// Lane i takes lane i + step (wrapping round).
template <class T, int step, size_t... I>
LONGSHOT_INLINE Vec<T> moved_down(Vec<T> a, std::index_sequence<I...>) {
  return Vec<T>(__builtin_shufflevector(a.v, a.v, ((int(I) + step) % Vec<T>::kWidth)...));
}
template <int step, class T, class Join>
LONGSHOT_INLINE T join_lanes(Vec<T> a, Join join) {
  if constexpr (step == 0) {
    return a[0];
  } else {
    constexpr auto lanes = std::make_index_sequence<size_t(Vec<T>::kWidth)>{};
    return join_lanes<step / 2>(join(a, moved_down<T, step>(a, lanes)), join);
  }
}
}  // namespace detail

// Sum and maximum of the lanes by a fixed tree of halves: lane i + lane i + W/2, and so on.
template <class T>
LONGSHOT_INLINE T horizontal_sum(Vec<T> a) {
  return detail::join_lanes<Vec<T>::kWidth / 2>(a, [](Vec<T> x, Vec<T> y) { return x + y; });
}
template <class T>
LONGSHOT_INLINE T horizontal_max(Vec<T> a) {
  return detail::join_lanes<Vec<T>::kWidth / 2>(a, [](Vec<T> x, Vec<T> y) { return max(x, y); });
}

// base[index[0]], base[index[1]], ...
template <class T>
LONGSHOT_INLINE Vec<T> gather(const T* base, const int32_t* index) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4)
    return Vec<T>(_mm512_mask_i32gather_ps(_mm512_setzero_ps(), __mmask16(-1),
                                           _mm512_loadu_si512(index), base, 4));
#endif
  alignas(kVectorBytes) T lanes[Vec<T>::kWidth];
  for (int i = 0; i < Vec<T>::kWidth; ++i) lanes[i] = base[index[i]];
  return Vec<T>::load(lanes);
}

namespace detail {
template <class T, int offset, size_t... I>
LONGSHOT_INLINE Vec<T> interleave(Vec<T> a, Vec<T> b, std::index_sequence<I...>) {
  constexpr int kWidth = Vec<T>::kWidth;
  return Vec<T>(__builtin_shufflevector(
      a.v, b.v, (int(I) % 2 ? kWidth + offset + int(I) / 2 : offset + int(I) / 2)...));
}
template <class T, size_t... I>
LONGSHOT_INLINE Vec<T> reverse(Vec<T> a, std::index_sequence<I...>) {
  return Vec<T>(__builtin_shufflevector(a.v, a.v, (Vec<T>::kWidth - 1 - int(I))...));
}
}  // namespace detail

// a0 b0 a1 b1 ... of the lower (upper) halves.
template <class T>
LONGSHOT_INLINE Vec<T> interleave_low(Vec<T> a, Vec<T> b) {
  return detail::interleave<T, 0>(a, b, std::make_index_sequence<size_t(Vec<T>::kWidth)>{});
}
template <class T>
LONGSHOT_INLINE Vec<T> interleave_high(Vec<T> a, Vec<T> b) {
  return detail::interleave<T, Vec<T>::kWidth / 2>(
      a, b, std::make_index_sequence<size_t(Vec<T>::kWidth)>{});
}
template <class T>
LONGSHOT_INLINE Vec<T> reverse(Vec<T> a) {
  return detail::reverse<T>(a, std::make_index_sequence<size_t(Vec<T>::kWidth)>{});
}

// Half a vector (f32 only), to put two short rows into one and to take them apart.
typedef float HalfVec __attribute__((vector_size(kVectorBytes / 2)));
typedef float UnalignedHalf
    __attribute__((vector_size(kVectorBytes / 2), aligned(sizeof(float)), may_alias));
namespace detail {
template <size_t... I>
LONGSHOT_INLINE Vec<float> join_halves(HalfVec a, HalfVec b, std::index_sequence<I...>) {
  return Vec<float>(__builtin_shufflevector(a, b, int(I)...));
}
template <int first, size_t... I>
LONGSHOT_INLINE HalfVec half_of(Vec<float> a, std::index_sequence<I...>) {
  return __builtin_shufflevector(a.v, a.v, (first + int(I))...);
}
}  // namespace detail
LONGSHOT_INLINE HalfVec load_half(const float* p) {
  return *reinterpret_cast<const UnalignedHalf*>(p);
}
LONGSHOT_INLINE void store_half(HalfVec a, float* p) {
  *reinterpret_cast<UnalignedHalf*>(p) = a;
}
LONGSHOT_INLINE Vec<float> join_halves(HalfVec a, HalfVec b) {
  return detail::join_halves(a, b, std::make_index_sequence<size_t(Vec<float>::kWidth)>{});
}
LONGSHOT_INLINE HalfVec lower_half(Vec<float> a) {
  return detail::half_of<0>(a, std::make_index_sequence<size_t(Vec<float>::kWidth / 2)>{});
}
LONGSHOT_INLINE HalfVec upper_half(Vec<float> a) {
  constexpr int kHalf = Vec<float>::kWidth / 2;
  return detail::half_of<kHalf>(a, std::make_index_sequence<size_t(kHalf)>{});
}

namespace detail {
template <class T, int first, size_t... I>
LONGSHOT_INLINE Vec<T> every_other(Vec<T> a, Vec<T> b, std::index_sequence<I...>) {
  return Vec<T>(__builtin_shufflevector(a.v, b.v, (2 * int(I) + first)...));
}
}  // namespace detail

// a0 a2 a4 ... b0 b2 b4 ..., and a1 a3 ... b1 b3 ...: what the interleaves undo.
template <class T>
LONGSHOT_INLINE Vec<T> even_lanes(Vec<T> a, Vec<T> b) {
  return detail::every_other<T, 0>(a, b, std::make_index_sequence<size_t(Vec<T>::kWidth)>{});
}
template <class T>
LONGSHOT_INLINE Vec<T> odd_lanes(Vec<T> a, Vec<T> b) {
  return detail::every_other<T, 1>(a, b, std::make_index_sequence<size_t(Vec<T>::kWidth)>{});
}

// Vectors i and i + N/2 interleaved, again and again. An element's place, written in binary, is its
// vector's number and then its lane; every round rotates that by one bit. So W vectors, after
// log2(W) rounds, are transposed: element c of vector r becomes element r of vector c. And W/2
// vectors hold W/2 columns of W rows before, the rows of W/2 elements after, two rows a vector.
template <class T, int kVectors>
LONGSHOT_INLINE void transpose(Vec<T> (&a)[kVectors]) {
  Vec<T> b[kVectors];
#pragma GCC unroll 8
  for (int size = kVectors; size > 1; size /= 2) {
#pragma GCC unroll 8
    for (int i = 0; i < kVectors / 2; ++i) {
      b[2 * i] = interleave_low(a[i], a[i + kVectors / 2]);
      b[2 * i + 1] = interleave_high(a[i], a[i + kVectors / 2]);
    }
#pragma GCC unroll 16
    for (int i = 0; i < kVectors; ++i) a[i] = b[i];
  }
}

// What undoes it for W/2 vectors: rows of W/2 elements, two a vector, to columns.
template <class T>
LONGSHOT_INLINE void transpose_narrow(Vec<T> (&a)[Vec<T>::kWidth / 2]) {
  constexpr int kHalf = Vec<T>::kWidth / 2;
  Vec<T> b[kHalf];
#pragma GCC unroll 8
  for (int size = kHalf; size > 1; size /= 2) {
#pragma GCC unroll 8
    for (int i = 0; i < kHalf / 2; ++i) {
      b[i] = even_lanes(a[2 * i], a[2 * i + 1]);
      b[i + kHalf / 2] = odd_lanes(a[2 * i], a[2 * i + 1]);
    }
#pragma GCC unroll 8
    for (int i = 0; i < kHalf; ++i) a[i] = b[i];
  }
}

// Lane r of the result joins the lanes of vector r, by the tree of horizontal_sum and _max and with
// a quarter of the work; `a` is used up.
template <class T, class Join>
LONGSHOT_INLINE Vec<T> join_lanes_of(Vec<T> (&a)[Vec<T>::kWidth], Join join) {
#pragma GCC unroll 4
  for (int half = Vec<T>::kWidth / 2; half > 0; half /= 2)
#pragma GCC unroll 8
    for (int i = 0; i < half; ++i)
      a[i] = join(interleave_low(a[i], a[i + half]), interleave_high(a[i], a[i + half]));
  return a[0];
}
template <class T>
LONGSHOT_INLINE Vec<T> horizontal_sums(Vec<T> (&a)[Vec<T>::kWidth]) {
  return join_lanes_of<T>(a, [](Vec<T> x, Vec<T> y) { return x + y; });
}
template <class T>
LONGSHOT_INLINE Vec<T> horizontal_maxima(Vec<T> (&a)[Vec<T>::kWidth]) {
  return join_lanes_of<T>(a, [](Vec<T> x, Vec<T> y) { return max(x, y); });
}

// out[c * ld_out + r] = in[r * ld_in + c] for r < rows, c < columns; both at most kWidth. Whole
// vectors are written: lanes r >= rows of an output row become 0.
template <class T>
inline void transpose_tile(const T* in, int64_t ld_in, int64_t rows, int64_t columns, T* out,
                           int64_t ld_out) {
  constexpr int kWidth = Vec<T>::kWidth;
  Vec<T> a[kWidth];
#pragma GCC unroll 16
  for (int r = 0; r < kWidth; ++r)
    a[r] = r < rows ? Vec<T>::load_partial(in + r * ld_in, columns) : Vec<T>::zero();
  transpose(a);
#pragma GCC unroll 16
  for (int c = 0; c < kWidth; ++c)
    if (c < columns) a[c].store(out + c * ld_out);
}

}  // namespace longshot::cpu

#include "core/cpu/simd_math.h"
