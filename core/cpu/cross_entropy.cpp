// With L = log sum exp(x) and smoothing e over C classes, a counted row's loss is
//   (1 - e)(L - x_target) + e (L - mean(x)) = L - (1 - e) x_target - e mean(x).
// Its gradient: softmax(x) - (1 - e) [c = target] - e / C, times dloss / denominator.
#include "core/cpu/cross_entropy.h"

#include <algorithm>
#include <limits>

#include "core/cpu/lanes.h"
#include "core/cpu/loss_sum.h"
#include "core/cpu/pieces.h"
#include "core/cpu/scratch.h"

namespace longshot::cpu {
namespace {

constexpr int64_t kBlock = 64;  // rows whose logarithms are taken together: whole vectors

// Read-only passes wait for memory more than others: nothing but loads keeps requests in flight.
// Far ahead into the second-level cache, near ahead into the first. May point past the end.
LONGSHOT_INLINE void fetch_ahead(const void* p) {
  __builtin_prefetch(static_cast<const char*>(p) + 8192, 0, 2);
  __builtin_prefetch(static_cast<const char*>(p) + 1024, 0, 3);
}

// The lanes of a vector go through a row side by side: lane l of `top` becomes the largest and lane
// l of `sum` the sum of exp(x - top_l) of the elements l, l + W, l + 2W, ... So the row is read
// once and nothing is summed across lanes. The first vector is what is left over by whole ones.
template <class T>
LONGSHOT_INLINE void lane_sums(const T* x, int64_t n, Vec<T>& top, Vec<T>& sum) {
  using V = Vec<T>;
  constexpr int64_t kWidth = V::kWidth, kBlock = 16 * kWidth;
  const int64_t whole = (n - 1) / kWidth * kWidth;
  // Instead of -infinity, whose differences are NaN. Lanes without an element count for nothing in
  // the end, because then their `top` is this.
  const V lowest(std::numeric_limits<T>::lowest());
  top = max(lowest, V::load_partial(x + whole, n - whole, lowest));
  sum = V(T(1));
  fetch_ahead(x + whole);
  for (int64_t begin = 0; begin < whole; begin += kBlock) {
    const int64_t end = std::min(whole, begin + kBlock);
    V larger = top;
    for (int64_t i = begin; i < end; i += kWidth) larger = max(larger, V::load(x + i));
    sum *= exp_bounded(top - larger);
    top = larger;
    for (int64_t i = begin; i < end; i += kWidth) {
      fetch_ahead(x + i);
      sum += exp_bounded(V::load(x + i) - top);
    }
  }
}

// Largest logit and sum of exp(x - largest) of each of at most kWidth rows.
template <class T>
LONGSHOT_INLINE void row_sums(const T* x, int64_t rows, int64_t n, T* largest_out, T* total_out) {
  using V = Vec<T>;
  constexpr int kWidth = V::kWidth;
  V top[kWidth], sum[kWidth], used[kWidth];
#pragma GCC unroll 16
  for (int r = 0; r < kWidth; ++r) {
    top[r] = sum[r] = V::zero();
    if (r < rows) lane_sums(x + r * n, n, top[r], sum[r]);
    used[r] = top[r];
  }
  horizontal_maxima(used).store(largest_out);
#pragma GCC unroll 16
  for (int r = 0; r < kWidth; ++r) sum[r] *= exp_bounded(top[r] - V(largest_out[r]));
  horizontal_sums(sum).store(total_out);
}

// Writes the rows' losses; adds them and the number of counted rows to sum and count.
template <class T>
void add_losses(const T* x, int64_t rows, int64_t n, const int32_t* targets, const T* log_sum_exp,
                double smoothing, T* row_loss, double& sum, double& count) {
  using V = Vec<T>;
  const double weight = 1 - smoothing;
  double total = 0;
  int64_t counted = 0;
  for (int64_t i = 0; i < rows; ++i, x += n) {
    const int32_t target = targets[i];
    if (target < 0) {
      row_loss[i] = 0;
      continue;
    }
    double loss = double(log_sum_exp[i]) - weight * double(x[target]);
    if (weight != 1)
      loss -= smoothing *
              double(sum_of<T>(
                  n, [](V v) { return v; }, x)) /
              double(n);
    row_loss[i] = T(loss);
    total += loss;
    ++counted;
  }
  sum += total;
  count += double(counted);
}

}  // namespace

template <class T>
void cross_entropy(const CrossEntropyArgs& args) {
  using V = Vec<T>;
  const int64_t n = args.columns;
  const T* logits = typed<T>(args.logits);
  T* log_sum_exp = typed<T>(args.log_sum_exp);
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
          T largest[kBlock], total[kBlock];
          for (int64_t i = 0; i < block; i += V::kWidth)
            row_sums(logits + (r + i) * n, block - i, n, largest + i, total + i);
          map_into<false>(
              block, log_sum_exp + r, [](V m, V t) { return m + log(t); },
              static_cast<const T*>(largest), static_cast<const T*>(total));
          add_losses(logits + r * n, block, n, args.targets + r, log_sum_exp + r, args.smoothing,
                     typed<T>(args.row_loss) + r, sum, count);
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
                n, dx, [&](V v) { return s * (exp_bounded(v - lse) - smooth); },
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
