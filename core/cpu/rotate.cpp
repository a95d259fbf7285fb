// y_a = x_a cos - x_b sin, y_b = x_b cos + x_a sin over lane pairs (a, b) of x (B, H, T, D).
// The inverse takes -sin: it is the transposed matrix, hence also the gradient.
#include "core/cpu/rotate.h"

#include <utility>

#include "core/cpu/lanes.h"
#include "core/cpu/pieces.h"
#include "core/cpu/scratch.h"

namespace longshot::cpu {
namespace {

template <bool kAccumulate, class T>
void rotate_half(const T* x, const T* cosine, const T* sine, T sign, int64_t pairs, T* y) {
  constexpr int64_t kWidth = Vec<T>::kWidth;
  const Vec<T> s(sign);
  for (int64_t t = 0; t < pairs; t += kWidth) {
    const int64_t left = pairs - t;
    const Vec<T> a = Vec<T>::load_partial(x + t, left);
    const Vec<T> b = Vec<T>::load_partial(x + pairs + t, left);
    const Vec<T> c = Vec<T>::load_partial(cosine + t, left);
    const Vec<T> d = s * Vec<T>::load_partial(sine + t, left);
    Vec<T> ya = a * c - b * d, yb = b * c + a * d;
    if constexpr (kAccumulate) {
      ya += Vec<T>::load_partial(y + t, left);
      yb += Vec<T>::load_partial(y + pairs + t, left);
    }
    ya.store_partial(y + t, left);
    yb.store_partial(y + pairs + t, left);
  }
}

template <bool kAccumulate, class T>
void rotate_interleaved(const T* x, const T* cosine, const T* sine, T sign, int64_t pairs, T* y) {
  for (int64_t t = 0; t < pairs; ++t) {
    const T a = x[2 * t], b = x[2 * t + 1], c = cosine[t], d = sign * sine[t];
    const T ya = a * c - b * d, yb = b * c + a * d;
    deliver<kAccumulate>(y[2 * t], ya);
    deliver<kAccumulate>(y[2 * t + 1], yb);
  }
}

// Lane i takes lane i ^ 1.
template <class T, size_t... I>
Vec<T> swap_neighbours(Vec<T> x, std::index_sequence<I...>) {
  return Vec<T>(__builtin_shufflevector(x.v, x.v, (int(I) ^ 1)...));
}

// Neighbours that turn, all of a head's lanes: y = x C + swapped(x) S over whole (T, D) matrices,
// C = c c .., S = -s s .. laid out once a call. Narrow heads then fill the vectors too.
template <class T>
void rotate_whole_heads(const RotateArgs& args) {
  constexpr int64_t kWidth = Vec<T>::kWidth;
  const int64_t size = args.length * args.head_dim, angles = args.angle_batches * size / 2;
  ScratchScope scratch;
  T* keep = scratch.allocate<T>(2 * angles);
  T* turn = scratch.allocate<T>(2 * angles);
  const T* cosine = typed<T>(args.cosine);
  const T* sine = typed<T>(args.sine);
  const T sign = args.inverse ? T(-1) : T(1);
  for (int64_t i = 0; i < angles; ++i) {
    keep[2 * i] = keep[2 * i + 1] = cosine[i];
    turn[2 * i] = -sign * sine[i];
    turn[2 * i + 1] = sign * sine[i];
  }
  with_flag(args.accumulate, [&](auto accumulate) {
    for_rows(
        args.batch * args.heads, size,
        [&](int64_t begin, int64_t end) {
          for (int64_t m = begin; m < end; ++m) {
            const int64_t table = args.angle_batches == 1 ? 0 : m / args.heads * size;
            const T* x = typed<T>(args.x) + m * size;
            T* y = typed<T>(args.y) + m * size;
            for (int64_t i = 0; i < size; i += kWidth) {
              const int64_t left = size - i;
              const Vec<T> in = Vec<T>::load_partial(x + i, left);
              const Vec<T> swapped = swap_neighbours(in, std::make_index_sequence<kWidth>{});
              Vec<T> out = fma(in, Vec<T>::load_partial(keep + table + i, left),
                               swapped * Vec<T>::load_partial(turn + table + i, left));
              if constexpr (decltype(accumulate)::value) out += Vec<T>::load_partial(y + i, left);
              out.store_partial(y + i, left);
            }
          }
        },
        2);
  });
}

}  // namespace

template <class T>
void rotate(const RotateArgs& args) {
  if (!args.half && args.width == args.head_dim) return rotate_whole_heads<T>(args);
  const int64_t pairs = args.width / 2, dim = args.head_dim;
  const int64_t rows_per_batch = args.heads * args.length;
  const T sign = args.inverse ? T(-1) : T(1);
  with_flag(args.accumulate, [&](auto accumulate) {
    constexpr bool kAccumulate = decltype(accumulate)::value;
    for_rows(
        args.batch * rows_per_batch, dim,
        [&](int64_t begin, int64_t end) {
          for (int64_t r = begin; r < end; ++r) {
            const int64_t angle_batch = args.angle_batches == 1 ? 0 : r / rows_per_batch;
            const int64_t angle = (angle_batch * args.length + r % args.length) * pairs;
            const T* cosine = typed<T>(args.cosine) + angle;
            const T* sine = typed<T>(args.sine) + angle;
            const T* x = typed<T>(args.x) + r * dim;
            T* y = typed<T>(args.y) + r * dim;
            if (args.half) {
              rotate_half<kAccumulate>(x, cosine, sine, sign, pairs, y);
            } else {
              rotate_interleaved<kAccumulate>(x, cosine, sine, sign, pairs, y);
            }
            for (int64_t i = 2 * pairs; i < dim; ++i) deliver<kAccumulate>(y[i], x[i]);
          }
        },
        2);
  });
}

template void rotate<float>(const RotateArgs&);
template void rotate<double>(const RotateArgs&);

}  // namespace longshot::cpu
