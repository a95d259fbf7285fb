// The optimizer's two passes over the flat buffers: the gradient's norm, and the update itself.
#include "core/cpu/optimizer.h"

#include <algorithm>
#include <cmath>

#include "core/cpu/lanes.h"
#include "core/cpu/pieces.h"
#include "core/cpu/scratch.h"

namespace longshot::cpu {
namespace {

LONGSHOT_INLINE Vec<double> widen(const float* x) {
  typedef float Half __attribute__((vector_size(kVectorBytes / 2)));
  Half half;
  std::memcpy(&half, x, sizeof half);
  return Vec<double>(__builtin_convertvector(half, Vec<double>::Native));
}
LONGSHOT_INLINE Vec<double> widen(const double* x) {
  return Vec<double>::load(x);
}

// Sum of squares in double: the square of a large but finite f32 must not become infinite.
template <class T>
double sum_of_squares(const T* x, int64_t n) {
  constexpr int64_t kWidth = Vec<double>::kWidth;
  Vec<double> a = Vec<double>::zero(), b = a, c = a, d = a;
  int64_t i = 0;
  for (; i + 4 * kWidth <= n; i += 4 * kWidth) {
    const Vec<double> p = widen(x + i), q = widen(x + i + kWidth);
    const Vec<double> r = widen(x + i + 2 * kWidth), s = widen(x + i + 3 * kWidth);
    a += p * p;
    b += q * q;
    c += r * r;
    d += s * s;
  }
  double rest = 0;
  for (; i < n; ++i) rest += double(x[i]) * double(x[i]);
  return horizontal_sum((a + b) + (c + d)) + rest;
}

// What one step's update needs, rounded to T once.
template <class T>
struct AdamFactors {
  Vec<T> gradient_scale, beta1, one_minus_beta1, beta2, one_minus_beta2;
  Vec<T> step_size;           // lr / (1 - beta1^t)
  Vec<T> root_correction;     // 1 / sqrt(1 - beta2^t)
  Vec<T> epsilon, l2, decay;  // g += l2 p;  p -= decay p + ...

  LONGSHOT_INLINE void update(Vec<T>& p, Vec<T> g, Vec<T>& m, Vec<T>& v) const {
    g = fma(l2, p, g * gradient_scale);
    m = fma(beta1, m, one_minus_beta1 * g);
    v = fma(beta2, v, one_minus_beta2 * g * g);
    p -= fma(decay, p, step_size * m / fma(sqrt(v), root_correction, epsilon));
  }
};

template <class T>
void update_range(const AdamArgs& args, const AdamFactors<T>& factors, int64_t begin, int64_t end) {
  constexpr int64_t kWidth = Vec<T>::kWidth;
  T* parameter = typed<T>(args.parameter);
  const T* gradient = typed<T>(args.gradient);
  T* first = typed<T>(args.first_moment);
  T* second = typed<T>(args.second_moment);
  for (int64_t i = begin; i < end; i += kWidth) {
    const int64_t left = end - i;
    Vec<T> p = Vec<T>::load_partial(parameter + i, left);
    Vec<T> m = Vec<T>::load_partial(first + i, left), v = Vec<T>::load_partial(second + i, left);
    factors.update(p, Vec<T>::load_partial(gradient + i, left), m, v);
    p.store_partial(parameter + i, left);
    m.store_partial(first + i, left);
    v.store_partial(second + i, left);
  }
}

}  // namespace

template <class T>
void clip(const ClipArgs& args) {
  const T* gradient = typed<T>(args.gradient);
  const RowPieces pieces(args.n, 4096, 4096);
  ScratchScope scratch;
  double* sums = scratch.allocate<double>(pieces.count);
  parallel_for(
      pieces.count,
      [&](int64_t p) {
        sums[p] = sum_of_squares(gradient + pieces.begin(p), pieces.end(p) - pieces.begin(p));
      },
      args.n >= kParallelElements);
  UpdateState& update = *args.update;
  update.squared_norm = tree_sum(sums, pieces.count);
  const double norm = std::sqrt(update.squared_norm);
  update.skip = !std::isfinite(norm) || args.state->target_count == 0;
  const bool clips = args.max_norm > 0 && std::isfinite(norm) && norm > args.max_norm;
  update.scale = clips ? float(args.max_norm / norm) : 1.0f;
}

template <class T>
void adam(const AdamArgs& args) {
  UpdateState& state = *args.update;
  if (state.skip != 0) {
    ++state.skipped_steps;
    return;
  }
  const double t = double(++state.adam_step);
  const double rate = double(args.state->learning_rate);
  AdamFactors<T> factors;
  factors.gradient_scale = Vec<T>(T(state.scale));
  factors.beta1 = Vec<T>(T(args.beta1));
  factors.one_minus_beta1 = Vec<T>(T(1 - args.beta1));
  factors.beta2 = Vec<T>(T(args.beta2));
  factors.one_minus_beta2 = Vec<T>(T(1 - args.beta2));
  factors.step_size = Vec<T>(T(rate / (1 - std::pow(args.beta1, t))));
  factors.root_correction = Vec<T>(T(1 / std::sqrt(1 - std::pow(args.beta2, t))));
  factors.epsilon = Vec<T>(T(args.epsilon));
  factors.l2 = factors.decay = Vec<T>::zero();
  AdamFactors<T> decayed = factors;
  if (args.coupled) {
    decayed.l2 = Vec<T>(T(args.weight_decay));
  } else {
    decayed.decay = Vec<T>(T(rate * args.weight_decay));
  }
  for_elements(
      args.decayed, [&](int64_t begin, int64_t end) { update_range(args, decayed, begin, end); },
      4);
  for_elements(
      args.n - args.decayed,
      [&](int64_t begin, int64_t end) {
        update_range(args, factors, args.decayed + begin, args.decayed + end);
      },
      4);
}

template void clip<float>(const ClipArgs&);
template void clip<double>(const ClipArgs&);
template void adam<float>(const AdamArgs&);
template void adam<double>(const AdamArgs&);

}  // namespace longshot::cpu
