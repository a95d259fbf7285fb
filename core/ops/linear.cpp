// Linear layer with its bias and activation in one pass: y = f(x W^T + b).
//
// x (..., in), W (out, in) as in every framework's checkpoint, b (out), y (..., out).
// `linear_heads` is the same without activation, its columns dealt out to query, key and value as
// (B, H, T, D) each.

#include "core/ops/common.h"

namespace longshot::ops {
namespace {

struct LinearSizes {
  int64_t rows = 0, inner = 0, columns = 0;
};

LinearSizes check_linear(const char* operation, const Tensor& x, const Tensor& weight,
                         const Tensor& bias) {
  const bool fits =
      x.shape().rank() >= 1 && weight.shape().rank() == 2 && weight.size(1) == x.size(-1);
  LONGSHOT_CHECK(
      fits,
      "{}: input {} and weight {}: the weight must be (out, in) with the input's last extent in",
      operation, x.shape().to_string(), weight.shape().to_string());
  LONGSHOT_CHECK(!bias.defined() || bias.shape() == Shape({weight.size(0)}),
                 "{}: weight {} and bias {}: the bias must be ({})", operation,
                 weight.shape().to_string(), bias.shape().to_string(), weight.size(0));
  return {x.shape().rows(), x.size(-1), weight.size(0)};
}

GemmArgs forward_args(const LinearSizes& sizes, const Tensor& x, const Tensor& weight,
                      const Tensor& bias, const Tensor& result) {
  GemmArgs args;
  args.dtype = result.dtype();
  args.rows = sizes.rows, args.columns = sizes.columns, args.inner = sizes.inner;
  args.a = x.data(), args.lda = sizes.inner;
  args.b = weight.data(), args.ldb = sizes.inner, args.transpose_b = true;
  args.c = result.data(), args.ldc = sizes.columns;
  args.bias = bias.defined() ? bias.data() : nullptr;
  return args;
}

// What both operations keep of their inputs, and the way back through z = x W^T + b:
//   dx = dz W,  dW = dz^T x,  db = column sums of dz
// W is read only for dx and x only for dW.
class LinearInputs {
 public:
  LinearInputs(const LinearSizes& sizes, const Tensor& x, const Tensor& weight, const Tensor& bias)
      : sizes_(sizes),
        x_(keep_if(weight.requires_gradient(), x)),
        weight_(keep_if(x.requires_gradient(), weight)),
        dx_(x),
        dweight_(weight),
        dbias_(bias) {}

  const LinearSizes& sizes() const { return sizes_; }
  bool products_wanted() const { return dx_.wanted() || dweight_.wanted(); }

  // dz = f'(z) dy into `dz` (null when f is the identity, where dz = dy) and db.
  void backward_activation(Backend& backend, DType dtype, Activation activation,
                           const void* pre_activation, const void* dy, void* dz) {
    if (dz == nullptr && !dbias_.wanted()) return;
    ActivationBackwardArgs args;
    args.dtype = dtype;
    args.activation = activation;
    args.rows = sizes_.rows, args.columns = sizes_.columns;
    args.pre_activation = pre_activation;
    args.dy = dy;
    args.dx = dz;
    if (dbias_.wanted()) {
      const Gradient::Target target = dbias_.target();
      args.dbias = target.data;
      args.accumulate_dbias = target.accumulate;
    }
    backend.activation_backward(args);
  }

  void backward_products(Backend& backend, DType dtype, const void* dz) {
    if (dx_.wanted()) {
      const Gradient::Target target = dx_.target();
      GemmArgs args;
      args.dtype = dtype;
      args.rows = sizes_.rows, args.columns = sizes_.inner, args.inner = sizes_.columns;
      args.a = dz, args.lda = sizes_.columns;
      args.b = weight_.data(), args.ldb = sizes_.inner;
      args.c = target.data, args.ldc = sizes_.inner;
      args.accumulate = target.accumulate;
      backend.gemm(args);
    }
    if (dweight_.wanted()) {
      const Gradient::Target target = dweight_.target();
      GemmArgs args;
      args.dtype = dtype;
      args.rows = sizes_.columns, args.columns = sizes_.inner, args.inner = sizes_.rows;
      args.a = dz, args.lda = sizes_.columns, args.transpose_a = true;
      args.b = x_.data(), args.ldb = sizes_.inner;
      args.c = target.data, args.ldc = sizes_.inner;
      args.accumulate = target.accumulate;
      backend.gemm(args);
    }
  }

 private:
  LinearSizes sizes_;
  Tensor x_, weight_;
  Gradient dx_, dweight_, dbias_;
};

class LinearNode final : public ResultNode {
 public:
  LinearNode(Context& context, const Tensor& result, const LinearSizes& sizes, const Tensor& x,
             const Tensor& weight, const Tensor& bias, Activation activation, const Tensor& saved)
      : ResultNode(context, result),
        inputs_(sizes, x, weight, bias),
        activation_(activation),
        saved_(saved) {}
  const char* name() const override { return "linear"; }

  void backward() override {
    const void* dy = result_.data();
    if (activation_ == Activation::none) {
      inputs_.backward_activation(backend(), dtype_, activation_, nullptr, dy, nullptr);
      inputs_.backward_products(backend(), dtype_, dy);
      return;
    }
    Tensor dz;
    if (inputs_.products_wanted())
      dz = context_.make({inputs_.sizes().rows, inputs_.sizes().columns}, dtype_, Lifetime::step,
                         "linear backward");
    void* target = dz.defined() ? dz.data() : nullptr;
    inputs_.backward_activation(backend(), dtype_, activation_, saved_.data(), dy, target);
    if (target != nullptr) inputs_.backward_products(backend(), dtype_, target);
  }

