// Losses, each a mean over counted rows or elements, and their gradients.
//   cross-entropy: (1 - e)(lse - x_t) + e (lse - mean(x)),  dx_c = (p_c - (1 - e)[c = t] - e / C) d
//   squared error: (x - t)^2,                               dx = 2 (x - t) d
//   logistic:      log(1 + exp(x)) - t x,                   dx = (sigmoid(x) - t) d
// with d = dloss / denominator. Sums over rows are in double precision.
#include "cuda/device.cuh"

namespace longshot::cuda {
namespace {

struct CrossEntropyRow {
  int64_t columns;
  const float* logits;
  const int32_t* targets;
  float smoothing;
  float *log_sum_exp, *row_loss;
  __device__ void operator()(int64_t row, int lane) const {
    const float* x = logits + row * columns;
    float top = -INFINITY;
    for (int64_t c = lane; c < columns; c += kWarp) top = fmaxf(top, x[c]);
    top = warp_max(top);
    float sum = 0, total = 0;
    for (int64_t c = lane; c < columns; c += kWarp) {
      sum += expf(x[c] - top);
      total += x[c];
    }
    sum = warp_sum(sum);
    if (smoothing != 0) total = warp_sum(total);
    if (lane != 0) return;
    const float lse = top + logf(sum);
    const int32_t target = targets[row];
    log_sum_exp[row] = lse;
    float loss = 0;
    if (target >= 0) {
      loss = (1.0f - smoothing) * (lse - x[target]);
      if (smoothing != 0) loss += smoothing * (lse - total / float(columns));
    }
    row_loss[row] = loss;
  }
};
struct RowTerm {
  const float* row_loss;
  const int32_t* targets;
  __device__ void operator()(int64_t i, double& loss, double& count) const {
    loss += double(row_loss[i]);
    count += targets[i] >= 0 ? 1.0 : 0.0;
  }
};
struct FinishMean {
  const double* count_override;
  float* loss;
  double* denominator;
  __device__ void operator()(double sum, double count) const {
    const double by = count_override ? *count_override : count;
    *denominator = by;
    *loss = by > 0 ? float(sum / by) : 0.0f;
  }
};
__device__ float step_of(const float* dloss, const double* denominator) {
  return *denominator > 0 ? float(double(*dloss) / *denominator) : 0.0f;
}
struct CrossEntropyGradient {
  int64_t columns;
  const float* logits;
  const int32_t* targets;
  float smoothing;
  const float* log_sum_exp;
  const double* denominator;
  const float* dloss;
  float* dlogits;
  bool accumulate;
  __device__ void operator()(int64_t i) const {
    const int64_t row = divide(i, columns), column = i - row * columns;
    const int32_t target = targets[row];
    float g = 0;
    if (target >= 0) {
      g = expf(logits[i] - log_sum_exp[row]) - smoothing / float(columns);
      if (column == target) g -= 1.0f - smoothing;
      g *= step_of(dloss, denominator);
    }
    put(dlogits, i, g, accumulate);
  }
};

struct PointwiseTerm {
  bool logistic;
  const float *x, *target;
  const int32_t* mask;
  __device__ void operator()(int64_t i, double& loss, double& count) const {
    if (mask && mask[i] == 0) return;
    const float v = x[i], t = target[i];
    // log(1 + exp(v)) = max(v, 0) + log(1 + exp(-|v|)) does not overflow.
    loss += logistic ? double(fmaxf(v, 0.0f) + log1pf(expf(-fabsf(v))) - t * v)
                     : double(v - t) * double(v - t);
    count += 1.0;
  }
};
struct PointwiseGradient {
  bool logistic, accumulate;
  const float *x, *target;
  const int32_t* mask;
  const double* denominator;
  const float* dloss;
  float* dx;
  __device__ void operator()(int64_t i) const {
    float g = 0;
    if (!mask || mask[i] != 0) {
      const float v = x[i], t = target[i];
      g = (logistic ? 1.0f / (1.0f + expf(-v)) - t : 2.0f * (v - t)) * step_of(dloss, denominator);
    }
    put(dx, i, g, accumulate);
  }
};

}  // namespace

void cross_entropy(const Context& context, const CrossEntropyArgs& args) {
  map_rows(context, "cross_entropy", args.rows,
           CrossEntropyRow{args.columns, f32(args.logits), args.targets, float(args.smoothing),
                           f32(args.log_sum_exp), f32(args.row_loss)});
  sum_all(context, "cross_entropy", args.rows, RowTerm{f32(args.row_loss), args.targets},
          FinishMean{args.count_override, f32(args.loss), args.denominator});
}

void cross_entropy_backward(const Context& context, const CrossEntropyBackwardArgs& args) {
  map(context, "cross_entropy_backward", args.rows * args.columns,
      CrossEntropyGradient{args.columns, f32(args.logits), args.targets, float(args.smoothing),
                           f32(args.log_sum_exp), args.denominator, f32(args.dloss),
                           f32(args.dlogits), args.accumulate});
}

void pointwise_loss(const Context& context, const PointwiseLossArgs& args) {
  sum_all(context, "pointwise_loss", args.n,
          PointwiseTerm{args.logistic, f32(args.x), f32(args.target), args.mask},
          FinishMean{args.count_override, f32(args.loss), args.denominator});
}

void pointwise_loss_backward(const Context& context, const PointwiseLossBackwardArgs& args) {
  map(context, "pointwise_loss_backward", args.n,
      PointwiseGradient{args.logistic, args.accumulate, f32(args.x), f32(args.target), args.mask,
                        args.denominator, f32(args.dloss), f32(args.dx)});
}

}  // namespace longshot::cuda
