// Softmax and log-softmax over the last axis with their gradients, and argmax: a warp a row.
//   y = exp(x - max) / sum,        dx = y (dy - sum(dy y))
//   y = x - max - log(sum),        dx = dy - exp(y) sum(dy)
#include "cuda/device.cuh"

namespace longshot::cuda {
namespace {

struct SoftmaxRow {
  int64_t columns;
  bool log;
  const float* x;
  float* y;
  __device__ void operator()(int64_t row, int lane) const {
    const float* in = x + row * columns;
    float* out = y + row * columns;
    float top = -INFINITY;
    for (int64_t c = lane; c < columns; c += kWarp) top = fmaxf(top, in[c]);
    top = warp_max(top);
    if (top == -INFINITY) top = 0;  // nothing but masked entries: no NaN from -inf minus -inf
    float sum = 0;
    for (int64_t c = lane; c < columns; c += kWarp) sum += expf(in[c] - top);
    sum = warp_sum(sum);
    // Of nothing else the sum is 0: softmax gives 0, log-softmax leaves -inf.
    const float offset = log && sum != 0 ? top + logf(sum) : 0.0f;
    const float inverse = sum == 0 ? 0.0f : 1.0f / sum;
    for (int64_t c = lane; c < columns; c += kWarp) {
      out[c] = log ? in[c] - offset : expf(in[c] - top) * inverse;
    }
  }
};

struct SoftmaxBackwardRow {
  int64_t columns;
  bool log, accumulate;
  const float *y, *dy;
  float* dx;
  __device__ void operator()(int64_t row, int lane) const {
    const int64_t base = row * columns;
    float sum = 0;
    for (int64_t c = lane; c < columns; c += kWarp) {
      sum += log ? dy[base + c] : dy[base + c] * y[base + c];
    }
    sum = warp_sum(sum);
    for (int64_t c = lane; c < columns; c += kWarp) {
      const float g = dy[base + c], p = y[base + c];
      put(dx, base + c, log ? g - expf(p) * sum : p * (g - sum), accumulate);
    }
  }
};

struct ArgmaxRow {
  int64_t columns;
  const float* x;
  int32_t* out;
  __device__ void operator()(int64_t row, int lane) const {
    const float* in = x + row * columns;
    float best = -INFINITY;
    int64_t at = columns;  // "none yet": loses every tie
    for (int64_t c = lane; c < columns; c += kWarp) {
      if (in[c] > best || at == columns) best = in[c], at = c;
    }
    LONGSHOT_UNROLL
    for (int distance = 16; distance; distance >>= 1) {
      const float other = __shfl_xor_sync(kAllLanes, best, distance);
      const int64_t other_at = __shfl_xor_sync(kAllLanes, (long long)(at), distance);
      if (other > best || (other == best && other_at < at)) best = other, at = other_at;
    }
    if (lane == 0) out[row] = int32_t(at < columns ? at : 0);
  }
};

}  // namespace

void softmax(const Context& context, const SoftmaxArgs& args) {
  map_rows(context, "softmax", args.columns ? args.rows : 0,
           SoftmaxRow{args.columns, args.log, f32(args.x), f32(args.y)});
}

void softmax_backward(const Context& context, const SoftmaxBackwardArgs& args) {
  map_rows(context, "softmax_backward", args.columns ? args.rows : 0,
           SoftmaxBackwardRow{args.columns, args.log, args.accumulate, f32(args.y), f32(args.dy),
                              f32(args.dx)});
}

void argmax(const Context& context, const ArgmaxArgs& args) {
  map_rows(context, "argmax", args.rows, ArgmaxRow{args.columns, f32(args.x), args.out});
}

}  // namespace longshot::cuda
