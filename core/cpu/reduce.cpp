// out[o, i] = alpha * sum over n of x[o, n, i] (* weight[o, n, i]), and argmax, on the CPU.
// Long sums are cut into pieces by shape; the pieces' sums are joined by a fixed binary tree.
#include "core/cpu/reduce.h"

#include <algorithm>

#include "core/cpu/lanes.h"
#include "core/cpu/pieces.h"
#include "core/cpu/scratch.h"

namespace longshot::cpu {
namespace {

template <class T>
T sum_run(const T* x, const T* weight, int64_t n) {
  if (weight == nullptr)
    return sum_of<T>(
        n, [](Vec<T> a) { return a; }, x);
  return sum_of<T>(
      n, [](Vec<T> a, Vec<T> w) { return a * w; }, x, weight);
}

template <class T>
void put(T& to, T value, bool accumulate) {
  to = accumulate ? to + value : value;
}

// inner = 1: every output is the sum of a contiguous run.
template <class T>
void reduce_runs(const ReduceArgs& args) {
  const T* x = typed<T>(args.x);
  const T* weight = typed<T>(args.weight);
  T* out = typed<T>(args.out);
  const T alpha = T(args.alpha);
  const int64_t n = args.reduced, chunks = std::max<int64_t>(1, divide_up(n, kPieceElements));
  const auto sum = [&](int64_t at, int64_t count) {
    return sum_run(x + at, weight == nullptr ? nullptr : weight + at, count);
  };
  if (chunks == 1) {
    for_rows(args.outer, std::max<int64_t>(1, n), [&](int64_t begin, int64_t end) {
      for (int64_t o = begin; o < end; ++o) put(out[o], alpha * sum(o * n, n), args.accumulate);
    });
    return;
  }
  ScratchScope scratch;
  T* partial = scratch.allocate<T>(args.outer * chunks);
  parallel_for(
      args.outer * chunks,
      [&](int64_t piece) {
        const int64_t o = piece / chunks, begin = piece % chunks * kPieceElements;
        partial[piece] = sum(o * n + begin, std::min(kPieceElements, n - begin));
      },
      args.outer * n >= kParallelElements);
  for (int64_t o = 0; o < args.outer; ++o) {
    put(out[o], alpha * tree_sum(partial + o * chunks, chunks), args.accumulate);
  }
}

// inner > 1: rows of `inner` are added up. Cut over rows and, where rows are long, over columns.
template <class T>
void reduce_rows(const ReduceArgs& args) {
  const T* x = typed<T>(args.x);
  const T* weight = typed<T>(args.weight);
  T* out = typed<T>(args.out);
  const int64_t inner = args.inner, n = args.reduced;
  const RowPieces pieces(n, 16, 64);
  const int64_t block = std::min<int64_t>(inner, 2048), blocks = divide_up(inner, block);
  const int64_t count = std::max<int64_t>(1, pieces.count);
  ScratchScope scratch;
  T* partial = scratch.allocate<T>(args.outer * count * inner);
  const bool parallel = args.outer * n * inner >= kParallelElements;
  parallel_for(
      args.outer * count * blocks,
      [&](int64_t task) {
        const int64_t b = task % blocks, p = task / blocks % count, o = task / (blocks * count);
        const int64_t begin = b * block, width = std::min(block, inner - begin);
        T* sums = partial + (o * count + p) * inner + begin;
        std::fill(sums, sums + width, T(0));
        if (n == 0) return;
        for (int64_t row = pieces.begin(p); row < pieces.end(p); ++row) {
          const int64_t at = (o * n + row) * inner + begin;
          if (weight == nullptr) {
            map_into<true>(
                width, sums, [](Vec<T> a) { return a; }, x + at);
          } else {
            map_into<true>(
                width, sums, [](Vec<T> a, Vec<T> w) { return a * w; }, x + at, weight + at);
          }
        }
      },
      parallel);
  for (int64_t o = 0; o < args.outer; ++o) {
    tree_sum_rows(partial + o * count * inner, count, inner, T(args.alpha), out + o * inner,
                  args.accumulate);
  }
}

}  // namespace

template <class T>
void reduce(const ReduceArgs& args) {
  if (args.outer <= 0 || args.inner <= 0) return;
  if (args.inner == 1) {
    reduce_runs<T>(args);
  } else {
    reduce_rows<T>(args);
  }
}

template <class T>
void argmax(const ArgmaxArgs& args) {
  const T* x = typed<T>(args.x);
  if (args.columns <= 0) return;
  for_rows(args.rows, args.columns, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const T* row = x + r * args.columns;
      const T largest = max_of(args.columns, row);
      const T* found = std::find(row, row + args.columns, largest);
      // Not found only when NaN is about; the index must stay a legal one.
      args.out[r] = found == row + args.columns ? 0 : int32_t(found - row);
    }
  });
}

template void reduce<float>(const ReduceArgs&);
template void reduce<double>(const ReduceArgs&);
template void argmax<float>(const ArgmaxArgs&);
template void argmax<double>(const ArgmaxArgs&);

}  // namespace longshot::cpu
