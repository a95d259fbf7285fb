// Residual add with dropout, then layer norm or RMS norm: a warp a row.
//   s = x + dropout(residual);  n = (s - mean) r,  r = 1 / sqrt(variance + epsilon);  y = n gain +
//   bias
// Backward, with g = dy gain and C columns:
//   layer norm: ds = r (g - mean(g) - n mean(g n));   RMS norm: ds = r (g - n mean(g n))
//   dgain = sum over rows of dy n,  dbias = sum over rows of dy
//   dx = ds + dsum,  dresidual = (ds + dsum) * dropout factor
#include "cuda/device.cuh"

namespace longshot::cuda {
namespace {

struct NormRow {
  NormArgs a;
  __device__ void operator()(int64_t row, int lane) const {
    const int64_t columns = a.columns, base = row * columns;
    const float* x = static_cast<const float*>(a.x) + base;
    const float* residual = static_cast<const float*>(a.residual);
    float* sum = static_cast<float*>(a.sum);
    const float *gain = static_cast<const float*>(a.gain),
                *bias = static_cast<const float*>(a.bias);
    float* y = static_cast<float*>(a.y) + base;
    const float inverse_columns = 1.0f / float(columns);

    // Each lane reads back only what it wrote itself.
    const float* s = x;
    if (sum) {
      const DropoutDraw draw(a.dropout);
      for (int64_t c = lane; c < columns; c += kWarp) {
        sum[base + c] = residual ? x[c] + residual[base + c] * draw.factor(base + c) : x[c];
      }
      s = sum + base;
    }
    float mean = 0;
    if (!a.rms) {
      for (int64_t c = lane; c < columns; c += kWarp) mean += s[c];
      mean = warp_sum(mean) * inverse_columns;
    }
    float variance = 0;
    for (int64_t c = lane; c < columns; c += kWarp) variance += (s[c] - mean) * (s[c] - mean);
    variance = warp_sum(variance) * inverse_columns;
    const float inverse = 1.0f / sqrtf(variance + float(a.epsilon));
    for (int64_t c = lane; c < columns; c += kWarp) {
      float value = (s[c] - mean) * inverse;
      if (gain) value *= gain[c];
      if (bias) value += bias[c];
      y[c] = value;
    }
    if (lane != 0) return;
    if (!a.rms && a.mean) static_cast<float*>(a.mean)[row] = mean;
    if (a.inverse_deviation) static_cast<float*>(a.inverse_deviation)[row] = inverse;
  }
};

struct NormBackwardRow {
  NormBackwardArgs a;
  __device__ void operator()(int64_t row, int lane) const {
    const int64_t columns = a.columns, base = row * columns;
    const float* s = static_cast<const float*>(a.sum) + base;
    const float* dy = static_cast<const float*>(a.dy) + base;
    const float *gain = static_cast<const float*>(a.gain),
                *dsum = static_cast<const float*>(a.dsum);
    float *dx = static_cast<float*>(a.dx), *dresidual = static_cast<float*>(a.dresidual);
    const float mean = a.rms ? 0.0f : static_cast<const float*>(a.mean)[row];
    const float inverse = static_cast<const float*>(a.inverse_deviation)[row];
    const float inverse_columns = 1.0f / float(columns);
    float mean_g = 0, mean_gn = 0;
    for (int64_t c = lane; c < columns; c += kWarp) {
      const float g = gain ? dy[c] * gain[c] : dy[c];
      mean_g += g;
      mean_gn += g * (s[c] - mean) * inverse;
    }
    mean_g = a.rms ? 0.0f : warp_sum(mean_g) * inverse_columns;
    mean_gn = warp_sum(mean_gn) * inverse_columns;
    const DropoutDraw draw(a.dropout);
    for (int64_t c = lane; c < columns; c += kWarp) {
      const float g = gain ? dy[c] * gain[c] : dy[c], n = (s[c] - mean) * inverse;
      float ds = inverse * (g - mean_g - n * mean_gn);
      if (dsum) ds += dsum[base + c];
      if (dx) put(dx, base + c, ds, a.accumulate_dx);
      if (dresidual) {
        put(dresidual, base + c, ds * draw.factor(base + c), a.accumulate_dresidual);
      }
    }
  }
};

struct GainBiasTerms {
  int64_t columns;
  bool rms;
  const float *s, *mean, *inverse, *dy;
  __device__ void operator()(int64_t row, int64_t column, float* values) const {
    const int64_t i = row * columns + column;
    const float n = (s[i] - (rms ? 0.0f : mean[row])) * inverse[row];
    values[0] = dy[i] * n;
    values[1] = dy[i];
  }
};

}  // namespace

void norm(const Context& context, const NormArgs& args) {
  map_rows(context, "norm", args.columns ? args.rows : 0, NormRow{args});
}

void norm_backward(const Context& context, const NormBackwardArgs& args) {
  // First the sums over rows: dx may take the place of dy.
  if (args.dgain || args.dbias) {
    column_sums<2>(
        context, "norm_backward", args.rows, args.columns,
        {{f32(args.dgain), f32(args.dbias)}, {args.accumulate_dgain, args.accumulate_dbias}},
        GainBiasTerms{args.columns, args.rms, f32(args.sum), f32(args.mean),
                      f32(args.inverse_deviation), f32(args.dy)});
  }
  if (args.dx || args.dresidual) {
    map_rows(context, "norm_backward", args.columns ? args.rows : 0, NormBackwardRow{args});
  }
}

}  // namespace longshot::cuda
