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

constexpr int64_t kRows = 64;  // rows whose logarithms are taken together: one alone is all waiting

// Read-only passes wait for memory more than others: nothing but loads keeps requests in flight.
// Far ahead into the second-level cache, near ahead into the first. May point past the end.
LONGSHOT_INLINE void fetch_ahead(const void* p) {
  __builtin_prefetch(static_cast<const char*>(p) + 65536, 0, 2);
  __builtin_prefetch(static_cast<const char*>(p) + 2048, 0, 3);
}

// A lane without an element: its exponential is 0 as long as the largest is not -infinity as well,
// so that starts at the lowest finite number. A row of -infinity alone ends as NaN, as it should.
template <class T>
Vec<T> nothing() {
  return Vec<T>(-std::numeric_limits<T>::infinity());
}
template <class T>
Vec<T> lowest() {
  return Vec<T>(std::numeric_limits<T>::lowest());
}

// Goes through rows that lie one after the other; every element is read from memory once. The lanes
// of a vector go side by side: lane l of `top` becomes the largest and lane l of `sum` the sum of
// exp(x - top_l) of the elements l, l + W, l + 2 W, ... so nothing is summed across lanes. A row's
// first vector is what is left over by whole ones; then it goes in blocks of whole vectors. While a
// block's exponentials are summed, the largest of the next block, of the next row if need be, are
// found: memory is asked for at an even pace.
template <class T, bool kPlain>
class LaneSums {
 public:
  using V = Vec<T>;
  static constexpr int64_t kWidth = V::kWidth, kBlock = 32 * kWidth;

  // `rows` >= 1 rows of `columns` from x on.
  LaneSums(const T* x, int64_t rows, int64_t columns)
      : rows_(rows), columns_(columns), whole_((columns - 1) / kWidth * kWidth) {
    V none = V::zero();
    add_block(x, 0, none, none, none, x, std::min(kBlock, whole_));
  }

  // The next row, at x. `plain`: lane sums of the elements themselves, where kPlain.
  LONGSHOT_INLINE void row(const T* x, V& top, V& sum, V& plain) {
    --rows_;
    const int64_t left = columns_ - whole_;
    const V first = V::load_partial(x + whole_, left, nothing<T>());
    top = max(first, largest_);
    sum = exp_bounded(first - top);
    if constexpr (kPlain) plain = V::load_partial(x + whole_, left);
    fetch_ahead(x + whole_);
    for (int64_t begin = 0; begin < whole_; begin += kBlock) {
      const int64_t end = std::min(whole_, begin + kBlock);
      if (begin > 0) {
        const V larger = max(top, largest_);
        sum *= exp_bounded(top - larger);
        top = larger;
      }
      const bool same_row = end < whole_;
      add_block(x + begin, end - begin, top, sum, plain, same_row ? x + end : x + columns_,
                same_row    ? std::min(kBlock, whole_ - end)
                : rows_ > 0 ? std::min(kBlock, whole_)
                            : 0);
    }
  }

 private:
  // Adds the terms of x, n elements, and finds the largest of `next`, m elements.
  LONGSHOT_INLINE void add_block(const T* x, int64_t n, V top, V& sum, V& plain, const T* next,
                                 int64_t m) {
    V largest = lowest<T>();
    const auto term = [&](int64_t i) {
      const V v = V::load(x + i);
      sum += exp_bounded(v - top);
      if constexpr (kPlain) plain += v;
    };
    const auto look = [&](int64_t i) {
      fetch_ahead(next + i);
      largest = max(largest, V::load(next + i));
    };
    const int64_t both = std::min(n, m);
#pragma GCC unroll 2
    for (int64_t i = 0; i < both; i += kWidth) look(i), term(i);
    for (int64_t i = both; i < m; i += kWidth) look(i);
    for (int64_t i = both; i < n; i += kWidth) term(i);
    largest_ = largest;
  }

  int64_t rows_, columns_, whole_;
  V largest_;  // of the block that comes next
};

// What is left of kWidth rows; a lane is a row.
template <class T>
struct RowSums {
  Vec<T> top, total;  // largest element, sum of exp(x - top)
  Vec<T> plain;       // sum of the elements, where it is asked for
};

// At most kWidth rows of at most kColumns columns, which are turned first.
template <class T, bool kPlain, int kColumns>
LONGSHOT_INLINE RowSums<T> short_rows(const T* x, int64_t rows, int64_t columns) {
  using V = Vec<T>;
  V column[V::kWidth];
#pragma GCC unroll 16
  for (int r = 0; r < V::kWidth; ++r)
    column[r] = r < rows ? V::load_partial(x + r * columns, columns, nothing<T>()) : V::zero();
  for (int64_t i = 0; i < rows * columns; i += V::kWidth) fetch_ahead(x + i);
  transpose(column);
  V larger[kColumns];
#pragma GCC unroll 16
  for (int c = 0; c < kColumns; ++c) larger[c] = column[c];
#pragma GCC unroll 4
  for (int half = kColumns / 2; half > 0; half /= 2)
#pragma GCC unroll 8
    for (int c = 0; c < half; ++c) larger[c] = max(larger[c], larger[c + half]);
  RowSums<T> sums{max(lowest<T>(), larger[0]), V::zero(), V::zero()};
#pragma GCC unroll 16
  for (int c = 0; c < kColumns; ++c) sums.total += exp_bounded(column[c] - sums.top);
  if constexpr (kPlain)
    for (int64_t c = 0; c < columns; ++c) sums.plain += column[c];
  return sums;
}

