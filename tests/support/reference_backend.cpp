// Everything but attention, losses and the optimizer: see reference_attention.cpp and
// reference_losses.cpp.

#include "tests/support/reference_backend.h"

#include <cstring>
#include <new>
#include <numbers>
#include <vector>

#include "tests/support/reference_array.h"

namespace longshot::testing {
namespace {

constexpr std::align_val_t kAlignment{256};

double normal_cdf(double x) {
  return 0.5 * std::erfc(-x / std::numbers::sqrt2);
}
double normal_pdf(double x) {
  return std::exp(-0.5 * x * x) / std::sqrt(2.0 * std::numbers::pi);
}
double logistic(double x) {
  return 1.0 / (1.0 + std::exp(-x));
}

Unary as_unary(Activation activation) {
  switch (activation) {
    case Activation::relu:
      return Unary::relu;
    case Activation::gelu:
      return Unary::gelu;
    default:
      return Unary::gelu_tanh;
  }
}

}  // namespace

double unary_value(Unary op, double x) {
  switch (op) {
    case Unary::relu:
      return x > 0 ? x : 0.0;
    case Unary::gelu:
      return x * normal_cdf(x);
    case Unary::gelu_tanh: {
      const double u = std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x);
      return 0.5 * x * (1.0 + std::tanh(u));
    }
    case Unary::exp:
      return std::exp(x);
    case Unary::log:
      return std::log(x);
    case Unary::tanh:
      return std::tanh(x);
    case Unary::sigmoid:
      return logistic(x);
    case Unary::square:
      return x * x;
  }
  return 0;
}

double unary_derivative(Unary op, double x) {
  switch (op) {
    case Unary::relu:
      return x > 0 ? 1.0 : 0.0;
    case Unary::gelu:
      return normal_cdf(x) + x * normal_pdf(x);
    case Unary::gelu_tanh: {
      const double c = std::sqrt(2.0 / std::numbers::pi);
      const double t = std::tanh(c * (x + 0.044715 * x * x * x));
      return 0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * c * (1.0 + 3.0 * 0.044715 * x * x);
    }
    case Unary::exp:
      return std::exp(x);
    case Unary::log:
      return 1.0 / x;
    case Unary::tanh:
      return 1.0 - std::tanh(x) * std::tanh(x);
    case Unary::sigmoid:
      return logistic(x) * (1.0 - logistic(x));
    case Unary::square:
      return 2.0 * x;
  }
  return 0;
}

double activation_value(Activation activation, double x) {
  return activation == Activation::none ? x : unary_value(as_unary(activation), x);
}
double activation_derivative(Activation activation, double x) {
  return activation == Activation::none ? 1.0 : unary_derivative(as_unary(activation), x);
}

void* ReferenceBackend::allocate(size_t bytes) {
  ++allocations_;
  return ::operator new(bytes, kAlignment);
}
void ReferenceBackend::release(void* pointer, size_t) {
  ::operator delete(pointer, kAlignment);
}
void ReferenceBackend::copy_to_device(void* device, const void* host, size_t bytes) {
  std::memcpy(device, host, bytes);
}
void ReferenceBackend::copy_to_host(void* host, const void* device, size_t bytes) {
  std::memcpy(host, device, bytes);
}
void ReferenceBackend::copy_on_device(void* to, const void* from, size_t bytes) {
  std::memmove(to, from, bytes);
}
void ReferenceBackend::fill_zero(void* device, size_t bytes) {
  std::memset(device, 0, bytes);
}

void ReferenceBackend::gemm(const GemmArgs& args) {
  const ConstArray a(args.a, args.dtype), b(args.b, args.dtype), bias(args.bias, args.dtype);
  const Array c(args.c, args.dtype), pre(args.pre_activation, args.dtype);
  for (int64_t n = 0; n < args.batch; ++n) {
    for (int64_t i = 0; i < args.rows; ++i) {
      for (int64_t j = 0; j < args.columns; ++j) {
        double total = 0;
        for (int64_t k = 0; k < args.inner; ++k) {
          const int64_t at = args.transpose_a ? k * args.lda + i : i * args.lda + k;
          const int64_t bt = args.transpose_b ? j * args.ldb + k : k * args.ldb + j;
          total += a[n * args.stride_a + at] * b[n * args.stride_b + bt];
        }
        total *= args.alpha;
        if (bias) total += bias[j];
        const int64_t ct = n * args.stride_c + i * args.ldc + j;
        if (pre) pre.put(ct, total);
        c.put(ct, activation_value(args.activation, total), args.accumulate);
      }
    }
  }
}

