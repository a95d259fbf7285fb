// y = exp(x - m) / sum(exp(x - m)), m = max(x); log form y = x - m - log(sum(exp(x - m))).
// Gradients, with y the output:
//   softmax       dx = y (dy - sum(dy y))
//   log-softmax   dx = dy - exp(y) sum(dy)
#include "core/cpu/softmax.h"

#include <cmath>
#include <limits>

#include "core/cpu/lanes.h"
#include "core/cpu/pieces.h"

namespace longshot::cpu {

template <class T>
void softmax(const SoftmaxArgs& args) {
  using V = Vec<T>;
  const int64_t n = args.columns;
  if (n <= 0) return;
  for_rows(
      args.rows, n,
      [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) {
          const T* x = typed<T>(args.x) + r * n;
          T* y = typed<T>(args.y) + r * n;
          T largest = max_of(n, x);
          if (largest == -std::numeric_limits<T>::infinity()) largest = 0;  // keeps NaN out
          const V m(largest);
          if (args.log) {
            const T sum = sum_of<T>(
                n, [&](V v) { return exp(v - m); }, x);
            const V shift = sum == T(0) ? V(T(0)) : V(largest + std::log(sum));
            map_into<false>(
                n, y, [&](V v) { return v - shift; }, x);
          } else {
            map_into<false>(
                n, y, [&](V v) { return exp(v - m); }, x);
            const T sum = sum_of<T>(
                n, [](V v) { return v; }, static_cast<const T*>(y));
            const V scale(sum == T(0) ? T(0) : T(1) / sum);
            map_into<false>(
                n, y, [&](V v) { return v * scale; }, static_cast<const T*>(y));
          }
        }
      },
      4);
}

template <class T>
void softmax_backward(const SoftmaxBackwardArgs& args) {
  using V = Vec<T>;
  const int64_t n = args.columns;
  with_flag(args.accumulate, [&](auto accumulate) {
    constexpr bool kAccumulate = decltype(accumulate)::value;
    for_rows(
        args.rows, n,
        [&](int64_t begin, int64_t end) {
          for (int64_t r = begin; r < end; ++r) {
            const T* y = typed<T>(args.y) + r * n;
            const T* dy = typed<T>(args.dy) + r * n;
            T* dx = typed<T>(args.dx) + r * n;
            if (args.log) {
              const V sum(sum_of<T>(
                  n, [](V d) { return d; }, dy));
              map_into<kAccumulate>(
                  n, dx, [&](V v, V d) { return d - exp(v) * sum; }, y, dy);
            } else {
              const V sum(sum_of<T>(
                  n, [](V v, V d) { return v * d; }, y, dy));
              map_into<kAccumulate>(
                  n, dx, [&](V v, V d) { return v * (d - sum); }, y, dy);
            }
          }
        },
        args.log ? 4 : 2);
  });
}

template void softmax<float>(const SoftmaxArgs&);
template void softmax<double>(const SoftmaxArgs&);
template void softmax_backward<float>(const SoftmaxBackwardArgs&);
template void softmax_backward<double>(const SoftmaxBackwardArgs&);

}  // namespace longshot::cpu
