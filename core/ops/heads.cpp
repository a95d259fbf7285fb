// Attention heads in and out of the width: (B, T, H * D) to (B, H, T, D) and back.

#include "core/ops/common.h"

namespace longshot::ops {
namespace {

class HeadsNode final : public ResultNode {
 public:
  HeadsNode(Context& context, const Tensor& result, const Tensor& x, const HeadsArgs& sizes,
            bool split)
      : ResultNode(context, result), dx_(x), sizes_(sizes), split_(split) {}
  const char* name() const override { return split_ ? "split_heads" : "merge_heads"; }

  // A permutation: the gradient goes the other way.
  void backward() override {
    const Gradient::Target target = dx_.target();
    HeadsArgs args = sizes_;
    void* dy = const_cast<void*>(result_.data());  // only read
    args.accumulate = target.accumulate;
    if (split_) {
      args.merged = target.data, args.part[0] = dy;
      backend().merge_heads(args);
    } else {
      args.merged = dy, args.part[0] = target.data;
      backend().split_heads(args);
    }
  }

 private:
  Gradient dx_;
  HeadsArgs sizes_;  // without pointers
  bool split_;
};

}  // namespace

Tensor split_heads(const Tensor& x, int64_t heads) {
  Context& context = check_operands("split_heads", {&x});
  LONGSHOT_CHECK(x.shape().rank() == 3 && heads >= 1 && x.size(2) % heads == 0,
                 "split_heads: {} into {} heads: needs (batch, length, width), the width a "
                 "multiple of the heads",
                 x.shape().to_string(), heads);
  HeadsArgs args;
  args.dtype = context.dtype();
  args.batch = x.size(0), args.length = x.size(1), args.heads = heads;
  args.head_dim = x.size(2) / heads;
  const HeadsArgs sizes = args;
  Tensor result =
      make_result(context, "split_heads", {args.batch, heads, args.length, args.head_dim});
  args.merged = x.data();
  args.part[0] = result.data();
  context.backend().split_heads(args);
  if (wants_gradient(context, {&x})) record<HeadsNode>(context, result, x, sizes, true);
  return result;
}

Tensor merge_heads(const Tensor& x) {
  Context& context = check_operands("merge_heads", {&x});
  LONGSHOT_CHECK(x.shape().rank() == 4,
                 "merge_heads: {} must be (batch, heads, length, head width)",
                 x.shape().to_string());
  HeadsArgs args;
  args.dtype = context.dtype();
  args.batch = x.size(0), args.heads = x.size(1), args.length = x.size(2);
  args.head_dim = x.size(3);
  const HeadsArgs sizes = args;
  Tensor result =
      make_result(context, "merge_heads", {args.batch, args.length, args.heads * args.head_dim});
  args.merged = result.data();
  args.part[0] = x.data();
  context.backend().merge_heads(args);
  if (wants_gradient(context, {&x})) record<HeadsNode>(context, result, x, sizes, false);
  return result;
}

}  // namespace longshot::ops
