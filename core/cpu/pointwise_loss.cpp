// Squared error (x - t)^2, gradient 2 (x - t). Binary logistic loss
//   log(1 + exp(x)) - t x = max(x, 0) + log(1 + exp(-|x|)) - t x   (no overflow on either side),
// gradient sigmoid(x) - t.
#include "core/cpu/pointwise_loss.h"

#include <algorithm>

#include "core/cpu/activation_math.h"
#include "core/cpu/lanes.h"
#include "core/cpu/loss_sum.h"
#include "core/cpu/pieces.h"
#include "core/cpu/scratch.h"

namespace longshot::cpu {
namespace {

constexpr int64_t kRun = 1024;  // elements summed in T before joining the double

// The mask as 1 and 0 of type T; returns how many elements count.
template <class T>
int64_t load_mask(const int32_t* mask, int64_t begin, int64_t count, T* keep) {
  if (mask == nullptr) {
    std::fill(keep, keep + count, T(1));
    return count;
  }
  int64_t counted = 0;
  for (int64_t i = 0; i < count; ++i) {
    const bool kept = mask[begin + i] != 0;
    keep[i] = kept ? T(1) : T(0);
    counted += kept;
  }
  return counted;
}

template <class T>
LONGSHOT_INLINE Vec<T> element_loss(bool logistic, Vec<T> x, Vec<T> t) {
  if (!logistic) return (x - t) * (x - t);
  const Vec<T> one(T(1));
  return max(Vec<T>::zero(), x) + log(one + exp(-abs(x))) - t * x;
}

template <class T>
LONGSHOT_INLINE Vec<T> element_gradient(bool logistic, Vec<T> x, Vec<T> t) {
  if (!logistic) return (x - t) + (x - t);
  return sigmoid(x) - t;
}

}  // namespace

template <class T>
void pointwise_loss(const PointwiseLossArgs& args) {
  using V = Vec<T>;
  const T* x = typed<T>(args.x);
  const T* target = typed<T>(args.target);
  const RowPieces pieces(args.n, 4096, 4096);
  ScratchScope scratch;
  double* sums = scratch.allocate<double>(pieces.count);
  double* counts = scratch.allocate<double>(pieces.count);
  parallel_for(
      pieces.count,
      [&](int64_t p) {
        double sum = 0;
        int64_t count = 0;
        T keep[kRun];
        for (int64_t i = pieces.begin(p); i < pieces.end(p); i += kRun) {
          const int64_t run = std::min(kRun, pieces.end(p) - i);
          count += load_mask(args.mask, i, run, keep);
          sum += double(sum_of<T>(
              run,
              [&](V v, V t, V k) {
                // Selected, not multiplied: what is masked out may be NaN.
                return select<T>(k > V::zero(), element_loss(args.logistic, v, t), V::zero());
              },
              x + i, target + i, static_cast<const T*>(keep)));
        }
        sums[p] = sum;
        counts[p] = double(count);
      },
      args.n * 4 >= kParallelElements);
  finish_loss<T>(sums, counts, pieces.count, args.count_override, args.loss, args.denominator);
}

template <class T>
void pointwise_loss_backward(const PointwiseLossBackwardArgs& args) {
  using V = Vec<T>;
  const T* x = typed<T>(args.x);
  const T* target = typed<T>(args.target);
  T* dx = typed<T>(args.dx);
  const V scale(loss_scale<T>(args.dloss, args.denominator));
  with_flag(args.accumulate, [&](auto accumulate) {
    for_elements(
        args.n,
        [&](int64_t begin, int64_t end) {
          T keep[kRun];
          for (int64_t i = begin; i < end; i += kRun) {
            const int64_t run = std::min(kRun, end - i);
            load_mask(args.mask, i, run, keep);
            map_into<decltype(accumulate)::value>(
                run, dx + i,
                [&](V v, V t, V k) {
                  return select<T>(k > V::zero(), scale * element_gradient(args.logistic, v, t),
                                   V::zero());
                },
                x + i, target + i, static_cast<const T*>(keep));
          }
        },
        args.logistic ? 4 : 2);
  });
}

template void pointwise_loss<float>(const PointwiseLossArgs&);
template void pointwise_loss<double>(const PointwiseLossArgs&);
template void pointwise_loss_backward<float>(const PointwiseLossBackwardArgs&);
template void pointwise_loss_backward<double>(const PointwiseLossBackwardArgs&);

}  // namespace longshot::cpu