namespace {
void move_heads(const HeadsArgs& args, bool split) {
  for (int64_t b = 0; b < args.batch; ++b)
    for (int64_t t = 0; t < args.length; ++t)
      for (int p = 0; p < args.parts; ++p)
        for (int64_t h = 0; h < args.heads; ++h)
          for (int64_t d = 0; d < args.head_dim; ++d) {
            const int64_t merged =
                (((b * args.length + t) * args.parts + p) * args.heads + h) * args.head_dim + d;
            const int64_t part = ((b * args.heads + h) * args.length + t) * args.head_dim + d;
            const Array whole(args.merged, args.dtype), piece(args.part[p], args.dtype);
            if (split)
              piece.put(part, whole[merged], args.accumulate);
            else
              whole.put(merged, piece[part], args.accumulate);
          }
}
}  // namespace

void ReferenceBackend::split_heads(const HeadsArgs& args) {
  move_heads(args, true);
}
void ReferenceBackend::merge_heads(const HeadsArgs& args) {
  move_heads(args, false);
}

void ReferenceBackend::unary(const UnaryArgs& args) {
  const ConstArray x(args.x, args.dtype);
  const Array y(args.y, args.dtype);
  for (int64_t i = 0; i < args.n; ++i) y.put(i, unary_value(args.op, x[i]));
}

void ReferenceBackend::unary_backward(const UnaryBackwardArgs& args) {
  const ConstArray x(args.x, args.dtype), y(args.y, args.dtype), dy(args.dy, args.dtype);
  const Array dx(args.dx, args.dtype);
  for (int64_t i = 0; i < args.n; ++i) {
    double derivative;
    switch (args.op) {  // these three are given by the output
      case Unary::exp:
        derivative = y[i];
        break;
      case Unary::tanh:
        derivative = 1.0 - y[i] * y[i];
        break;
      case Unary::sigmoid:
        derivative = y[i] * (1.0 - y[i]);
        break;
      default:
        derivative = unary_derivative(args.op, x[i]);
    }
    dx.put(i, derivative * dy[i], args.accumulate);
  }
}

void ReferenceBackend::activation_backward(const ActivationBackwardArgs& args) {
  const ConstArray pre(args.pre_activation, args.dtype), dy(args.dy, args.dtype);
  const Array dx(args.dx, args.dtype), dbias(args.dbias, args.dtype);
  for (int64_t c = 0; c < args.columns; ++c) {
    double total = 0;
    for (int64_t r = 0; r < args.rows; ++r) {
      const int64_t i = r * args.columns + c;
      double value = dy[i];
      if (args.activation != Activation::none)
        value *= activation_derivative(args.activation, pre[i]);
      if (dx) dx.put(i, value);
      total += value;
    }
    if (dbias) dbias.put(c, total, args.accumulate_dbias);
  }
}

void ReferenceBackend::affine(const AffineArgs& args) {
  const ConstArray x(args.x, args.dtype);
  const Array y(args.y, args.dtype);
  for (int64_t i = 0; i < args.n; ++i) y.put(i, args.alpha * x[i] + args.beta, args.accumulate);
}

void ReferenceBackend::binary(const BinaryArgs& args) {
  const ConstArray a(args.a, args.dtype), b(args.b, args.dtype);
  const Array out(args.out, args.dtype);
  for (int64_t i = 0; i < args.n; ++i) {
    const double left = a[i], right = b[i % args.period];
    const double value = args.op == Binary::add   ? left + right
                         : args.op == Binary::sub ? left - right
                                                  : left * right;
    out.put(i, value, args.accumulate);
  }
}

