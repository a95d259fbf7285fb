// Layer norm (Ba et al. 2016) and RMS norm (Zhang and Sennrich 2019), alone or behind a residual
// sum:
//
//   s = x + dropout(residual)                                  (..., d)
//   layer norm  y = g (s - mean s) / sqrt(var s + e) + b       biased variance, e inside the root
//   RMS norm    y = g s / sqrt(mean s^2 + e) + b

#include "core/ops/common.h"

namespace longshot::ops {
namespace {

class NormNode final : public Node {
 public:
  NormNode(Context& context, const NormArgs& forward, const Tensor& sum, const Tensor& normed,
           const Tensor& x, const Tensor& residual, const Tensor& gain, const Tensor& bias,
           const Tensor& mean, const Tensor& inverse_deviation)
      : context_(context),
        rms_(forward.rms),
        dropout_(forward.dropout),
        rows_(forward.rows),
        columns_(forward.columns),
        sum_(sum),
        gain_(gain),
        mean_(mean),
        inverse_deviation_(inverse_deviation),
        dnormed_(normed),
        dx_(x),
        dresidual_(residual),
        dgain_(gain),
        dbias_(bias) {
    // Without a residual the sum is x itself, whose own gradient is no business of this node's.
    if (residual.defined()) dsum_ = Gradient(sum);
  }
  const char* name() const override { return "norm"; }
  bool reached() const override { return dnormed_.present() || dsum_.present(); }

  // With h = (s - mean s) r, r = 1 / sqrt(var s + e), y = g h + b and a = g dy:
  //   dg = sum over rows of dy h,   db = sum over rows of dy
  //   ds = r (a - mean a - h mean(a h)) + the gradient that reached s directly
  // since dh_i/ds_j = r (1[i = j] - 1/d - h_i h_j / d). RMS norm has no mean: ds = r (a - h mean(a
  // h)).
  //   dx = ds,  dresidual = dropout(ds)
  void backward() override {
    if (!dnormed_.present()) {
      backward_sum_only();
      return;
    }
    NormBackwardArgs args;
    args.dtype = sum_.dtype();
    args.rows = rows_, args.columns = columns_;
    args.rms = rms_;
    args.sum = sum_.data();
    args.gain = gain_.defined() ? gain_.data() : nullptr;
    args.mean = mean_.data();
    args.inverse_deviation = inverse_deviation_.data();
    args.dy = dnormed_.data();
    args.dsum = dsum_.present() ? dsum_.data() : nullptr;
    args.dropout = dropout_;

    Gradient* gradients[4] = {&dx_, &dresidual_, &dgain_, &dbias_};
    void** targets[4] = {&args.dx, &args.dresidual, &args.dgain, &args.dbias};
    bool* accumulate[4] = {&args.accumulate_dx, &args.accumulate_dresidual, &args.accumulate_dgain,
                           &args.accumulate_dbias};
    bool repeated = false;
    for (int i = 0; i < 4; ++i) {
      if (!gradients[i]->wanted()) continue;
      const Gradient::Target target = gradients[i]->target();
      *targets[i] = target.data;
      *accumulate[i] = target.accumulate;
      for (int j = 0; j < i; ++j) repeated = repeated || *targets[j] == target.data;
    }
    if (!repeated) {
      context_.backend().norm_backward(args);
      return;
    }
    // One tensor in two roles, such as norm(x, g, g): kernels write distinct outputs, so one at a
    // time.
    for (int i = 0; i < 4; ++i) {
      if (*targets[i] == nullptr) continue;
      NormBackwardArgs single = args;
      if (i != 0) single.dx = nullptr;
      if (i != 1) single.dresidual = nullptr;
      if (i != 2) single.dgain = nullptr;
      if (i != 3) single.dbias = nullptr;
      context_.backend().norm_backward(single);
    }
  }

