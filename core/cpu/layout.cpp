// Element movers on the CPU. All of them are bound by memory, so the care goes into the order of
// accesses: long contiguous runs where the layout has them, 32 x 32 tiles where an axis order
// turns.
#include "core/cpu/layout.h"

#include "core/cpu/pieces.h"

namespace longshot::cpu {
namespace {

constexpr int64_t kTile = 32;  // 32 x 32 of f32: two tiles are 8 KB, well inside the first cache

template <bool kAccumulate, class T>
inline void move_run(T* to, const T* from, int64_t count) {
  for (int64_t i = 0; i < count; ++i) deliver<kAccumulate>(to[i], from[i]);
}

// The transposition out[i * out_stride + j] = x[i + j * x_stride] for i in [i0, i1), all j <
// columns.
template <bool kAccumulate, class T>
void transpose_rows(const T* x, int64_t x_stride, T* out, int64_t out_stride, int64_t i0,
                    int64_t i1, int64_t columns) {
  for (int64_t j0 = 0; j0 < columns; j0 += kTile) {
    const int64_t j1 = std::min(columns, j0 + kTile);
    for (int64_t i = i0; i < i1; ++i) {
      for (int64_t j = j0; j < j1; ++j) {
        deliver<kAccumulate>(out[i * out_stride + j], x[i + j * x_stride]);
      }
    }
  }
}

}  // namespace

template <class T>
void permute(const PermuteArgs& args) {
  constexpr int kRank = Shape::kMaxRank;
  const int rank = args.shape.rank();
  if (args.shape.elements() == 0) return;
  // Out axes padded to rank 4 in front; x_stride[a] is how far x moves when out axis a advances.
  int64_t x_axis_stride[kRank] = {}, extent[kRank] = {1, 1, 1, 1}, x_stride[kRank] = {};
  int64_t out_stride[kRank];
  for (int64_t stride = 1, a = rank - 1; a >= 0; --a) {
    x_axis_stride[a] = stride;
    stride *= args.shape[int(a)];
  }
  for (int a = 0; a < rank; ++a) {
    extent[a + kRank - rank] = args.shape[args.perm[a]];
    x_stride[a + kRank - rank] = x_axis_stride[args.perm[a]];
  }
  for (int64_t stride = 1, a = kRank - 1; a >= 0; --a) {
    out_stride[a] = stride;
    stride *= extent[a];
  }
  const T* x = typed<T>(args.x);
  T* out = typed<T>(args.out);
  const int last = kRank - 1;
  // The axis along which x is contiguous. An axis of extent 1 counts wherever it stands.
  int contiguous = last;
  if (x_stride[last] != 1 && extent[last] != 1) {
    for (int a = 0; a < last; ++a) {
      if (x_stride[a] == 1 && extent[a] > 1) contiguous = a;
    }
  }
  with_flag(args.accumulate, [&](auto accumulate) {
    constexpr bool kAccumulate = decltype(accumulate)::value;
    if (contiguous == last) {
      for_rows(extent[0] * extent[1] * extent[2], extent[last], [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) {
          const int64_t i2 = row % extent[2], i1 = row / extent[2] % extent[1];
          const int64_t i0 = row / (extent[2] * extent[1]);
          const T* from = x + i0 * x_stride[0] + i1 * x_stride[1] + i2 * x_stride[2];
          T* to = out + row * extent[last];
          if (x_stride[last] == 1 || extent[last] == 1) {
            move_run<kAccumulate>(to, from, extent[last]);
          } else {  // no contiguous axis longer than 1 exists: plain strided copy
            for (int64_t i = 0; i < extent[last]; ++i) {
              deliver<kAccumulate>(to[i], from[i * x_stride[last]]);
            }
          }
        }
      });
      return;
    }
    // Tiles over (contiguous, last); the two other axes are outer loops.
    int outer[2], found = 0;
    for (int a = 0; a < last; ++a) {
      if (a != contiguous) outer[found++] = a;
    }
    const int64_t tiles = divide_up(extent[contiguous], kTile);
    for_rows(extent[outer[0]] * extent[outer[1]] * tiles, kTile * extent[last],
             [&](int64_t begin, int64_t end) {
               for (int64_t piece = begin; piece < end; ++piece) {
                 const int64_t tile = piece % tiles, rest = piece / tiles;
                 const int64_t o1 = rest % extent[outer[1]], o0 = rest / extent[outer[1]];
                 transpose_rows<kAccumulate>(
                     x + o0 * x_stride[outer[0]] + o1 * x_stride[outer[1]], x_stride[last],
                     out + o0 * out_stride[outer[0]] + o1 * out_stride[outer[1]],
                     out_stride[contiguous], tile * kTile,
                     std::min(extent[contiguous], (tile + 1) * kTile), extent[last]);
               }
             });
  });
}