 private:
  LinearInputs inputs_;
  Activation activation_;
  Tensor
      saved_;  // z, or y for ReLU, where y > 0 says the same and is kept by the next layer anyway
};

class LinearHeadsNode final : public Node {
 public:
  LinearHeadsNode(Context& context, const LinearSizes& sizes, const Tensor& x, const Tensor& weight,
                  const Tensor& bias, const HeadsArgs& heads, const std::array<Tensor, 3>& parts)
      : context_(context),
        inputs_(sizes, x, weight, bias),
        heads_(heads),
        dparts_{Gradient(parts[0]), Gradient(parts[1]), Gradient(parts[2])} {}
  const char* name() const override { return "linear_heads"; }
  bool reached() const override {
    return dparts_[0].present() || dparts_[1].present() || dparts_[2].present();
  }

  // The parts' gradients are merged to dz (B, T, parts, H, D); the rest is a linear layer.
  void backward() override {
    Backend& backend = context_.backend();
    const LinearSizes& sizes = inputs_.sizes();
    const Tensor dz = context_.make({sizes.rows, sizes.columns}, heads_.dtype, Lifetime::step,
                                    "linear_heads backward");
    Tensor zero;  // for parts that no gradient reached
    HeadsArgs args = heads_;
    args.merged = dz.data();
    for (int i = 0; i < args.parts; ++i) {
      if (dparts_[i].present()) {
        args.part[i] = const_cast<void*>(dparts_[i].data());  // merge_heads only reads it
        continue;
      }
      if (!zero.defined()) {
        const Shape shape{sizes.rows, sizes.columns / args.parts};
        zero = context_.make(shape, args.dtype, Lifetime::step, "linear_heads backward");
        backend.fill_zero(zero.data(), static_cast<size_t>(shape.elements() * size_of(args.dtype)));
      }
      args.part[i] = zero.data();
    }
    backend.merge_heads(args);
    for (Gradient& part : dparts_) part = Gradient();  // merged: no longer needed
    inputs_.backward_activation(backend, args.dtype, Activation::none, nullptr, dz.data(), nullptr);
    inputs_.backward_products(backend, args.dtype, dz.data());
  }

 private:
  Context& context_;
  LinearInputs inputs_;
  HeadsArgs heads_;  // without pointers
  Gradient dparts_[3];
};

}  // namespace

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias, Activation activation) {
  Context& context = check_operands("linear", {&x, &weight}, {&bias});
  const LinearSizes sizes = check_linear("linear", x, weight, bias);
  Tensor result = make_result(context, "linear", with_last(x.shape(), sizes.columns));
  const bool gradient = wants_gradient(context, {&x, &weight, &bias});
  Tensor saved;
  GemmArgs args = forward_args(sizes, x, weight, bias, result);
  args.activation = activation;
  if (gradient && activation == Activation::relu) saved = result;
  if (gradient && (activation == Activation::gelu || activation == Activation::gelu_tanh)) {
    saved = make_result(context, "linear pre-activation", result.shape());
    args.pre_activation = saved.data();
  }
  context.backend().gemm(args);
  if (gradient) record<LinearNode>(context, result, sizes, x, weight, bias, activation, saved);
  return result;
}

std::array<Tensor, 3> linear_heads(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                   int parts, int64_t heads) {
  Context& context = check_operands("linear_heads", {&x, &weight}, {&bias});
  const LinearSizes sizes = check_linear("linear_heads", x, weight, bias);
  LONGSHOT_CHECK(x.shape().rank() == 3, "linear_heads: input {} must be (batch, length, width)",
                 x.shape().to_string());
  LONGSHOT_CHECK(parts >= 1 && parts <= 3, "linear_heads: {} parts, can make 1 to 3", parts);
  LONGSHOT_CHECK(heads >= 1 && sizes.columns % (parts * heads) == 0,
                 "linear_heads: weight {} does not divide into {} parts of {} heads",
                 weight.shape().to_string(), parts, heads);
  HeadsArgs args;
  args.dtype = context.dtype();
  args.batch = x.size(0), args.length = x.size(1);
  args.heads = heads, args.head_dim = sizes.columns / (parts * heads);
  args.parts = parts;
  const HeadsArgs without_pointers = args;

  const Tensor merged = make_result(context, "linear_heads", {sizes.rows, sizes.columns});
  context.backend().gemm(forward_args(sizes, x, weight, bias, merged));
  std::array<Tensor, 3> result;
  args.merged = merged.data();
  for (int i = 0; i < parts; ++i) {
    result[i] =
        make_result(context, "linear_heads", {args.batch, heads, args.length, args.head_dim});
    args.part[i] = result[i].data();
  }
  context.backend().split_heads(args);
  if (wants_gradient(context, {&x, &weight, &bias})) {
    for (int i = 0; i < parts; ++i) result[i].set_requires_gradient(true);
    context.tape().record<LinearHeadsNode>(context, sizes, x, weight, bias, without_pointers,
                                           result);
  }
  return result;
}

}  // namespace longshot::ops