void ReferenceBackend::scale_rows(const ScaleRowsArgs& args) {
  const ConstArray x(args.x, args.dtype), scale(args.scale, args.dtype);
  const Array out(args.out, args.dtype);
  for (int64_t r = 0; r < args.rows; ++r)
    for (int64_t c = 0; c < args.columns; ++c)
      out.put(r * args.columns + c, x[r * args.columns + c] * scale[r], args.accumulate);
}

void ReferenceBackend::reduce(const ReduceArgs& args) {
  const ConstArray x(args.x, args.dtype), weight(args.weight, args.dtype);
  const Array out(args.out, args.dtype);
  for (int64_t o = 0; o < args.outer; ++o)
    for (int64_t i = 0; i < args.inner; ++i) {
      double total = 0;
      for (int64_t n = 0; n < args.reduced; ++n) {
        const int64_t at = (o * args.reduced + n) * args.inner + i;
        total += weight ? x[at] * weight[at] : x[at];
      }
      out.put(o * args.inner + i, args.alpha * total, args.accumulate);
    }
}

void ReferenceBackend::expand(const ExpandArgs& args) {
  const ConstArray x(args.x, args.dtype);
  const Array out(args.out, args.dtype);
  for (int64_t o = 0; o < args.outer; ++o)
    for (int64_t n = 0; n < args.repeat; ++n)
      for (int64_t i = 0; i < args.inner; ++i)
        out.put((o * args.repeat + n) * args.inner + i, args.alpha * x[o * args.inner + i],
                args.accumulate);
}

void ReferenceBackend::softmax(const SoftmaxArgs& args) {
  const ConstArray x(args.x, args.dtype);
  const Array y(args.y, args.dtype);
  for (int64_t r = 0; r < args.rows; ++r) {
    const int64_t base = r * args.columns;
    double largest = -INFINITY, total = 0;
    for (int64_t c = 0; c < args.columns; ++c) largest = std::max(largest, x[base + c]);
    for (int64_t c = 0; c < args.columns; ++c) total += std::exp(x[base + c] - largest);
    for (int64_t c = 0; c < args.columns; ++c) {
      const double shifted = x[base + c] - largest;
      y.put(base + c, args.log ? shifted - std::log(total) : std::exp(shifted) / total);
    }
  }
}

void ReferenceBackend::softmax_backward(const SoftmaxBackwardArgs& args) {
  const ConstArray y(args.y, args.dtype), dy(args.dy, args.dtype);
  const Array dx(args.dx, args.dtype);
  for (int64_t r = 0; r < args.rows; ++r) {
    const int64_t base = r * args.columns;
    double total = 0;
    for (int64_t c = 0; c < args.columns; ++c)
      total += args.log ? dy[base + c] : dy[base + c] * y[base + c];
    for (int64_t c = 0; c < args.columns; ++c) {
      const double value = args.log ? dy[base + c] - std::exp(y[base + c]) * total
                                    : y[base + c] * (dy[base + c] - total);
      dx.put(base + c, value, args.accumulate);
    }
  }
}

void ReferenceBackend::permute(const PermuteArgs& args) {
  const ConstArray x(args.x, args.dtype);
  const Array out(args.out, args.dtype);
  const int rank = args.shape.rank();
  for (int64_t i = 0; i < args.shape.elements(); ++i) {
    int64_t coordinate[Shape::kMaxRank] = {};
    int64_t rest = i;
    for (int axis = rank - 1; axis >= 0; --axis) {
      coordinate[axis] = rest % args.shape[axis];
      rest /= args.shape[axis];
    }
    int64_t target = 0;
    for (int axis = 0; axis < rank; ++axis)
      target = target * args.shape[args.perm[axis]] + coordinate[args.perm[axis]];
    out.put(target, x[i], args.accumulate);
  }
}

void ReferenceBackend::copy_chunks(const CopyChunksArgs& args) {
  const ConstArray x(args.x, args.dtype);
  const Array out(args.out, args.dtype);
  for (int64_t o = 0; o < args.outer; ++o)
    for (int64_t j = 0; j < args.chunk; ++j)
      out.put(o * args.out_stride + args.out_offset + j, x[o * args.x_stride + args.x_offset + j],
              args.accumulate);
}

