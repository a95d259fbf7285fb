// Sum, difference and product, element by element. b has a's shape or is a suffix of it: b is then
// repeated along a's leading axes, (B, T, d) + (d), a scalar along all of them.

#include "core/ops/common.h"

namespace longshot::ops {
namespace {

struct BinarySizes {
  int64_t repeats = 1;  // how often b is repeated
  int64_t period = 0;   // elements of b
  int64_t n() const { return repeats * period; }
};

class SumNode final : public ResultNode {
 public:
  SumNode(Context& context, const Tensor& result, const Tensor& a, const Tensor& b,
          const BinarySizes& sizes, double sign)
      : ResultNode(context, result), da_(a), db_(b), sizes_(sizes), sign_(sign) {}
  const char* name() const override { return sign_ > 0 ? "add" : "sub"; }

  // y[r, i] = a[r, i] +- b[i]:  da = dy,  db[i] = +- sum over r of dy[r, i]
  void backward() override {
    if (da_.wanted()) contribute(backend(), dtype_, sizes_.n(), result_.data(), da_.target());
    if (!db_.wanted()) return;
    const Gradient::Target target = db_.target();
    if (sizes_.repeats == 1) {
      contribute(backend(), dtype_, sizes_.n(), result_.data(), target, sign_);
      return;
    }
    ReduceArgs args;
    args.dtype = dtype_;
    args.outer = 1, args.reduced = sizes_.repeats, args.inner = sizes_.period;
    args.x = result_.data();
    args.out = target.data;
    args.alpha = sign_;
    args.accumulate = target.accumulate;
    backend().reduce(args);
  }

 private:
  Gradient da_, db_;
  BinarySizes sizes_;
  double sign_;
};

class ProductNode final : public ResultNode {
 public:
  ProductNode(Context& context, const Tensor& result, const Tensor& a, const Tensor& b,
              const BinarySizes& sizes)
      : ResultNode(context, result),
        a_(keep_if(b.requires_gradient(), a)),
        b_(keep_if(a.requires_gradient(), b)),
        da_(a),
        db_(b),
        sizes_(sizes) {}
  const char* name() const override { return "mul"; }

  // y[r, i] = a[r, i] b[i]:  da[r, i] = dy[r, i] b[i],  db[i] = sum over r of dy[r, i] a[r, i]
  void backward() override {
    if (da_.wanted()) multiply(b_, da_.target());
    if (!db_.wanted()) return;
    const Gradient::Target target = db_.target();
    if (sizes_.repeats == 1) {
      multiply(a_, target);
      return;
    }
    ReduceArgs args;
    args.dtype = dtype_;
    args.outer = 1, args.reduced = sizes_.repeats, args.inner = sizes_.period;
    args.x = result_.data();
    args.weight = a_.data();
    args.out = target.data;
    args.accumulate = target.accumulate;
    backend().reduce(args);
  }

 private:
  void multiply(const Tensor& factor, const Gradient::Target& target) {
    BinaryArgs args;
    args.dtype = dtype_;
    args.op = Binary::mul;
    args.n = sizes_.n(), args.period = sizes_.period;
    args.a = result_.data();
    args.b = factor.data();
    args.out = target.data;
    args.accumulate = target.accumulate;
    backend().binary(args);
  }

  Tensor a_, b_;
  Gradient da_, db_;
  BinarySizes sizes_;
};

Tensor binary(const char* operation, Binary op, const Tensor& a, const Tensor& b) {
  Context& context = check_operands(operation, {&a, &b});
  LONGSHOT_CHECK(is_suffix(a.shape(), b.shape()),
                 "{}: {} and {}: the second must have the first's shape or be a suffix of it",
                 operation, a.shape().to_string(), b.shape().to_string());
  const BinarySizes sizes{a.shape().product(0, a.shape().rank() - b.shape().rank()), b.elements()};
  Tensor result = make_result(context, operation, a.shape());
  BinaryArgs args;
  args.dtype = result.dtype();
  args.op = op;
  args.n = sizes.n(), args.period = sizes.period;
  args.a = a.data();
  args.b = b.data();
  args.out = result.data();
  context.backend().binary(args);
  if (wants_gradient(context, {&a, &b})) {
    if (op == Binary::mul)
      record<ProductNode>(context, result, a, b, sizes);
    else
      record<SumNode>(context, result, a, b, sizes, op == Binary::add ? 1.0 : -1.0);
  }
  return result;
}

}  // namespace

Tensor add(const Tensor& a, const Tensor& b) {
  return binary("add", Binary::add, a, b);
}
Tensor sub(const Tensor& a, const Tensor& b) {
  return binary("sub", Binary::sub, a, b);
}
Tensor mul(const Tensor& a, const Tensor& b) {
  return binary("mul", Binary::mul, a, b);
}

}  // namespace longshot::ops
