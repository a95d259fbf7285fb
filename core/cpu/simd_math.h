// Vectorised exp, log, tanh, erf for Vec<float>; for Vec<double> the same names call libm lane by
// lane (f64 exists for gradient checks, not for speed). Include core/cpu/simd.h.
//
// The polynomials are Chebyshev fits of the functions named beside them. Errors, measured in
// tests/core/cpu/simd_test.cpp: exp 1 ulp, log 2 ulp, tanh and erf 3 ulp. Special values are exact:
// exp(-inf) = 0, exp(large) = inf, log(0) = -inf, log(negative) = NaN, NaN stays NaN.
#pragma once

#include <cmath>
#include <limits>

#include "core/cpu/simd.h"

namespace longshot::cpu {

namespace detail {
template <class F>
LONGSHOT_INLINE Vec<double> per_lane(Vec<double> x, F f) {
  for (int i = 0; i < Vec<double>::kWidth; ++i) x.v[i] = f(x.v[i]);
  return x;
}
// x >= smallest or x is NaN ? p * 2^n : 0, for integral n from -126 to 128.
LONGSHOT_INLINE Vec<float> scale_by_power(Vec<float> p, Vec<float> n, Vec<float>::Int n_int,
                                          Vec<float> x, Vec<float> smallest) {
#if defined(__AVX512F__)
  (void)n_int;
  const __mmask16 lanes = _mm512_cmp_ps_mask(x.v, smallest.v, _CMP_NLT_UQ);
  return Vec<float>(_mm512_maskz_scalef_ps(lanes, p.v, n.v));
#else
  (void)n;
  const Vec<float>::Int half = n_int >> 1;
  const Vec<float> a = from_bits<float>((half + 127) << 23);
  const Vec<float> b = from_bits<float>((n_int - half + 127) << 23);
  return select<float>(x < smallest, Vec<float>::zero(), p * a * b);
#endif
}
}  // namespace detail

// exp(x) = 2^n exp(r), n = round(x / ln 2), |r| <= ln(2) / 2. Results below the smallest normal
// number (x < -87.3) are 0: subnormal ones cost a microcode assist of some 150 cycles each on x86,
// and every masked logit would.
LONGSHOT_INLINE Vec<float> exp(Vec<float> x) {
  using V = Vec<float>;
  const V magic(12582912.0f);  // 1.5 * 2^23: adding it rounds to an integer
  const V smallest(-87.33654f);
  x = min(V(89.0f), x);
  const V shifted = fma(x, V(1.44269504f), magic);
  const V n = shifted - magic;
  V r = fma(n, V(-0.693359375f), x);  // ln 2 in two parts; the first has few bits, so this is exact
  r = fma(n, V(2.12194440e-4f), r);
  V p(0.001392620336f);  // (exp(r) - 1 - r) / r^2
  p = fma(p, r, V(0.008363194882f));
  p = fma(p, r, V(0.0416665545f));
  p = fma(p, r, V(0.1666657689f));
  p = fma(p, r, V(0.5f));
  p = fma(p * r, r, r) + V(1.0f);
  return detail::scale_by_power(p, n, bits(shifted) - bits(magic), x, smallest);
}
LONGSHOT_INLINE Vec<double> exp(Vec<double> x) {
  return detail::per_lane(x, [](double a) { return std::exp(a); });
}

// exp(x) for x <= 88, with 13 operations instead of 16: terms of a softmax, whose argument is a
// logit less the largest. ln 2 in one part costs 4 ulp at x = -64, below 2 from -10 on. Results for
// x < -64 are 0: beside a term of 1 they add nothing, and what a backward pass multiplies them with
// would make subnormal numbers of them (ALiBi at length 512: half of the training step's time).
LONGSHOT_INLINE Vec<float> exp_bounded(Vec<float> x) {
  using V = Vec<float>;
  const V magic(12582912.0f), smallest(-64.0f);
  const V shifted = fma(x, V(1.44269504f), magic);
  const V n = shifted - magic;
  // One step is exact enough only where it is fused for certain; builds without optimisation do not
  // fuse a * b + c.
#if defined(__AVX512F__)
  const V r(_mm512_fmadd_ps(n.v, V(-0.693147181f).v, x.v));
#else
  const V r = fma(n, V(2.12194440e-4f), fma(n, V(-0.693359375f), x));
#endif
  V p(0.001392620336f);
  p = fma(p, r, V(0.008363194882f));
  p = fma(p, r, V(0.0416665545f));
  p = fma(p, r, V(0.1666657689f));
  p = fma(p, r, V(0.5f));
  p = fma(p, r, V(1.0f));
  p = fma(p, r, V(1.0f));
  return detail::scale_by_power(p, n, bits(shifted) - bits(magic), x, smallest);
}
LONGSHOT_INLINE Vec<double> exp_bounded(Vec<double> x) {
  return exp(x);
}

// log(x) = e ln 2 + log(1 + f), 1 + f in [sqrt(1/2), sqrt(2)).
LONGSHOT_INLINE Vec<float> log(Vec<float> x) {
  using V = Vec<float>;
  const V smallest(std::numeric_limits<float>::min());
  const auto subnormal = x < smallest;
  const V scaled = select<float>(subnormal, x * V(33554432.0f), x);  // 2^25
  const auto offset = bits(scaled) - 0x3f3504f3;                     // sqrt(1/2)
  const auto e = offset >> 23;
  const V f = from_bits<float>((offset & 0x7fffff) + 0x3f3504f3) - V(1.0f);
  V exponent(__builtin_convertvector(e, V::Native));
  exponent = select<float>(subnormal, exponent - V(25.0f), exponent);
  V p(0.06971681253f);  // (log(1 + f) - f + f^2 / 2) / f^3
  p = fma(p, f, V(-0.1147983685f));
  p = fma(p, f, V(0.1168544314f));
  p = fma(p, f, V(-0.1242567579f));
  p = fma(p, f, V(0.1424905432f));
  p = fma(p, f, V(-0.1666780266f));
  p = fma(p, f, V(0.2000071585f));
  p = fma(p, f, V(-0.2499999696f));
  p = fma(p, f, V(0.3333333118f));
  const V square = f * f;
  V r = fma(p * f, square, exponent * V(-2.12194440e-4f));
  r = fma(square, V(-0.5f), r);
  r = fma(exponent, V(0.693359375f), r + f);
  const V infinity(std::numeric_limits<float>::infinity());
  r = select<float>(x == V(0.0f), -infinity, r);
  r = select<float>(x < V(0.0f), V(std::numeric_limits<float>::quiet_NaN()), r);
  return select<float>(x < infinity, r, x == infinity ? infinity.v : (x + r).v);
}
LONGSHOT_INLINE Vec<double> log(Vec<double> x) {
  return detail::per_lane(x, [](double a) { return std::log(a); });
}

// Small arguments: an odd polynomial. Others: sign(x) (1 - 2 / (exp(2 |x|) + 1)).
LONGSHOT_INLINE Vec<float> tanh(Vec<float> x) {
  using V = Vec<float>;
  const V magnitude = abs(x);
  const V u = x * x;
  V p(0.002269501684f);  // (tanh(sqrt u) / sqrt u - 1) / u
  p = fma(p, u, V(-0.008323187058f));
  p = fma(p, u, V(0.02176250291f));
  p = fma(p, u, V(-0.05395846163f));
  p = fma(p, u, V(0.1333330015f));
  p = fma(p, u, V(-0.3333333315f));
  const V small = fma(p * u, x, x);
  V large = V(1.0f) - V(2.0f) / (exp(magnitude + magnitude) + V(1.0f));
  large = select<float>(x < V(0.0f), -large, large);
  return select<float>(magnitude < V(0.625f), small, large);
}
LONGSHOT_INLINE Vec<double> tanh(Vec<double> x) {
  return detail::per_lane(x, [](double a) { return std::tanh(a); });
}

// Small arguments: an odd polynomial. Others: sign(x) (1 - exp(q(|x|))), q = log erfc.
LONGSHOT_INLINE Vec<float> erf(Vec<float> x) {
  using V = Vec<float>;
  const V magnitude = abs(x);
  const V u = x * x;
  V p(8.351897081e-5f);  // erf(sqrt u) / sqrt u
  p = fma(p, u, V(-0.0008138792386f));
  p = fma(p, u, V(0.005200729667f));
  p = fma(p, u, V(-0.02685929726f));
  p = fma(p, u, V(0.1128369415f));
  p = fma(p, u, V(-0.3761263369f));
  p = fma(p, u, V(0.128379167f));
  const V small = fma(p, x, x);
  const V clamped = min(V(4.0f), magnitude);  // erf(4) rounds to 1; a NaN stays in `magnitude`
  V q(1.643569654e-6f);
  q = fma(q, clamped, V(-4.617791279e-5f));
  q = fma(q, clamped, V(0.000597743472f));
  q = fma(q, clamped, V(-0.004763575249f));
  q = fma(q, clamped, V(0.0264310176f));
  q = fma(q, clamped, V(-0.1100944808f));
  q = fma(q, clamped, V(-0.6318145167f));
  q = fma(q, clamped, V(-1.130237616f));
  q = fma(q, clamped, V(0.0003204415313f));
  V large = V(1.0f) - exp(q);
  large = select<float>(x < V(0.0f), -large, large);
  return select<float>(magnitude < V(0.9272f), small, large);
}
LONGSHOT_INLINE Vec<double> erf(Vec<double> x) {
  return detail::per_lane(x, [](double a) { return std::erf(a); });
}

}  // namespace longshot::cpu