template <class T, bool kPlain>
LONGSHOT_INLINE RowSums<T> long_rows(LaneSums<T, kPlain>& lanes, const T* x, int64_t rows,
                                     int64_t columns) {
  using V = Vec<T>;
  V top[V::kWidth], sum[V::kWidth], plain[V::kWidth], used[V::kWidth];
  for (int64_t r = 0; r < V::kWidth; ++r) {
    top[r] = sum[r] = plain[r] = V::zero();
    if (r < rows) lanes.row(x + r * columns, top[r], sum[r], plain[r]);
    used[r] = top[r];
  }
  RowSums<T> sums{horizontal_maxima(used), V::zero(), V::zero()};
  T largest[V::kWidth];
  sums.top.store(largest);
#pragma GCC unroll 16
  for (int r = 0; r < V::kWidth; ++r) sum[r] *= exp_bounded(top[r] - V(largest[r]));
  sums.total = horizontal_sums(sum);
  if constexpr (kPlain) sums.plain = horizontal_sums(plain);
  return sums;
}

// Sum of losses and number of counted rows, in lanes.
struct Losses {
  Vec<double> sum = Vec<double>::zero(), count = Vec<double>::zero();

  // At most kRows rows from x on, with the logarithms of their sums and, where kSmooth, the sums of
  // their elements. Writes row_loss. Several short loops, each of which becomes vectors.
  template <bool kSmooth, class T>
  void add(const T* x, int64_t rows, int64_t columns, const int32_t* targets, const T* log_sum_exp,
           const T* plain, double smoothing, T* row_loss) {
    T hit[kRows];
    double counts[kRows] = {}, loss[kRows] = {};
    for (int64_t i = 0; i < rows; ++i) hit[i] = x[i * columns + std::max(targets[i], 0)];
    for (int64_t i = 0; i < rows; ++i) counts[i] = targets[i] >= 0 ? 1 : 0;
    const double weight = 1 - smoothing, share = smoothing / double(columns);
    for (int64_t i = 0; i < rows; ++i) {
      double value = double(log_sum_exp[i]) - weight * double(hit[i]);
      if constexpr (kSmooth) value -= share * double(plain[i]);
      loss[i] = counts[i] != 0 ? value : 0;
    }
    for (int64_t i = 0; i < rows; ++i) row_loss[i] = T(loss[i]);
    for (int64_t i = 0; i < kRows; i += Vec<double>::kWidth) {
      sum += Vec<double>::load(loss + i);
      count += Vec<double>::load(counts + i);
    }
  }
};

// Rows [begin, end). kSmooth: label smoothing, which needs the rows' sums.
template <class T, bool kSmooth>
void add_rows(const CrossEntropyArgs& args, int64_t begin, int64_t end, Losses& losses) {
  using V = Vec<T>;
  const int64_t n = args.columns;
  LaneSums<T, kSmooth> lanes(typed<T>(args.logits) + begin * n, end - begin, n);
  for (int64_t r = begin; r < end; r += kRows) {
    const T* x = typed<T>(args.logits) + r * n;
    T* log_sum_exp = typed<T>(args.log_sum_exp) + r;
    const int64_t rows = std::min(kRows, end - r);
    T top[kRows], total[kRows], plain[kRows];
    for (int64_t i = 0; i < rows; i += V::kWidth) {
      const T* from = x + i * n;
      const int64_t valid = std::min<int64_t>(V::kWidth, rows - i);
      const RowSums<T> sums = n <= V::kWidth / 2
                                  ? short_rows<T, kSmooth, V::kWidth / 2>(from, valid, n)
                              : n <= V::kWidth ? short_rows<T, kSmooth, V::kWidth>(from, valid, n)
                                               : long_rows(lanes, from, valid, n);
      sums.top.store(top + i);
      sums.total.store(total + i);
      sums.plain.store(plain + i);
    }
    map_into<false>(
        rows, log_sum_exp, [](V m, V t) { return m + log(t); }, static_cast<const T*>(top),
        static_cast<const T*>(total));
    losses.add<kSmooth>(x, rows, n, args.targets + r, log_sum_exp, plain, args.smoothing,
                        typed<T>(args.row_loss) + r);
  }
}

}  // namespace

template <class T>
void cross_entropy(const CrossEntropyArgs& args) {
  const int64_t n = args.columns;
  const RowPieces pieces(args.rows, std::max<int64_t>(1, 4096 / std::max<int64_t>(1, n)), 1024);
  ScratchScope scratch;
  double* sums = scratch.allocate<double>(pieces.count);
  double* counts = scratch.allocate<double>(pieces.count);
  with_flag(args.smoothing != 0, [&](auto smooth) {
    parallel_for(
        pieces.count,
        [&](int64_t p) {
          Losses losses;
          add_rows<T, decltype(smooth)::value>(args, pieces.begin(p), pieces.end(p), losses);
          sums[p] = horizontal_sum(losses.sum);
          counts[p] = horizontal_sum(losses.count);
        },
        args.rows * n * 4 >= kParallelElements);
  });
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
