// Linear layer with its bias and activation in one pass: y = f(x W^T + b).
//
// x (..., in), W (out, in) as in every framework's checkpoint, b (out), y (..., out).
// `linear_heads` is the same without activation, its columns dealt out to query, key and value as
// (B, H, T, D) each.

#include <algorithm>

#include "core/ops/common.h"

namespace longshot::ops {
namespace {

struct LinearSizes {
  int64_t rows = 0, inner = 0, columns = 0;

  // Rows worked on together where a result is used at once and then dropped. On the CPU a block of
  // it (1 MB of f32) stays in the second-level cache; a narrow layer is bound by memory otherwise
  // (docs/performance.md). Wide layers, whose weight gradient would be added up too often, and
  // devices, where every block is a launch, take all rows at once. `unit`: rows not to be parted.
  int64_t rows_together(const Backend& backend, int64_t unit = 1) const {
    constexpr int64_t kNarrow = 64 * 1024, kBlock = 256 * 1024;  // elements
    if (!backend.host_accessible() || inner * columns > kNarrow) return rows;
    unit = std::max<int64_t>(unit, 1);
    return std::min(rows,
                    std::max<int64_t>(kBlock / std::max<int64_t>(columns, 1) / unit, 1) * unit);
  }
};

// body(first, rows) for blocks of rows; once with no rows when there are none, so that gradients
// of parameters are written.
template <class Body>
void for_blocks(int64_t rows, int64_t block, const Body& body) {
  int64_t first = 0;
  do {
    body(first, std::min(block, rows - first));
    first += block;
  } while (first < rows);
}

const void* at(const void* array, int64_t element, DType dtype) {
  return static_cast<const char*>(array) + element * size_of(dtype);
}
void* at(void* array, int64_t element, DType dtype) {
  return static_cast<char*>(array) + element * size_of(dtype);
}

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

  // dz = f'(z) dy into `dz` (null when f is the identity, where dz = dy) and db, of `rows` rows:
  // all pointers are those of the first. Later blocks of rows add to db.
  void backward_activation(Backend& backend, DType dtype, int64_t rows, Activation activation,
                           const void* pre_activation, const void* dy, void* dz) {
    if (dz == nullptr && !dbias_.wanted()) return;
    ActivationBackwardArgs args;
    args.dtype = dtype;
    args.activation = activation;
    args.rows = rows, args.columns = sizes_.columns;
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

  // dx and dW from dz of rows [first, first + rows); dW is added to after the first block.
  void backward_products(Backend& backend, DType dtype, int64_t first, int64_t rows,
                         const void* dz) {
    if (dx_.wanted()) {
      if (first == 0) dx_target_ = dx_.target();
      GemmArgs args;
      args.dtype = dtype;
      args.rows = rows, args.columns = sizes_.inner, args.inner = sizes_.columns;
      args.a = dz, args.lda = sizes_.columns;
      args.b = weight_.data(), args.ldb = sizes_.inner;
      args.c = at(dx_target_.data, first * sizes_.inner, dtype), args.ldc = sizes_.inner;
      args.accumulate = dx_target_.accumulate;
      backend.gemm(args);
    }
    if (dweight_.wanted()) {
      const Gradient::Target target = dweight_.target();
      GemmArgs args;
      args.dtype = dtype;
      args.rows = sizes_.columns, args.columns = sizes_.inner, args.inner = rows;
      args.a = dz, args.lda = sizes_.columns, args.transpose_a = true;
      args.b = at(x_.data(), first * sizes_.inner, dtype), args.ldb = sizes_.inner;
      args.c = target.data, args.ldc = sizes_.inner;
      args.accumulate = target.accumulate;
      backend.gemm(args);
    }
  }

 private:
  LinearSizes sizes_;
  Tensor x_, weight_;
  Gradient dx_, dweight_, dbias_;
  Gradient::Target dx_target_;
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
      const int64_t rows = inputs_.sizes().rows;
      inputs_.backward_activation(backend(), dtype_, rows, activation_, nullptr, dy, nullptr);
      inputs_.backward_products(backend(), dtype_, 0, rows, dy);
      return;
    }
    const LinearSizes& sizes = inputs_.sizes();
    const int64_t block = sizes.rows_together(backend());
    Tensor dz;
    if (inputs_.products_wanted())
      dz = context_.make({block, sizes.columns}, dtype_, Lifetime::step, "linear backward");
    void* target = dz.defined() ? dz.data() : nullptr;
    for_blocks(sizes.rows, block, [&](int64_t first, int64_t rows) {
      const int64_t from = first * sizes.columns;
      inputs_.backward_activation(backend(), dtype_, rows, activation_,
                                  at(saved_.data(), from, dtype_), at(dy, from, dtype_), target);
      if (target != nullptr) inputs_.backward_products(backend(), dtype_, first, rows, target);
    });
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
    const DType dtype = heads_.dtype;
    const int64_t length = heads_.length;
    const int64_t block = sizes.rows_together(backend, length);
    const Tensor dz =
        context_.make({block, sizes.columns}, dtype, Lifetime::step, "linear_heads backward");
    Tensor zero;  // for parts that no gradient reached
    void* parts[3] = {};
    for (int i = 0; i < heads_.parts; ++i) {
      if (dparts_[i].present()) {
        parts[i] = const_cast<void*>(dparts_[i].data());  // merge_heads only reads it
        continue;
      }
      if (!zero.defined()) {
        const Shape shape{sizes.rows, sizes.columns / heads_.parts};
        zero = context_.make(shape, dtype, Lifetime::step, "linear_heads backward");
        backend.fill_zero(zero.data(), static_cast<size_t>(shape.elements() * size_of(dtype)));
      }
      parts[i] = zero.data();
    }
    for_blocks(sizes.rows, block, [&](int64_t first, int64_t rows) {
      HeadsArgs args = heads_;
      if (length > 0) args.batch = rows / length;
      args.merged = dz.data();
      for (int i = 0; i < args.parts; ++i)
        args.part[i] = at(parts[i], first * (sizes.columns / args.parts), dtype);
      backend.merge_heads(args);
      inputs_.backward_activation(backend, dtype, rows, Activation::none, nullptr, dz.data(),
                                  nullptr);
      inputs_.backward_products(backend, dtype, first, rows, dz.data());
    });
    for (Gradient& part : dparts_) part = Gradient();  // merged: no longer needed
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

  std::array<Tensor, 3> result;
  for (int i = 0; i < parts; ++i)
    result[i] =
        make_result(context, "linear_heads", {args.batch, heads, args.length, args.head_dim});
  const int64_t block = sizes.rows_together(context.backend(), args.length);
  const Tensor merged = make_result(context, "linear_heads", {block, sizes.columns});
  GemmArgs product = forward_args(sizes, x, weight, bias, merged);
  for_blocks(sizes.rows, block, [&](int64_t first, int64_t rows) {
    product.rows = rows;
    product.a = at(x.data(), first * sizes.inner, args.dtype);
    context.backend().gemm(product);
    if (args.length > 0) args.batch = rows / args.length;
    args.merged = merged.data();
    for (int i = 0; i < parts; ++i)
      args.part[i] = at(result[i].data(), first * (sizes.columns / parts), args.dtype);
    context.backend().split_heads(args);
  });
  if (wants_gradient(context, {&x, &weight, &bias})) {
    for (int i = 0; i < parts; ++i) result[i].set_requires_gradient(true);
    context.tape().record<LinearHeadsNode>(context, sizes, x, weight, bias, without_pointers,
                                           result);
  }
  return result;
}

}  // namespace longshot::ops
