// Mean squared error and binary logistic loss over the counted elements of x (mask = 1, or no
// mask):
//   (x - t)^2        log(1 + exp(x)) - t x, the negative log-likelihood of t in [0, 1] under
//   sigmoid(x) loss = sum over counted elements / denominator, denominator their number or a given
//   count; 0 when it is 0.

#include "core/ops/common.h"

namespace longshot::ops {
namespace {

class PointwiseLossNode final : public ResultNode {
 public:
  PointwiseLossNode(Context& context, const Tensor& result, const Tensor& x, const Tensor& target,
                    const Tensor& mask, const Tensor& denominator, bool logistic)
      : ResultNode(context, result),
        x_(x),
        target_(target),
        mask_(mask),
        denominator_(denominator),
        dx_(x),
        logistic_(logistic) {}
  const char* name() const override { return logistic_ ? "binary_logistic" : "mean_squared_error"; }

  // dx = 2 (x - t) dloss / denominator,  or  (sigmoid(x) - t) dloss / denominator;  0 where not
  // counted
  void backward() override {
    const Gradient::Target target = dx_.target();
    PointwiseLossBackwardArgs args;
    args.dtype = dtype_;
    args.logistic = logistic_;
    args.n = x_.elements();
    args.x = x_.data();
    args.target = target_.data();
    args.mask = mask_.defined() ? mask_.data_as<int32_t>() : nullptr;
    args.denominator = denominator_.data_as<double>();
    args.dloss = result_.data();
    args.dx = target.data;
    args.accumulate = target.accumulate;
    backend().pointwise_loss_backward(args);
  }

 private:
  Tensor x_, target_, mask_, denominator_;
  Gradient dx_;
  bool logistic_;
};

Tensor pointwise_loss(const char* operation, bool logistic, const Tensor& x, const Tensor& target,
                      const Tensor& mask, const LossOptions& options) {
  Context& context = check_operands(operation, {&x, &target});
  check_no_gradient(operation, "target", target);
  LONGSHOT_CHECK(x.shape() == target.shape(), "{}: {} and target {} differ", operation,
                 x.shape().to_string(), target.shape().to_string());
  if (mask.defined()) {
    check_integers(operation, context, "mask", mask);
    LONGSHOT_CHECK(mask.shape() == x.shape(), "{}: {} and mask {} differ", operation,
                   x.shape().to_string(), mask.shape().to_string());
  }
  LONGSHOT_CHECK(options.smoothing == 0, "{}: label smoothing belongs to cross_entropy", operation);
  Tensor loss = make_result(context, operation, Shape{});
  const Tensor denominator = context.make({1}, DType::f64, Lifetime::step, operation);
  PointwiseLossArgs args;
  args.dtype = context.dtype();
  args.logistic = logistic;
  args.n = x.elements();
  args.x = x.data();
  args.target = target.data();
  args.mask = mask.defined() ? mask.data_as<int32_t>() : nullptr;
  args.count_override = options.count_override;
  args.loss = loss.data();
  args.denominator = denominator.data_as<double>();
  context.backend().pointwise_loss(args);
  if (wants_gradient(context, {&x}))
    record<PointwiseLossNode>(context, loss, x, target, mask, denominator, logistic);
  return loss;
}

}  // namespace

Tensor mean_squared_error(const Tensor& x, const Tensor& target, const Tensor& mask,
                          const LossOptions& options) {
  return pointwise_loss("mean_squared_error", false, x, target, mask, options);
}

Tensor binary_logistic(const Tensor& x, const Tensor& target, const Tensor& mask,
                       const LossOptions& options) {
  return pointwise_loss("binary_logistic", true, x, target, mask, options);
}

}  // namespace longshot::ops