 private:
  void backward_sum_only() {
    Backend& backend = context_.backend();
    const DType dtype = sum_.dtype();
    if (dx_.wanted()) contribute(backend, dtype, rows_ * columns_, dsum_.data(), dx_.target());
    if (!dresidual_.wanted()) return;
    const Gradient::Target target = dresidual_.target();
    DropoutArgs args;
    args.dtype = dtype;
    args.n = rows_ * columns_;
    args.x = dsum_.data();
    args.y = target.data;
    args.dropout = dropout_;
    args.accumulate = target.accumulate;
    backend.dropout(args);
  }

  Context& context_;
  bool rms_;
  DropoutSpec dropout_;
  int64_t rows_, columns_;
  Tensor sum_, gain_, mean_, inverse_deviation_;
  Gradient dsum_, dnormed_;
  Gradient dx_, dresidual_, dgain_, dbias_;
};

AddNormResult add_norm(const char* operation, const Tensor& x, const Tensor& residual,
                       const Tensor& gain, const Tensor& bias, const DropoutSpec& dropout,
                       const NormOptions& options) {
  Context& context = check_operands(operation, {&x}, {&residual, &gain, &bias});
  const Shape& shape = x.shape();
  LONGSHOT_CHECK(shape.rank() >= 1, "{}: {} has no last axis to normalise", operation,
                 shape.to_string());
  LONGSHOT_CHECK(!residual.defined() || residual.shape() == shape, "{}: {} and residual {} differ",
                 operation, shape.to_string(), residual.shape().to_string());
  for (const Tensor* vector : {&gain, &bias})
    LONGSHOT_CHECK(!vector->defined() || vector->shape() == Shape({shape[-1]}),
                   "{}: {} and gain or bias {}: it must be ({})", operation, shape.to_string(),
                   vector->shape().to_string(), shape[-1]);
  LONGSHOT_CHECK(options.epsilon > 0, "{}: epsilon must be positive, got {}", operation,
                 options.epsilon);

  AddNormResult result;
  result.sum = residual.defined() ? make_result(context, operation, shape) : x;
  result.normed = make_result(context, operation, shape);
  const int64_t rows = shape.rows();
  const Tensor mean = make_result(context, operation, {rows});
  const Tensor inverse_deviation = make_result(context, operation, {rows});

  NormArgs args;
  args.dtype = context.dtype();
  args.rows = rows, args.columns = shape[-1];
  args.rms = options.rms;
  args.epsilon = options.epsilon;
  args.x = x.data();
  if (residual.defined()) {
    args.residual = residual.data();
    args.sum = result.sum.data();
    args.dropout = check_dropout(operation, context, dropout);
  }
  args.gain = gain.defined() ? gain.data() : nullptr;
  args.bias = bias.defined() ? bias.data() : nullptr;
  args.y = result.normed.data();
  args.mean = mean.data();
  args.inverse_deviation = inverse_deviation.data();
  context.backend().norm(args);

  if (wants_gradient(context, {&x, &residual, &gain, &bias})) {
    result.normed.set_requires_gradient(true);
    // The sum depends on x and the residual alone; it takes part only if one of them wants a
    // gradient.
    if (residual.defined() && wants_gradient(context, {&x, &residual}))
      result.sum.set_requires_gradient(true);
    context.tape().record<NormNode>(context, args, result.sum, result.normed, x, residual, gain,
                                    bias, mean, inverse_deviation);
  }
  return result;
}

}  // namespace

Tensor norm(const Tensor& x, const Tensor& gain, const Tensor& bias, const NormOptions& options) {
  return add_norm("norm", x, Tensor(), gain, bias, {}, options).normed;
}

AddNormResult add_norm(const Tensor& x, const Tensor& residual, const Tensor& gain,
                       const Tensor& bias, const DropoutSpec& dropout, const NormOptions& options) {
  LONGSHOT_CHECK(residual.defined(), "add_norm: operand 2 is undefined");
  return add_norm("add_norm", x, residual, gain, bias, dropout, options);
}

}  // namespace longshot::ops