void ReferenceBackend::gather(const GatherArgs& args) {
  const ConstArray x(args.x, args.dtype);
  const Array out(args.out, args.dtype);
  for (int64_t n = 0; n < args.outer; ++n) {
    const int64_t batch = n / (args.outer / args.index_batches);
    for (int64_t i = 0; i < args.rows; ++i)
      for (int64_t j = 0; j < args.columns; ++j) {
        const int32_t from = args.index[(batch * args.rows + i) * args.columns + j];
        out.put((n * args.rows + i) * args.columns + j,
                from < 0 ? 0.0 : x[(n * args.rows + i) * args.source + from]);
      }
  }
}

void ReferenceBackend::gather_backward(const GatherBackwardArgs& args) {
  const ConstArray dy(args.dy, args.dtype);
  const Array dx(args.dx, args.dtype);
  for (int64_t n = 0; n < args.outer; ++n) {
    const int64_t batch = n / (args.outer / args.index_batches);
    for (int64_t i = 0; i < args.rows; ++i)
      for (int64_t s = 0; s < args.source; ++s) {
        double total = 0;
        for (int64_t j = 0; j < args.columns; ++j)
          if (args.index[(batch * args.rows + i) * args.columns + j] == s)
            total += dy[(n * args.rows + i) * args.columns + j];
        dx.put((n * args.rows + i) * args.source + s, total, args.accumulate);
      }
  }
}

void ReferenceBackend::dropout(const DropoutArgs& args) {
  const ConstArray x(args.x, args.dtype);
  const Array y(args.y, args.dtype);
  for (int64_t i = 0; i < args.n; ++i)
    y.put(i, x[i] * dropout_factor(args.dropout, i), args.accumulate);
}

void ReferenceBackend::norm(const NormArgs& args) {
  const ConstArray x(args.x, args.dtype), residual(args.residual, args.dtype);
  const ConstArray gain(args.gain, args.dtype), bias(args.bias, args.dtype);
  const Array sum(args.sum, args.dtype), y(args.y, args.dtype), mean(args.mean, args.dtype);
  const Array inverse_deviation(args.inverse_deviation, args.dtype);
  std::vector<double> s(size_t(args.columns));
  for (int64_t r = 0; r < args.rows; ++r) {
    const int64_t base = r * args.columns;
    double total = 0;
    for (int64_t c = 0; c < args.columns; ++c) {
      double value = x[base + c];
      if (residual) value += residual[base + c] * dropout_factor(args.dropout, base + c);
      if (sum) {
        sum.put(base + c, value);
        value = sum[base + c];  // backward sees the rounded sum
      }
      s[size_t(c)] = value;
      total += value;
    }
    const double center = args.rms ? 0.0 : total / double(args.columns);
    double squares = 0;
    for (const double value : s) squares += (value - center) * (value - center);
    const double inverse = 1.0 / std::sqrt(squares / double(args.columns) + args.epsilon);
    if (!args.rms) mean.put(r, center);
    inverse_deviation.put(r, inverse);
    for (int64_t c = 0; c < args.columns; ++c) {
      const double normalised = (s[size_t(c)] - center) * inverse;
      y.put(base + c, normalised * (gain ? gain[c] : 1.0) + (bias ? bias[c] : 0.0));
    }
  }
}

