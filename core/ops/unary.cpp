// Functions of one number, applied to each element, and their derivatives:
//
//   relu       max(x, 0)                                    1 if x > 0 else 0
//   gelu       x Phi(x), Phi the normal distribution        Phi(x) + x phi(x)
//   gelu_tanh  x (1 + tanh u) / 2, u = sqrt(2 / pi) (x + 0.044715 x^3)   (Hendrycks and Gimpel
//   2016) exp, log, tanh, sigmoid, square                         y, 1 / x, 1 - y^2, y (1 - y), 2 x

#include "core/ops/common.h"

namespace longshot::ops {
namespace {

class UnaryNode final : public ResultNode {
 public:
  UnaryNode(Context& context, const Tensor& result, const Tensor& x, Unary op)
      : ResultNode(context, result), saved_(reads_result(op) ? result : x), dx_(x), op_(op) {}
  const char* name() const override { return "unary"; }

  // dx = f'(x) dy, f' written with y where that is shorter. ReLU reads y as well: y > 0 where x >
  // 0.
  static bool reads_result(Unary op) {
    return op == Unary::relu || op == Unary::exp || op == Unary::tanh || op == Unary::sigmoid;
  }
  void backward() override {
    const Gradient::Target target = dx_.target();
    UnaryBackwardArgs args;
    args.dtype = dtype_;
    args.op = op_;
    args.n = saved_.elements();
    args.x = args.y = saved_.data();
    args.dy = result_.data();
    args.dx = target.data;
    args.accumulate = target.accumulate;
    backend().unary_backward(args);
  }

 private:
  Tensor saved_;
  Gradient dx_;
  Unary op_;
};

Tensor unary(const char* operation, Unary op, const Tensor& x) {
  Context& context = check_operands(operation, {&x});
  Tensor result = make_result(context, operation, x.shape());
  UnaryArgs args;
  args.dtype = result.dtype();
  args.op = op;
  args.n = x.elements();
  args.x = x.data();
  args.y = result.data();
  context.backend().unary(args);
  if (wants_gradient(context, {&x})) record<UnaryNode>(context, result, x, op);
  return result;
}

}  // namespace

Tensor relu(const Tensor& x) {
  return unary("relu", Unary::relu, x);
}
Tensor gelu(const Tensor& x) {
  return unary("gelu", Unary::gelu, x);
}
Tensor gelu_tanh(const Tensor& x) {
  return unary("gelu_tanh", Unary::gelu_tanh, x);
}
Tensor exp(const Tensor& x) {
  return unary("exp", Unary::exp, x);
}
Tensor log(const Tensor& x) {
  return unary("log", Unary::log, x);
}
Tensor tanh(const Tensor& x) {
  return unary("tanh", Unary::tanh, x);
}
Tensor sigmoid(const Tensor& x) {
  return unary("sigmoid", Unary::sigmoid, x);
}
Tensor square(const Tensor& x) {
  return unary("square", Unary::square, x);
}

}  // namespace longshot::ops
