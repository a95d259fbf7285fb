// Rotation of lane pairs (RoPE): for pair t < width / 2 with lanes (a, b),
//   y_a = x_a cos - x_b sin,  y_b = x_b cos + x_a sin;  the gradient turns the other way.
// A thread a pair, then a thread a lane for those that pass unchanged.
#include "cuda/device.cuh"

namespace longshot::cuda {
namespace {

struct RotatePairs {
  int64_t heads, length, head_dim, width, angle_batches, pairs, per_row;
  bool half, inverse, accumulate;
  const float *cosine, *sine, *x;
  float* y;
  // Units of one row (b, h, t): `pairs` pairs, then head_dim - width single lanes.
  __device__ void operator()(int64_t i) const {
    const int64_t row = divide(i, per_row), unit = i - row * per_row;
    const int64_t base = row * head_dim;
    if (unit >= pairs) {
      const int64_t at = base + width + (unit - pairs);
      put(y, at, x[at], accumulate);
      return;
    }
    const int64_t bh = divide(row, length), t = row - bh * length, b = divide(bh, heads);
    const int64_t angle = ((angle_batches == 1 ? 0 : b) * length + t) * pairs + unit;
    const float c = cosine[angle], s = inverse ? -sine[angle] : sine[angle];
    const int64_t first = base + (half ? unit : 2 * unit),
                  second = half ? first + pairs : first + 1;
    const float xa = x[first], xb = x[second];
    put(y, first, xa * c - xb * s, accumulate);
    put(y, second, xb * c + xa * s, accumulate);
  }
};

}  // namespace

void rotate(const Context& context, const RotateArgs& args) {
  const int64_t pairs = args.width / 2, per_row = pairs + (args.head_dim - 2 * pairs);
  map(context, "rotate", args.batch * args.heads * args.length * per_row,
      RotatePairs{args.heads, args.length, args.head_dim, 2 * pairs, args.angle_batches, pairs,
                  per_row, args.half, args.inverse, args.accumulate, f32(args.cosine),
                  f32(args.sine), f32(args.x), f32(args.y)});
}

}  // namespace longshot::cuda
