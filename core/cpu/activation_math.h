// The scalar functions of the model and their derivatives, on vectors.
//
//   gelu       x Phi(x),  Phi(x) = (1 + erf(x / sqrt 2)) / 2        (Hendrycks & Gimpel 2016)
//   gelu_tanh  x (1 + tanh u) / 2,  u = sqrt(2 / pi) (x + 0.044715 x^3)
// derivatives
//   gelu'      Phi(x) + x phi(x),  phi(x) = exp(-x^2 / 2) / sqrt(2 pi)
//   gelu_tanh' (1 + tanh u) / 2 + x (1 - tanh^2 u) / 2 * sqrt(2 / pi) (1 + 3 * 0.044715 x^2)
#pragma once

#include "core/backend.h"
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

// Phi(x) = 1/2 + x P(x^2) / Q(x^2) for |x| < 5.6, beyond which f32 has only 0 and 1. The fit is off
// by at most 1e-8 and rounding by 1.6e-7. Half the instructions of 1/2 + erf(x / sqrt 2) / 2, which
// has an exponential; it counts, since in a narrow model GELU costs as much as a matrix product.
LONGSHOT_INLINE Vec<float> normal_cdf(Vec<float> x) {
  using V = Vec<float>;
  constexpr float kEnd = 5.6f;
  const V clamped = min(V(kEnd), max(V(-kEnd), x));  // in this order a NaN passes
  const V u = clamped * clamped;
  V p(2.21452982e-08f);
  p = fma(p, u, V(6.35654111e-06f));
  p = fma(p, u, V(0.000173851385f));
  p = fma(p, u, V(0.00470726335f));
  p = fma(p, u, V(0.0343761655f));
  p = fma(p, u, V(0.398942222f));
  V q(1.18021224e-06f);
  q = fma(q, u, V(7.51021589e-05f));
  q = fma(q, u, V(0.00191298181f));
  q = fma(q, u, V(0.0289401221f));
  q = fma(q, u, V(0.252833981f));
  q = fma(q, u, V(1.0f));
  const V cdf = fma(clamped * p, reciprocal(q), V(0.5f));
  // Exactly 0 at the lower end: what is left there would be multiplied by a large x.
  return select<float>(x <= V(-kEnd), V::zero(), cdf);
}
LONGSHOT_INLINE Vec<double> normal_cdf(Vec<double> x) {
  return fma(Vec<double>(0.5), erf(x * Vec<double>(kSqrtHalf)), Vec<double>(0.5));
}
template <class T>
LONGSHOT_INLINE Vec<T> normal_density(Vec<T> x) {
  return exp(x * x * Vec<T>(T(-0.5))) * Vec<T>(T(kInverseSqrtTwoPi));
}
template <class T>
LONGSHOT_INLINE Vec<T> gelu(Vec<T> x) {
  return x * normal_cdf(x);
}

template <class T>
LONGSHOT_INLINE Vec<T> gelu_tanh_argument(Vec<T> x) {
  const Vec<T> slope =
      fma(x * x, Vec<T>(T(kSqrtTwoOverPi * kGeluCubic)), Vec<T>(T(kSqrtTwoOverPi)));
  return x * slope;
}
// The argument's derivative.
template <class T>
LONGSHOT_INLINE Vec<T> gelu_tanh_slope(Vec<T> x) {
  return fma(x * x, Vec<T>(T(3 * kSqrtTwoOverPi * kGeluCubic)), Vec<T>(T(kSqrtTwoOverPi)));
}
template <class T>
LONGSHOT_INLINE Vec<T> gelu_tanh(Vec<T> x) {
  const Vec<T> half(T(0.5));
  return x * fma(half, tanh(gelu_tanh_argument(x)), half);
}

template <class T>
LONGSHOT_INLINE Vec<T> sigmoid(Vec<T> x) {
  return Vec<T>(T(1)) / (Vec<T>(T(1)) + exp(-x));
}

// f(x) and f'(x) together, where both are wanted.
template <class T>
struct ValueAndSlope {
  Vec<T> value, slope;
};
template <Activation activation, class T>
LONGSHOT_INLINE ValueAndSlope<T> value_and_slope(Vec<T> x) {
  if constexpr (activation == Activation::relu) return {relu(x), relu_derivative(x)};
  if constexpr (activation == Activation::gelu) {
    const Vec<T> cdf = normal_cdf(x);
    return {x * cdf, fma(x, normal_density(x), cdf)};
  }
  if constexpr (activation == Activation::gelu_tanh) {
    const Vec<T> half(T(0.5)), one(T(1));
    const Vec<T> t = tanh(gelu_tanh_argument(x));
    const Vec<T> gate = fma(half, t, half);
    return {x * gate, fma(half * x * (one - t * t), gelu_tanh_slope(x), gate)};
  }
  return {x, Vec<T>(T(1))};
}

template <class T>
LONGSHOT_INLINE Vec<T> gelu_derivative(Vec<T> x) {
  return value_and_slope<Activation::gelu>(x).slope;
}
template <class T>
LONGSHOT_INLINE Vec<T> gelu_tanh_derivative(Vec<T> x) {
  return value_and_slope<Activation::gelu_tanh>(x).slope;
}

}  // namespace longshot::cpu