template <class T>
void copy_chunks(const CopyChunksArgs& args) {
  if (args.chunk <= 0) return;
  const T* x = typed<T>(args.x) + args.x_offset;
  T* out = typed<T>(args.out) + args.out_offset;
  with_flag(args.accumulate, [&](auto accumulate) {
    // Ranges run over all elements, so that one long chunk is shared as well as many short ones.
    for_elements(args.outer * args.chunk, [&](int64_t begin, int64_t end) {
      for (int64_t o = begin / args.chunk, j = begin % args.chunk; begin < end; ++o, j = 0) {
        const int64_t run = std::min(args.chunk - j, end - begin);
        move_run<decltype(accumulate)::value>(out + o * args.out_stride + j,
                                              x + o * args.x_stride + j, run);
        begin += run;
      }
    });
  });
}

namespace {

// Moves between merged (B, T, parts, H, D) and part[p] (B, H, T, D). kWidth is D when it is one of
// the usual small widths (then a run is a few vector moves), 0 otherwise.
template <class T, bool kSplit, bool kAccumulate, int64_t kWidth>
void move_heads(const HeadsArgs& args) {
  const int64_t width = kWidth == 0 ? args.head_dim : kWidth;
  const int64_t row = args.parts * args.heads * width;
  T* merged = typed<T>(args.merged);
  for_rows(args.batch * args.length, row, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const int64_t b = r / args.length, t = r % args.length;
      T* lanes = merged + r * row;
      for (int p = 0; p < args.parts; ++p) {
        T* part = typed<T>(args.part[p]) + (b * args.heads * args.length + t) * width;
        for (int64_t h = 0; h < args.heads; ++h) {
          T* head = part + h * args.length * width;
          if constexpr (kSplit) {
            move_run<kAccumulate>(head, lanes, width);
          } else {
            move_run<kAccumulate>(lanes, head, width);
          }
          lanes += width;
        }
      }
    }
  });
}

template <class T, bool kSplit>
void move_heads_any(const HeadsArgs& args) {
  if (args.batch * args.length * args.heads * args.head_dim == 0) return;
  with_flag(args.accumulate, [&](auto accumulate) {
    constexpr bool kAccumulate = decltype(accumulate)::value;
    switch (args.head_dim) {
      case 8:
        return move_heads<T, kSplit, kAccumulate, 8>(args);
      case 16:
        return move_heads<T, kSplit, kAccumulate, 16>(args);
      case 32:
        return move_heads<T, kSplit, kAccumulate, 32>(args);
      case 64:
        return move_heads<T, kSplit, kAccumulate, 64>(args);
      default:
        return move_heads<T, kSplit, kAccumulate, 0>(args);
    }
  });
}

}  // namespace

template <class T>
void split_heads(const HeadsArgs& args) {
  move_heads_any<T, true>(args);
}

template <class T>
void merge_heads(const HeadsArgs& args) {
  move_heads_any<T, false>(args);
}

template <class T>
void expand(const ExpandArgs& args) {
  if (args.inner <= 0 || args.repeat <= 0) return;
  const T* x = typed<T>(args.x);
  T* out = typed<T>(args.out);
  const T alpha = T(args.alpha);
  with_flag(args.accumulate, [&](auto accumulate) {
    constexpr bool kAccumulate = decltype(accumulate)::value;
    for_elements(args.outer * args.repeat * args.inner, [&](int64_t begin, int64_t end) {
      if (args.inner == 1) {  // out (outer, repeat): each x fills a run
        for (int64_t o = begin / args.repeat; begin < end; ++o) {
          const int64_t stop = std::min(end, (o + 1) * args.repeat);
          const T value = alpha * x[o];
          for (; begin < stop; ++begin) deliver<kAccumulate>(out[begin], value);
        }
        return;
      }
      while (begin < end) {
        const int64_t row = begin / args.inner, i = begin % args.inner;
        const int64_t run = std::min(args.inner - i, end - begin);
        const T* from = x + row / args.repeat * args.inner + i;
        T* to = out + begin;
        for (int64_t j = 0; j < run; ++j) deliver<kAccumulate>(to[j], alpha * from[j]);
        begin += run;
      }
    });
  });
}

template void permute<float>(const PermuteArgs&);
template void permute<double>(const PermuteArgs&);
template void copy_chunks<float>(const CopyChunksArgs&);
template void copy_chunks<double>(const CopyChunksArgs&);
template void split_heads<float>(const HeadsArgs&);
template void split_heads<double>(const HeadsArgs&);
template void merge_heads<float>(const HeadsArgs&);
template void merge_heads<double>(const HeadsArgs&);
template void expand<float>(const ExpandArgs&);
template void expand<double>(const ExpandArgs&);

}  // namespace longshot::cpu
