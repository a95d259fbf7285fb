// With L = log sum exp(x) and smoothing e over C classes, a counted row's loss is
//   (1 - e)(L - x_target) + e (L - mean(x)) = L - (1 - e) x_target - e mean(x).
// Its gradient: softmax(x) - (1 - e) [c = target] - e / C, times dloss / denominator.
#include "core/cpu/cross_entropy.h"

#include <algorithm>

#include "core/cpu/lanes.h"
#include "core/cpu/loss_sum.h"
#include "core/cpu/pieces.h"
#include "core/cpu/scratch.h"

namespace longshot::cpu {
namespace {

constexpr int64_t kBlock = 32;  // rows whose logarithms are taken together

template <class T>
void log_sum_exp_block(const T* x, int64_t rows, int64_t n, T* out) {
  using V = Vec<T>;
  T largest[kBlock], total[kBlock];
  for (int64_t r = 0; r < rows; ++r) {
    largest[r] = max_of(n, x + r * n);
    const V m(largest[r]);
    total[r] = sum_of<T>(
        n, [&](V v) { return exp(v - m); }, x + r * n);
  }
  map_into<false>(
      rows, out, [](V m, V s) { return m + log(s); }, static_cast<const T*>(largest),
      static_cast<const T*>(total));
}

}  // namespace

template <class T>
void cross_entropy(const CrossEntropyArgs& args) {
  using V = Vec<T>;
  const int64_t n = args.columns;
  const T* logits = typed<T>(args.logits);
  const RowPieces pieces(args.rows, std::max<int64_t>(1, 4096 / std::max<int64_t>(1, n)), 1024);
  ScratchScope scratch;
  double* sums = scratch.allocate<double>(pieces.count);
  double* counts = scratch.allocate<double>(pieces.count);
  parallel_for(
      pieces.count,
      [&](int64_t p) {
        double sum = 0, count = 0;
        for (int64_t r = pieces.begin(p); r < pieces.end(p); r += kBlock) {
          const int64_t block = std::min(kBlock, pieces.end(p) - r);
          log_sum_exp_block(logits + r * n, block, n, typed<T>(args.log_sum_exp) + r);
          for (int64_t i = r; i < r + block; ++i) {
            const T* x = logits + i * n;
            double loss = 0;
            if (args.targets[i] >= 0) {
              loss = double(typed<T>(args.log_sum_exp)[i]) -
                     (1 - args.smoothing) * double(x[args.targets[i]]);
              if (args.smoothing != 0) {
                loss -= args.smoothing *
                        double(sum_of<T>(
                            n, [](V v) { return v; }, x)) /
                        double(n);
              }
              sum += loss;
              count += 1;
            }
            typed<T>(args.row_loss)[i] = T(loss);
          }
        }
        sums[p] = sum;
        counts[p] = count;
      },
      args.rows * n * 4 >= kParallelElements);
  finish_loss<T>(sums, counts, pieces.count, args.count_override, args.loss, args.denominator);
}

template <class T>
void cross_entropy_backward(const CrossEntropyBackwardArgs& args) {
  using V = Vec<T>;
  const int64_t n = args.columns;
  if (n <= 0) return;
  const T scale = loss_scale<T>(args.dloss, args.denominator);
  const V s(scale), smooth(T(args.smoothing / double(n)));
  const T hit = T(1 - args.smoothing) * scale;
  with_flag(args.accumulate, [&](auto accumulate) {
    constexpr bool kAccumulate = decltype(accumulate)::value;
    for_rows(
        args.rows, n,
        [&](int64_t begin, int64_t end) {
          for (int64_t r = begin; r < end; ++r) {
            T* dx = typed<T>(args.dlogits) + r * n;
            if (args.targets[r] < 0 || scale == T(0)) {
              if (!kAccumulate) std::fill(dx, dx + n, T(0));
              continue;
            }
            const V lse(typed<T>(args.log_sum_exp)[r]);
            map_into<kAccumulate>(
                n, dx, [&](V v) { return s * (exp(v - lse) - smooth); },
                typed<T>(args.logits) + r * n);
            dx[args.targets[r]] -= hit;
          }
        },
        4);
  });
}

template void cross_entropy<float>(const CrossEntropyArgs&);
template void cross_entropy<double>(const CrossEntropyArgs&);
template void cross_entropy_backward<float>(const CrossEntropyBackwardArgs&);
template void cross_entropy_backward<double>(const CrossEntropyBackwardArgs&);

}  // namespace longshot::cpu
