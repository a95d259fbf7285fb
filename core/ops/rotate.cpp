// Rotation of lane pairs by given angles (Su et al. 2021, and what grew from it). For pair t <
// width / 2 with lanes (a, b) = (2t, 2t + 1) interleaved or (t, t + width / 2) half:
//   y_a = x_a cos - x_b sin,   y_b = x_b cos + x_a sin;   lanes from `width` on pass unchanged.
// x (B, H, T, D); cosine and sine (1 or B, T, width / 2). Whatever multiplies cosine and sine
// (xPos's decay, YaRN's magnitude) is part of the given numbers.

#include "core/ops/common.h"

namespace longshot::ops {
namespace {

class RotateNode final : public ResultNode {
 public:
  RotateNode(Context& context, const Tensor& result, const Tensor& x, const Tensor& cosine,
             const Tensor& sine, const RotateArgs& forward)
      : ResultNode(context, result), cosine_(cosine), sine_(sine), dx_(x), args_(forward) {}
  const char* name() const override { return "rotate"; }

  // y is linear in x with the matrix [c -s; s c] on each pair; its transpose is [c s; -s c], the
  // rotation with -sin.
  void backward() override {
    const Gradient::Target target = dx_.target();
    RotateArgs args = args_;
    args.inverse = true;
    args.x = result_.data();
    args.y = target.data;
    args.accumulate = target.accumulate;
    backend().rotate(args);
  }

 private:
  Tensor cosine_, sine_;  // keep what args_ points to
  Gradient dx_;
  RotateArgs args_;
};

}  // namespace

Tensor rotate(const Tensor& x, const Tensor& cosine, const Tensor& sine,
              const RotateOptions& options) {
  Context& context = check_operands("rotate", {&x, &cosine, &sine});
  check_no_gradient("rotate", "cosine", cosine);
  check_no_gradient("rotate", "sine", sine);
  LONGSHOT_CHECK(x.shape().rank() == 4, "rotate: {} must be (batch, heads, length, head width)",
                 x.shape().to_string());
  LONGSHOT_CHECK(options.width >= 0 && options.width % 2 == 0 && options.width <= x.size(3),
                 "rotate: {}: the rotated width must be even and at most the head width, got {}",
                 x.shape().to_string(), options.width);
  const bool fits = cosine.shape().rank() == 3 && cosine.shape() == sine.shape() &&
                    (cosine.size(0) == 1 || cosine.size(0) == x.size(0)) &&
                    cosine.size(1) == x.size(2) && cosine.size(2) == options.width / 2;
  LONGSHOT_CHECK(fits,
                 "rotate: {} by angles {} and {}: both must be (1 or batch, length, width / 2) = "
                 "(1 or {}, {}, {})",
                 x.shape().to_string(), cosine.shape().to_string(), sine.shape().to_string(),
                 x.size(0), x.size(2), options.width / 2);
  Tensor result = make_result(context, "rotate", x.shape());
  RotateArgs args;
  args.dtype = result.dtype();
  args.batch = x.size(0), args.heads = x.size(1), args.length = x.size(2);
  args.head_dim = x.size(3), args.width = options.width, args.angle_batches = cosine.size(0);
  args.half = options.half;
  args.cosine = cosine.data();
  args.sine = sine.data();
  args.x = x.data();
  args.y = result.data();
  context.backend().rotate(args);
  if (wants_gradient(context, {&x})) record<RotateNode>(context, result, x, cosine, sine, args);
  return result;
}

}  // namespace longshot::ops