void ReferenceBackend::norm_backward(const NormBackwardArgs& args) {
  const ConstArray sum(args.sum, args.dtype), gain(args.gain, args.dtype);
  const ConstArray mean(args.mean, args.dtype), inverse(args.inverse_deviation, args.dtype);
  const ConstArray dy(args.dy, args.dtype), dsum(args.dsum, args.dtype);
  const Array dx(args.dx, args.dtype), dresidual(args.dresidual, args.dtype);
  const Array dgain(args.dgain, args.dtype), dbias(args.dbias, args.dtype);
  const auto normalised = [&](int64_t r, int64_t c) {
    return (sum[r * args.columns + c] - (args.rms ? 0.0 : mean[r])) * inverse[r];
  };
  for (int64_t r = 0; r < args.rows; ++r) {
    const int64_t base = r * args.columns;
    double total = 0, product = 0;
    for (int64_t c = 0; c < args.columns; ++c) {
      const double a = dy[base + c] * (gain ? gain[c] : 1.0);
      total += a;
      product += a * normalised(r, c);
    }
    total = args.rms ? 0.0 : total / double(args.columns);
    product /= double(args.columns);
    for (int64_t c = 0; c < args.columns; ++c) {
      const double a = dy[base + c] * (gain ? gain[c] : 1.0);
      const double ds =
          inverse[r] * (a - total - normalised(r, c) * product) + (dsum ? dsum[base + c] : 0.0);
      if (dx) dx.put(base + c, ds, args.accumulate_dx);
      if (dresidual)
        dresidual.put(base + c, ds * dropout_factor(args.dropout, base + c),
                      args.accumulate_dresidual);
    }
  }
  for (int64_t c = 0; c < args.columns; ++c) {
    double gain_total = 0, bias_total = 0;
    for (int64_t r = 0; r < args.rows; ++r) {
      gain_total += dy[r * args.columns + c] * normalised(r, c);
      bias_total += dy[r * args.columns + c];
    }
    if (dgain) dgain.put(c, gain_total, args.accumulate_dgain);
    if (dbias) dbias.put(c, bias_total, args.accumulate_dbias);
  }
}

void ReferenceBackend::embedding(const EmbeddingArgs& args) {
  const ConstArray table(args.table, args.dtype);
  const Array out(args.out, args.dtype);
  for (int64_t r = 0; r < args.count; ++r)
    for (int64_t c = 0; c < args.columns; ++c)
      out.put(r * args.columns + c, args.scale * table[args.ids[r] * args.columns + c]);
}

void ReferenceBackend::embedding_backward(const EmbeddingBackwardArgs& args) {
  const ConstArray dout(args.dout, args.dtype);
  const Array dtable(args.dtable, args.dtype);
  for (int64_t v = 0; v < args.rows; ++v)
    for (int64_t c = 0; c < args.columns; ++c) {
      double total = 0;
      for (int64_t r = 0; r < args.count; ++r)
        if (args.ids[r] == v) total += dout[r * args.columns + c];
      dtable.put(v * args.columns + c, args.scale * total, args.accumulate);
    }
}

void ReferenceBackend::rotate(const RotateArgs& args) {
  const ConstArray x(args.x, args.dtype), cosine(args.cosine, args.dtype);
  const ConstArray sine(args.sine, args.dtype);
  const Array y(args.y, args.dtype);
  const int64_t pairs = args.width / 2;
  for (int64_t b = 0; b < args.batch; ++b)
    for (int64_t h = 0; h < args.heads; ++h)
      for (int64_t t = 0; t < args.length; ++t) {
        const int64_t base = ((b * args.heads + h) * args.length + t) * args.head_dim;
        const int64_t angles = ((args.angle_batches == 1 ? 0 : b) * args.length + t) * pairs;
        for (int64_t p = 0; p < pairs; ++p) {
          const int64_t lane_a = base + (args.half ? p : 2 * p);
          const int64_t lane_b = base + (args.half ? p + pairs : 2 * p + 1);
          const double c = cosine[angles + p];
          const double s = args.inverse ? -sine[angles + p] : sine[angles + p];
          y.put(lane_a, x[lane_a] * c - x[lane_b] * s, args.accumulate);
          y.put(lane_b, x[lane_b] * c + x[lane_a] * s, args.accumulate);
        }
        for (int64_t d = args.width; d < args.head_dim; ++d)
          y.put(base + d, x[base + d], args.accumulate);
      }
}

void ReferenceBackend::argmax(const ArgmaxArgs& args) {
  const ConstArray x(args.x, args.dtype);
  for (int64_t r = 0; r < args.rows; ++r) {
    int64_t best = 0;
    for (int64_t c = 1; c < args.columns; ++c)
      if (x[r * args.columns + c] > x[r * args.columns + best]) best = c;
    args.out[r] = int32_t(best);
  }
}

}  // namespace longshot::testing
