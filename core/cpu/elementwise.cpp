// y = alpha x + beta; out = a op b; out = x * scale of its row. Bound by memory: one pass each.
#include "core/cpu/elementwise.h"

#include <algorithm>

#include "core/cpu/lanes.h"
#include "core/cpu/pieces.h"
#include "core/cpu/scratch.h"

namespace longshot::cpu {
namespace {

// A suffix shorter than this is first repeated into a run of about kRepeated elements, so that the
// inner loop is long enough for vectors.
constexpr int64_t kShortPeriod = 256;
constexpr int64_t kRepeated = 1024;

template <class T, bool kAccumulate, class F>
void binary_runs(const BinaryArgs& args, F f) {
  const T* a = typed<T>(args.a);
  const T* b = typed<T>(args.b);
  T* out = typed<T>(args.out);
  int64_t period = args.period;
  ScratchScope scratch;
  if (period < kShortPeriod && period < args.n) {
    const int64_t repeated = period * divide_up(kRepeated, period);
    T* copy = scratch.allocate<T>(repeated);
    for (int64_t i = 0; i < repeated; ++i) copy[i] = b[i % period];
    b = copy;
    period = repeated;
  }
  for_elements(args.n, [&](int64_t begin, int64_t end) {
    while (begin < end) {
      const int64_t j = begin % period, run = std::min(period - j, end - begin);
      map_into<kAccumulate>(run, out + begin, f, a + begin, b + j);
      begin += run;
    }
  });
}

}  // namespace

template <class T>
void affine(const AffineArgs& args) {
  const T* x = typed<T>(args.x);
  T* y = typed<T>(args.y);
  const Vec<T> alpha(T(args.alpha)), beta(T(args.beta));
  with_flag(args.accumulate, [&](auto accumulate) {
    for_elements(args.n, [&](int64_t begin, int64_t end) {
      map_into<decltype(accumulate)::value>(
          end - begin, y + begin, [&](Vec<T> v) { return fma(alpha, v, beta); }, x + begin);
    });
  });
}

template <class T>
void binary(const BinaryArgs& args) {
  if (args.n <= 0) return;
  with_flag(args.accumulate, [&](auto accumulate) {
    constexpr bool kAccumulate = decltype(accumulate)::value;
    switch (args.op) {
      case Binary::add:
        return binary_runs<T, kAccumulate>(args, [](Vec<T> a, Vec<T> b) { return a + b; });
      case Binary::sub:
        return binary_runs<T, kAccumulate>(args, [](Vec<T> a, Vec<T> b) { return a - b; });
      case Binary::mul:
        return binary_runs<T, kAccumulate>(args, [](Vec<T> a, Vec<T> b) { return a * b; });
    }
  });
}

template <class T>
void scale_rows(const ScaleRowsArgs& args) {
  const T* x = typed<T>(args.x);
  const T* scale = typed<T>(args.scale);
  T* out = typed<T>(args.out);
  with_flag(args.accumulate, [&](auto accumulate) {
    for_rows(args.rows, args.columns, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const Vec<T> factor(scale[r]);
        map_into<decltype(accumulate)::value>(
            args.columns, out + r * args.columns, [&](Vec<T> v) { return v * factor; },
            x + r * args.columns);
      }
    });
  });
}

template void affine<float>(const AffineArgs&);
template void affine<double>(const AffineArgs&);
template void binary<float>(const BinaryArgs&);
template void binary<double>(const BinaryArgs&);
template void scale_rows<float>(const ScaleRowsArgs&);
template void scale_rows<double>(const ScaleRowsArgs&);

}  // namespace longshot::cpu
