// Sums and means, over all elements or one axis, and the repetition that is their transpose:
//   y[o, i] = alpha sum over n of x[o, n, i],  alpha = 1 or 1 / count.

#include "core/ops/common.h"

namespace longshot::ops {
namespace {

struct ReduceSizes {
  int64_t outer = 1, reduced = 0, inner = 1;
};

void run_reduce(Backend& backend, DType dtype, const ReduceSizes& sizes, const void* x, void* out,
                double alpha, bool accumulate) {
  ReduceArgs args;
  args.dtype = dtype;
  args.outer = sizes.outer, args.reduced = sizes.reduced, args.inner = sizes.inner;
  args.x = x;
  args.out = out;
  args.alpha = alpha;
  args.accumulate = accumulate;
  backend.reduce(args);
}

void run_expand(Backend& backend, DType dtype, const ReduceSizes& sizes, const void* x, void* out,
                double alpha, bool accumulate) {
  ExpandArgs args;
  args.dtype = dtype;
  args.outer = sizes.outer, args.repeat = sizes.reduced, args.inner = sizes.inner;
  args.x = x;
  args.out = out;
  args.alpha = alpha;
  args.accumulate = accumulate;
  backend.expand(args);
}

class ReduceNode final : public ResultNode {
 public:
  ReduceNode(Context& context, const Tensor& result, const Tensor& x, const ReduceSizes& sizes,
             double alpha)
      : ResultNode(context, result), dx_(x), sizes_(sizes), alpha_(alpha) {}
  const char* name() const override { return "sum"; }

  // Every x[o, n, i] enters y[o, i] with the factor alpha:  dx[o, n, i] = alpha dy[o, i]
  void backward() override {
    const Gradient::Target target = dx_.target();
    run_expand(backend(), dtype_, sizes_, result_.data(), target.data, alpha_, target.accumulate);
  }

 private:
  Gradient dx_;
  ReduceSizes sizes_;
  double alpha_;
};

class RepeatNode final : public ResultNode {
 public:
  RepeatNode(Context& context, const Tensor& result, const Tensor& x, const ReduceSizes& sizes)
      : ResultNode(context, result), dx_(x), sizes_(sizes) {}
  const char* name() const override { return "repeat_rows"; }

  // y[n, i] = x[i]:  dx[i] = sum over n of dy[n, i]
  void backward() override {
    const Gradient::Target target = dx_.target();
    run_reduce(backend(), dtype_, sizes_, result_.data(), target.data, 1.0, target.accumulate);
  }

 private:
  Gradient dx_;
  ReduceSizes sizes_;
};

Tensor reduce(const char* operation, const Tensor& x, const ReduceSizes& sizes, const Shape& shape,
              bool mean) {
  Context& context = x.context();
  LONGSHOT_CHECK(!mean || sizes.reduced > 0 || shape.elements() == 0,
                 "{}: {}: the mean of no elements is undefined", operation, x.shape().to_string());
  const double alpha = mean && sizes.reduced > 0 ? 1.0 / double(sizes.reduced) : 1.0;
  Tensor result = make_result(context, operation, shape);
  run_reduce(context.backend(), result.dtype(), sizes, x.data(), result.data(), alpha, false);
  if (wants_gradient(context, {&x})) record<ReduceNode>(context, result, x, sizes, alpha);
  return result;
}

Tensor reduce_all(const char* operation, const Tensor& x, bool mean) {
  check_operands(operation, {&x});
  return reduce(operation, x, {1, x.elements(), 1}, Shape{}, mean);
}

Tensor reduce_axis(const char* operation, const Tensor& x, int axis, bool mean) {
  check_operands(operation, {&x});
  const Shape& shape = x.shape();
  LONGSHOT_CHECK(axis >= -shape.rank() && axis < shape.rank(), "{}: axis {} is out of range for {}",
                 operation, axis, shape.to_string());
  const int index = shape.normalize(axis);
  const ReduceSizes sizes{shape.product(0, index), shape[index],
                          shape.product(index + 1, shape.rank())};
  return reduce(operation, x, sizes, without_axis(shape, index), mean);
}

}  // namespace

Tensor sum(const Tensor& x) {
  return reduce_all("sum", x, false);
}
Tensor mean(const Tensor& x) {
  return reduce_all("mean", x, true);
}
Tensor sum(const Tensor& x, int axis) {
  return reduce_axis("sum", x, axis, false);
}
Tensor mean(const Tensor& x, int axis) {
  return reduce_axis("mean", x, axis, true);
}

Tensor repeat_rows(const Tensor& x, int64_t times) {
  Context& context = check_operands("repeat_rows", {&x});
  LONGSHOT_CHECK(times >= 0 && x.shape().rank() < Shape::kMaxRank,
                 "repeat_rows: {} {} times: needs at most {} axes and no negative count",
                 x.shape().to_string(), times, Shape::kMaxRank - 1);
  Shape shape{times};
  for (int i = 0; i < x.shape().rank(); ++i) shape.append(x.size(i));
  const ReduceSizes sizes{1, times, x.elements()};
  Tensor result = make_result(context, "repeat_rows", shape);
  run_expand(context.backend(), result.dtype(), sizes, x.data(), result.data(), 1.0, false);
  if (wants_gradient(context, {&x})) record<RepeatNode>(context, result, x, sizes);
  return result;
}

}  // namespace longshot::ops
