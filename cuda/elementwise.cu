// One value an element: unary functions and their gradients, y = alpha x + beta, binary operations
// with a repeated right side, row scaling, repetition, and the gradient of bias + activation.
#include "cuda/device.cuh"

namespace longshot::cuda {
namespace {

__device__ float apply(Unary op, float x) {
  switch (op) {
    case Unary::relu:
      return activate(Activation::relu, x);
    case Unary::gelu:
      return activate(Activation::gelu, x);
    case Unary::gelu_tanh:
      return activate(Activation::gelu_tanh, x);
    case Unary::exp:
      return expf(x);
    case Unary::log:
      return logf(x);
    case Unary::tanh:
      return tanhf(x);
    case Unary::sigmoid:
      return 1.0f / (1.0f + expf(-x));
    case Unary::square:
      return x * x;
  }
  return x;
}
// dy/dx from the input x and the output y.
__device__ float slope(Unary op, float x, float y) {
  switch (op) {
    case Unary::relu:
      return activate_slope(Activation::relu, x);
    case Unary::gelu:
      return activate_slope(Activation::gelu, x);
    case Unary::gelu_tanh:
      return activate_slope(Activation::gelu_tanh, x);
    case Unary::exp:
      return y;
    case Unary::log:
      return 1.0f / x;
    case Unary::tanh:
      return 1.0f - y * y;
    case Unary::sigmoid:
      return y * (1.0f - y);
    case Unary::square:
      return 2.0f * x;
  }
  return 0.0f;
}

struct UnaryMap {
  Unary op;
  const float* x;
  float* y;
  __device__ void operator()(int64_t i) const { y[i] = apply(op, x[i]); }
};
struct UnaryBackwardMap {
  Unary op;
  bool accumulate;
  const float *x, *y, *dy;
  float* dx;
  __device__ void operator()(int64_t i) const {
    const bool by_output = op == Unary::exp || op == Unary::tanh || op == Unary::sigmoid;
    const float at_x = by_output ? 0.0f : x[i], at_y = by_output ? y[i] : 0.0f;
    put(dx, i, dy[i] * slope(op, at_x, at_y), accumulate);
  }
};
struct ActivationBackwardMap {
  Activation activation;
  int64_t columns;
  const float *pre, *dy;
  float* dx;
  __device__ float at(int64_t i) const {
    float value = dy[i];
    if (activation != Activation::none) value *= activate_slope(activation, pre[i]);
    if (dx) dx[i] = value;
    return value;
  }
  __device__ void operator()(int64_t i) const { at(i); }
  __device__ void operator()(int64_t row, int64_t column, float* values) const {
    values[0] = at(row * columns + column);
  }
};
struct AffineMap {
  const float* x;
  float* y;
  float alpha, beta;
  bool accumulate;
  __device__ void operator()(int64_t i) const { put(y, i, alpha * x[i] + beta, accumulate); }
};
struct BinaryMap {
  Binary op;
  bool accumulate;
  int64_t period;
  const float *a, *b;
  float* out;
  __device__ void operator()(int64_t i) const {
    const float left = a[i], right = b[i - divide(i, period) * period];
    const float value = op == Binary::add   ? left + right
                        : op == Binary::sub ? left - right
                                            : left * right;
    put(out, i, value, accumulate);
  }
};
struct ScaleRowsMap {
  int64_t columns;
  const float *x, *scale;
  float* out;
  bool accumulate;
  __device__ void operator()(int64_t i) const {
    put(out, i, x[i] * scale[divide(i, columns)], accumulate);
  }
};
struct ExpandMap {
  int64_t repeat, inner;
  const float* x;
  float* out;
  float alpha;
  bool accumulate;
  __device__ void operator()(int64_t i) const {
    const int64_t line = divide(i, inner), o = divide(line, repeat);
    put(out, i, alpha * x[o * inner + (i - line * inner)], accumulate);
  }
};
struct DropoutMap {
  DropoutSpec spec;
  const float* x;
  float* y;
  bool accumulate;
  __device__ void operator()(int64_t i) const {
    put(y, i, x[i] * DropoutDraw(spec).factor(i), accumulate);
  }
};

}  // namespace

void unary(const Context& context, const UnaryArgs& args) {
  map(context, "unary", args.n, UnaryMap{args.op, f32(args.x), f32(args.y)});
}

void unary_backward(const Context& context, const UnaryBackwardArgs& args) {
  map(context, "unary_backward", args.n,
      UnaryBackwardMap{args.op, args.accumulate, f32(args.x), f32(args.y), f32(args.dy),
                       f32(args.dx)});
}

void activation_backward(const Context& context, const ActivationBackwardArgs& args) {
  const ActivationBackwardMap f{args.activation, args.columns, f32(args.pre_activation),
                                f32(args.dy), f32(args.dx)};
  if (args.dbias) {
    column_sums<1>(context, "activation_backward", args.rows, args.columns,
                   {{f32(args.dbias)}, {args.accumulate_dbias}}, f);
  } else if (args.dx) {
    map(context, "activation_backward", args.rows * args.columns, f);
  }
}

void affine(const Context& context, const AffineArgs& args) {
  map(context, "affine", args.n,
      AffineMap{f32(args.x), f32(args.y), float(args.alpha), float(args.beta), args.accumulate});
}

void binary(const Context& context, const BinaryArgs& args) {
  map(context, "binary", args.n,
      BinaryMap{args.op, args.accumulate, args.period, f32(args.a), f32(args.b), f32(args.out)});
}

void scale_rows(const Context& context, const ScaleRowsArgs& args) {
  map(context, "scale_rows", args.rows * args.columns,
      ScaleRowsMap{args.columns, f32(args.x), f32(args.scale), f32(args.out), args.accumulate});
}

void expand(const Context& context, const ExpandArgs& args) {
  map(context, "expand", args.outer * args.repeat * args.inner,
      ExpandMap{args.repeat, args.inner, f32(args.x), f32(args.out), float(args.alpha),
                args.accumulate});
}

void dropout(const Context& context, const DropoutArgs& args) {
  map(context, "dropout", args.n,
      DropoutMap{args.dropout, f32(args.x), f32(args.y), args.accumulate});
}

}  // namespace longshot::cuda
