// Two linear layers with an activation between them: y = f(x W_up^T + b_up) W_down^T + b_down.
//
// Where the backend takes both layers together (narrow ones on the CPU) the hidden layer exists a
// block of rows at a time and is made again in backward, so a node keeps no more than x; elsewhere
// this is two linear operations. Which of the two depends on the shape and the device alone.

#include "core/ops/common.h"

namespace longshot::ops {
namespace {

class FeedForwardNode final : public ResultNode {
 public:
  FeedForwardNode(Context& context, const Tensor& result, const FeedForwardArgs& args,
                  const Tensor& x, const Tensor& up, const Tensor& up_bias, const Tensor& down,
                  const Tensor& down_bias)
      : ResultNode(context, result),
        args_(args),
        x_(x),
        up_(up),
        up_bias_(up_bias),
        down_(down),
        dx_(x),
        dup_(up),
        dup_bias_(up_bias),
        ddown_(down),
        ddown_bias_(down_bias) {}
  const char* name() const override { return "feed_forward"; }

  void backward() override {
    FeedForwardBackwardArgs args;
    args.forward = args_;
    args.forward.y = nullptr;
    args.dy = result_.data();
    want(dx_, args.dx, args.accumulate_dx);
    want(dup_, args.dweight_up, args.accumulate_dweight_up);
    want(dup_bias_, args.dbias_up, args.accumulate_dbias_up);
    want(ddown_, args.dweight_down, args.accumulate_dweight_down);
    want(ddown_bias_, args.dbias_down, args.accumulate_dbias_down);
    backend().feed_forward_backward(args);
  }

 private:
  static void want(Gradient& gradient, void*& data, bool& accumulate) {
    if (!gradient.wanted()) return;
    const Gradient::Target target = gradient.target();
    data = target.data;
    accumulate = target.accumulate;
  }

  FeedForwardArgs args_;
  Tensor x_, up_, up_bias_, down_;  // backward makes the hidden layer again
  Gradient dx_, dup_, dup_bias_, ddown_, ddown_bias_;
};

void check_layer(const char* role, int64_t width, const Tensor& weight, const Tensor& bias) {
  LONGSHOT_CHECK(weight.shape().rank() == 2 && weight.size(1) == width,
                 "feed_forward: the {} weight is {}, must be (out, in) with in = {}", role,
                 weight.shape().to_string(), width);
  LONGSHOT_CHECK(!bias.defined() || bias.shape() == Shape({weight.size(0)}),
                 "feed_forward: the {} weight is {} and its bias {}, must be ({})", role,
                 weight.shape().to_string(), bias.shape().to_string(), weight.size(0));
}

}  // namespace

Tensor feed_forward(const Tensor& x, const Tensor& up, const Tensor& up_bias, const Tensor& down,
                    const Tensor& down_bias, Activation activation) {
  Context& context = check_operands("feed_forward", {&x, &up, &down}, {&up_bias, &down_bias});
  LONGSHOT_CHECK(x.shape().rank() >= 1, "feed_forward: the input {} has no rows",
                 x.shape().to_string());
  check_layer("up", x.size(-1), up, up_bias);
  check_layer("down", up.size(0), down, down_bias);

  FeedForwardArgs args;
  args.dtype = context.dtype();
  args.rows = x.shape().rows();
  args.inner = x.size(-1), args.hidden = up.size(0), args.columns = down.size(0);
  args.activation = activation;
  if (!context.backend().fuses_feed_forward(args))
    return linear(linear(x, up, up_bias, activation), down, down_bias);

  Tensor result = make_result(context, "feed_forward", with_last(x.shape(), args.columns));
  args.x = x.data();
  args.weight_up = up.data(), args.weight_down = down.data();
  args.bias_up = up_bias.defined() ? up_bias.data() : nullptr;
  args.bias_down = down_bias.defined() ? down_bias.data() : nullptr;
  args.y = result.data();
  context.backend().feed_forward(args);
  if (wants_gradient(context, {&x, &up, &up_bias, &down, &down_bias}))
    record<FeedForwardNode>(context, result, args, x, up, up_bias, down, down_bias);
  return result;
}

}  // namespace longshot::ops
