// Softmax cross-entropy with label smoothing e (Szegedy et al. 2016), logits (..., C), targets
// (...) i32:
//   row loss = (1 - e) (-log p_target) + (e / C) sum over c of (-log p_c),   p = softmax(logits)
//   loss = sum over counted rows / denominator
// Rows with target -1 do not count. The denominator is the number of counted rows, or a given count
// (of all micro-batches of an optimizer step); the loss is 0 when it is 0.

#include "core/ops/common.h"

namespace longshot::ops {
namespace {

class CrossEntropyNode final : public ResultNode {
 public:
  CrossEntropyNode(Context& context, const Tensor& result, const Tensor& logits,
                   const Tensor& targets, const Tensor& log_sum_exp, const Tensor& denominator,
                   double smoothing)
      : ResultNode(context, result),
        logits_(logits),
        targets_(targets),
        log_sum_exp_(log_sum_exp),
        denominator_(denominator),
        dlogits_(logits),
        smoothing_(smoothing) {}
  const char* name() const override { return "cross_entropy"; }

  // -log p_c = lse - x_c and d lse / dx_k = p_k, so for a counted row
  //   dx_k = (p_k - (1 - e) 1[k = target] - e / C) dloss / denominator
  // and 0 for the others. p is computed again from the logits and the row's log-sum-exp.
  void backward() override {
    const Gradient::Target target = dlogits_.target();
    CrossEntropyBackwardArgs args;
    args.dtype = dtype_;
    args.rows = logits_.shape().rows(), args.columns = logits_.size(-1);
    args.logits = logits_.data();
    args.targets = targets_.data_as<int32_t>();
    args.smoothing = smoothing_;
    args.log_sum_exp = log_sum_exp_.data();
    args.denominator = denominator_.data_as<double>();
    args.dloss = result_.data();
    args.dlogits = target.data;
    args.accumulate = target.accumulate;
    backend().cross_entropy_backward(args);
  }

 private:
  Tensor logits_, targets_, log_sum_exp_, denominator_;
  Gradient dlogits_;
  double smoothing_;
};

}  // namespace

LossResult cross_entropy(const Tensor& logits, const Tensor& targets, const LossOptions& options) {
  Context& context = check_operands("cross_entropy", {&logits});
  check_integers("cross_entropy", context, "targets", targets);
  const Shape& shape = logits.shape();
  LONGSHOT_CHECK(shape.rank() >= 1 && targets.shape() == without_axis(shape, shape.rank() - 1),
                 "cross_entropy: logits {} and targets {}: one target a row is needed",
                 shape.to_string(), targets.shape().to_string());
  LONGSHOT_CHECK(shape[-1] > 0 || shape.rows() == 0, "cross_entropy: logits {} have no classes",
                 shape.to_string());
  LONGSHOT_CHECK(options.smoothing >= 0 && options.smoothing < 1,
                 "cross_entropy: label smoothing must be in [0, 1), got {}", options.smoothing);
  check_indices("cross_entropy", "targets", targets, -1, shape[-1]);
  LossResult result;
  const int64_t rows = shape.rows();
  result.loss = make_result(context, "cross_entropy", Shape{});
  result.row_loss = make_result(context, "cross_entropy row loss", {rows});
  const Tensor log_sum_exp = make_result(context, "cross_entropy", {rows});
  const Tensor denominator =
      context.make({1}, DType::f64, Lifetime::step, "cross_entropy denominator");
  CrossEntropyArgs args;
  args.dtype = context.dtype();
  args.rows = rows, args.columns = shape[-1];
  args.logits = logits.data();
  args.targets = targets.data_as<int32_t>();
  args.smoothing = options.smoothing;
  args.count_override = options.count_override;
  args.log_sum_exp = log_sum_exp.data();
  args.row_loss = result.row_loss.data();
  args.loss = result.loss.data();
  args.denominator = denominator.data_as<double>();
  context.backend().cross_entropy(args);
  if (wants_gradient(context, {&logits}))
    record<CrossEntropyNode>(context, result.loss, logits, targets, log_sum_exp, denominator,
                             options.smoothing);
  return result;
}

}  // namespace longshot::ops
