// Multiplication by constants and by one factor a row: y = alpha x + beta, y[r, c] = x[r, c] f[r].

#include "core/ops/common.h"

namespace longshot::ops {
namespace {

class AffineNode final : public ResultNode {
 public:
  AffineNode(Context& context, const Tensor& result, const Tensor& x, double alpha)
      : ResultNode(context, result), dx_(x), n_(x.elements()), alpha_(alpha) {}
  const char* name() const override { return "scale"; }

  // y = alpha x + beta:  dx = alpha dy
  void backward() override {
    contribute(backend(), dtype_, n_, result_.data(), dx_.target(), alpha_);
  }

 private:
  Gradient dx_;
  int64_t n_;
  double alpha_;
};

Tensor affine(const char* operation, const Tensor& x, double alpha, double beta) {
  Context& context = check_operands(operation, {&x});
  Tensor result = make_result(context, operation, x.shape());
  AffineArgs args;
  args.dtype = result.dtype();
  args.n = x.elements();
  args.x = x.data();
  args.y = result.data();
  args.alpha = alpha;
  args.beta = beta;
  context.backend().affine(args);
  if (wants_gradient(context, {&x})) record<AffineNode>(context, result, x, alpha);
  return result;
}

class ScaleRowsNode final : public ResultNode {
 public:
  ScaleRowsNode(Context& context, const Tensor& result, const Tensor& x, const Tensor& factor)
      : ResultNode(context, result),
        x_(keep_if(factor.requires_gradient(), x)),
        factor_(keep_if(x.requires_gradient(), factor)),
        dx_(x),
        dfactor_(factor),
        rows_(factor.elements()),
        columns_(x.size(-1)) {}
  const char* name() const override { return "scale_rows"; }

  // y[r, c] = x[r, c] f[r]:  dx[r, c] = dy[r, c] f[r],  df[r] = sum over c of dy[r, c] x[r, c]
  void backward() override {
    if (dx_.wanted()) {
      const Gradient::Target target = dx_.target();
      ScaleRowsArgs args;
      args.dtype = dtype_;
      args.rows = rows_, args.columns = columns_;
      args.x = result_.data();
      args.scale = factor_.data();
      args.out = target.data;
      args.accumulate = target.accumulate;
      backend().scale_rows(args);
    }
    if (dfactor_.wanted()) {
      const Gradient::Target target = dfactor_.target();
      ReduceArgs args;
      args.dtype = dtype_;
      args.outer = rows_, args.reduced = columns_, args.inner = 1;
      args.x = result_.data();
      args.weight = x_.data();
      args.out = target.data;
      args.accumulate = target.accumulate;
      backend().reduce(args);
    }
  }

 private:
  Tensor x_, factor_;
  Gradient dx_, dfactor_;
  int64_t rows_, columns_;
};

}  // namespace

Tensor scale(const Tensor& x, double factor) {
  return affine("scale", x, factor, 0.0);
}
Tensor add_scalar(const Tensor& x, double term) {
  return affine("add_scalar", x, 1.0, term);
}

Tensor scale_rows(const Tensor& x, const Tensor& factor) {
  Context& context = check_operands("scale_rows", {&x, &factor});
  LONGSHOT_CHECK(
      x.shape().rank() >= 1 && factor.shape() == without_axis(x.shape(), x.shape().rank() - 1),
      "scale_rows: {} and factors {}: one factor a row is needed (the shape without its last axis)",
      x.shape().to_string(), factor.shape().to_string());
  Tensor result = make_result(context, "scale_rows", x.shape());
  ScaleRowsArgs args;
  args.dtype = result.dtype();
  args.rows = factor.elements(), args.columns = x.size(-1);
  args.x = x.data();
  args.scale = factor.data();
  args.out = result.data();
  context.backend().scale_rows(args);
  if (wants_gradient(context, {&x, &factor})) record<ScaleRowsNode>(context, result, x, factor);
  return result;
}

}  // namespace longshot::ops
