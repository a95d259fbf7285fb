// The scalar functions of the model and their derivatives, on vectors.
//
//   gelu       x Phi(x),  Phi(x) = (1 + erf(x / sqrt 2)) / 2        (Hendrycks & Gimpel 2016)
//   gelu_tanh  x (1 + tanh u) / 2,  u = sqrt(2 / pi) (x + 0.044715 x^3)
// derivatives
//   gelu'      Phi(x) + x phi(x),  phi(x) = exp(-x^2 / 2) / sqrt(2 pi)
//   gelu_tanh' (1 + tanh u) / 2 + x (1 - tanh^2 u) / 2 * sqrt(2 / pi) (1 + 3 * 0.044715 x^2)
#pragma once

#include "core/cpu/simd.h"

namespace longshot::cpu {

inline constexpr double kSqrtHalf = 0.70710678118654752440;
inline constexpr double kInverseSqrtTwoPi = 0.39894228040143267794;
inline constexpr double kSqrtTwoOverPi = 0.79788456080286535588;
inline constexpr double kGeluCubic = 0.044715;

template <class T>
LONGSHOT_INLINE Vec<T> relu(Vec<T> x) {
  return max(Vec<T>::zero(), x);  // in this order a NaN passes
}
template <class T>
LONGSHOT_INLINE Vec<T> relu_derivative(Vec<T> x) {
  return select<T>(x > Vec<T>::zero(), Vec<T>(T(1)), Vec<T>::zero());
}

template <class T>
LONGSHOT_INLINE Vec<T> normal_cdf(Vec<T> x) {
  return fma(Vec<T>(T(0.5)), erf(x * Vec<T>(T(kSqrtHalf))), Vec<T>(T(0.5)));
}
template <class T>
LONGSHOT_INLINE Vec<T> gelu(Vec<T> x) {
  return x * normal_cdf(x);
}
template <class T>
LONGSHOT_INLINE Vec<T> gelu_derivative(Vec<T> x) {
  const Vec<T> density = exp(x * x * Vec<T>(T(-0.5))) * Vec<T>(T(kInverseSqrtTwoPi));
  return fma(x, density, normal_cdf(x));
}

template <class T>
LONGSHOT_INLINE Vec<T> gelu_tanh_argument(Vec<T> x) {
  const Vec<T> slope =
      fma(x * x, Vec<T>(T(kSqrtTwoOverPi * kGeluCubic)), Vec<T>(T(kSqrtTwoOverPi)));
  return x * slope;
}
template <class T>
LONGSHOT_INLINE Vec<T> gelu_tanh(Vec<T> x) {
  const Vec<T> half(T(0.5));
  return x * fma(half, tanh(gelu_tanh_argument(x)), half);
}
template <class T>
LONGSHOT_INLINE Vec<T> gelu_tanh_derivative(Vec<T> x) {
  const Vec<T> half(T(0.5)), one(T(1));
  const Vec<T> t = tanh(gelu_tanh_argument(x));
  const Vec<T> slope =
      fma(x * x, Vec<T>(T(3 * kSqrtTwoOverPi * kGeluCubic)), Vec<T>(T(kSqrtTwoOverPi)));
  return fma(half * x * (one - t * t), slope, fma(half, t, half));
}

template <class T>
LONGSHOT_INLINE Vec<T> sigmoid(Vec<T> x) {
  return Vec<T>(T(1)) / (Vec<T>(T(1)) + exp(-x));
}

}  // namespace longshot::cpu
