// out[n, i, j] = x[n, i, index[b(n), i, j]] and dx[n, i, index[b(n), i, j]] += dy[n, i, j], on the
// CPU.
#include "core/cpu/gather.h"

#include <algorithm>

#include "core/cpu/pieces.h"

namespace longshot::cpu {
namespace {

// First element of the index row that row `r` of (outer * rows) uses.
template <class Args>
const int32_t* index_row(const Args& args, int64_t r) {
  const int64_t n = r / args.rows, i = r % args.rows;
  const int64_t batch = n / (args.outer / args.index_batches);
  return args.index + (batch * args.rows + i) * args.columns;
}

}  // namespace

template <class T>
void gather(const GatherArgs& args) {
  const T* x = typed<T>(args.x);
  T* out = typed<T>(args.out);
  for_rows(args.outer * args.rows, args.columns, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const int32_t* index = index_row(args, r);
      const T* from = x + r * args.source;
      T* to = out + r * args.columns;
      for (int64_t j = 0; j < args.columns; ++j) to[j] = index[j] < 0 ? T(0) : from[index[j]];
    }
  });
}

template <class T>
void gather_backward(const GatherBackwardArgs& args) {
  const T* dy = typed<T>(args.dy);
  T* dx = typed<T>(args.dx);
  for_rows(args.outer * args.rows, args.columns + args.source, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const int32_t* index = index_row(args, r);
      const T* from = dy + r * args.columns;
      T* to = dx + r * args.source;
      if (!args.accumulate) std::fill(to, to + args.source, T(0));
      for (int64_t j = 0; j < args.columns; ++j) {
        if (index[j] >= 0) to[index[j]] += from[j];
      }
    }
  });
}

template void gather<float>(const GatherArgs&);
template void gather<double>(const GatherArgs&);
template void gather_backward<float>(const GatherBackwardArgs&);
template void gather_backward<double>(const GatherBackwardArgs&);

}  // namespace longshot::cpu
