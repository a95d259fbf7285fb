// Softmax and its logarithm over the last axis:
//   p_j = exp(x_j) / sum_k exp(x_k),   log p_j = x_j - log sum_k exp(x_k)
// both with the row's maximum taken off first. argmax, which has no gradient, stands here too.

#include "core/ops/common.h"

namespace longshot::ops {
namespace {

class SoftmaxNode final : public ResultNode {
 public:
  SoftmaxNode(Context& context, const Tensor& result, const Tensor& x, bool log)
      : ResultNode(context, result), y_(result), dx_(x), log_(log) {}
  const char* name() const override { return log_ ? "log_softmax" : "softmax"; }

  // softmax:      dp_j / dx_k = p_j (1[j = k] - p_k)   so  dx = p (dy - sum_k dy_k p_k)
  // log-softmax:  dy_j / dx_k = 1[j = k] - p_k         so  dx = dy - exp(y) sum_k dy_k
  // Both need the output alone.
  void backward() override {
    const Gradient::Target target = dx_.target();
    SoftmaxBackwardArgs args;
    args.dtype = dtype_;
    args.rows = y_.shape().rows(), args.columns = y_.size(-1);
    args.log = log_;
    args.y = y_.data();
    args.dy = result_.data();
    args.dx = target.data;
    args.accumulate = target.accumulate;
    backend().softmax_backward(args);
  }

 private:
  Tensor y_;
  Gradient dx_;
  bool log_;
};

void check_rank(const char* operation, const Tensor& x) {
  LONGSHOT_CHECK(x.shape().rank() >= 1, "{}: {} has no last axis", operation,
                 x.shape().to_string());
}

Tensor softmax(const char* operation, const Tensor& x, bool log) {
  Context& context = check_operands(operation, {&x});
  check_rank(operation, x);
  Tensor result = make_result(context, operation, x.shape());
  SoftmaxArgs args;
  args.dtype = result.dtype();
  args.rows = x.shape().rows(), args.columns = x.size(-1);
  args.log = log;
  args.x = x.data();
  args.y = result.data();
  context.backend().softmax(args);
  if (wants_gradient(context, {&x})) record<SoftmaxNode>(context, result, x, log);
  return result;
}

}  // namespace

Tensor softmax(const Tensor& x) {
  return softmax("softmax", x, false);
}
Tensor log_softmax(const Tensor& x) {
  return softmax("log_softmax", x, true);
}

Tensor argmax(const Tensor& x) {
  Context& context = check_operands("argmax", {&x});
  check_rank("argmax", x);
  LONGSHOT_CHECK(x.size(-1) > 0 || x.shape().rows() == 0, "argmax: {} has empty rows",
                 x.shape().to_string());
  Tensor result = context.make(without_axis(x.shape(), x.shape().rank() - 1), DType::i32,
                               Lifetime::step, "argmax");
  ArgmaxArgs args;
  args.dtype = x.dtype();
  args.rows = x.shape().rows(), args.columns = x.size(-1);
  args.x = x.data();
  args.out = result.data_as<int32_t>();
  context.backend().argmax(args);
  return result;
}

}  // namespace longshot::ops
