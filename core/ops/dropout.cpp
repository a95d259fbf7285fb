// Dropout (Srivastava et al. 2014), inverted: y_i = x_i / (1 - p) where kept, else 0. Whether
// element i is kept is a pure function of (seed, stream, step, i), so backward draws again instead
// of storing a mask.

#include "core/ops/common.h"

namespace longshot::ops {
namespace {

class DropoutNode final : public ResultNode {
 public:
  DropoutNode(Context& context, const Tensor& result, const Tensor& x, const DropoutSpec& spec)
      : ResultNode(context, result), dx_(x), n_(x.elements()), spec_(spec) {}
  const char* name() const override { return "dropout"; }

  // y is linear in x with the kept elements' factor on the diagonal: dx = dropout(dy), same draws.
  void backward() override {
    const Gradient::Target target = dx_.target();
    DropoutArgs args;
    args.dtype = dtype_;
    args.n = n_;
    args.x = result_.data();
    args.y = target.data;
    args.dropout = spec_;
    args.accumulate = target.accumulate;
    backend().dropout(args);
  }

 private:
  Gradient dx_;
  int64_t n_;
  DropoutSpec spec_;
};

}  // namespace

Tensor dropout(const Tensor& x, const DropoutSpec& spec) {
  Context& context = check_operands("dropout", {&x});
  const DropoutSpec checked = check_dropout("dropout", context, spec);
  if (checked.p == 0) return x;
  Tensor result = make_result(context, "dropout", x.shape());
  DropoutArgs args;
  args.dtype = result.dtype();
  args.n = x.elements();
  args.x = x.data();
  args.y = result.data();
  args.dropout = checked;
  context.backend().dropout(args);
  if (wants_gradient(context, {&x})) record<DropoutNode>(context, result, x, checked);
  return result;
}

}  // namespace longshot::ops
