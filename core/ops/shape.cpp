// Operations that move elements without changing them: reshape (free: only the handle changes),
// slice, concat, permutation of axes. Each is linear with a 0-1 matrix, so its backward is the
// transposed movement.

#include "core/ops/common.h"

namespace longshot::ops {
namespace {

int check_axis(const char* operation, const Shape& shape, int axis) {
  LONGSHOT_CHECK(axis >= -shape.rank() && axis < shape.rank(), "{}: axis {} is out of range for {}",
                 operation, axis, shape.to_string());
  return shape.normalize(axis);
}

// A band of a larger array: `outer` chunks, one every `stride` elements from `offset` on.
struct Band {
  int64_t outer = 0, chunk = 0, stride = 0, offset = 0;
};

CopyChunksArgs band_to_dense(DType dtype, const Band& band, const void* from, void* to,
                             bool accumulate) {
  CopyChunksArgs args;
  args.dtype = dtype;
  args.outer = band.outer, args.chunk = band.chunk;
  args.x = from, args.x_stride = band.stride, args.x_offset = band.offset;
  args.out = to, args.out_stride = band.chunk;
  args.accumulate = accumulate;
  return args;
}

CopyChunksArgs dense_to_band(DType dtype, const Band& band, const void* from, void* to,
                             bool accumulate) {
  CopyChunksArgs args;
  args.dtype = dtype;
  args.outer = band.outer, args.chunk = band.chunk;
  args.x = from, args.x_stride = band.chunk;
  args.out = to, args.out_stride = band.stride, args.out_offset = band.offset;
  args.accumulate = accumulate;
  return args;
}

class SliceNode final : public ResultNode {
 public:
  SliceNode(Context& context, const Tensor& result, const Tensor& x, const Band& band)
      : ResultNode(context, result), dx_(x), n_(x.elements()), band_(band) {}
  const char* name() const override { return "slice"; }

  // dx = dy inside the band, 0 outside
  void backward() override {
    const Gradient::Target target = dx_.target();
    clear_unless_accumulating(backend(), dtype_, n_, target);
    backend().copy_chunks(
        dense_to_band(dtype_, band_, result_.data(), target.data, target.accumulate));
  }

 private:
  Gradient dx_;
  int64_t n_;
  Band band_;
};

// One node for each part that wants a gradient, so that any number of parts needs no list.
class ConcatNode final : public ResultNode {
 public:
  ConcatNode(Context& context, const Tensor& result, const Tensor& part, const Band& band)
      : ResultNode(context, result), dpart_(part), band_(band) {}
  const char* name() const override { return "concat"; }

  // The part's gradient is its band of dy.
  void backward() override {
    const Gradient::Target target = dpart_.target();
    backend().copy_chunks(
        band_to_dense(dtype_, band_, result_.data(), target.data, target.accumulate));
  }

 private:
  Gradient dpart_;
  Band band_;
};

class PermuteNode final : public ResultNode {
 public:
  PermuteNode(Context& context, const Tensor& result, const Tensor& x, const int* perm)
      : ResultNode(context, result), dx_(x) {
    inverse_.dtype = dtype_;
    inverse_.shape = result.shape();
    for (int i = 0; i < x.shape().rank(); ++i) inverse_.perm[perm[i]] = i;
  }
  const char* name() const override { return "permute"; }

  // Result axis i is x axis perm[i]; so x axis perm[i] is result axis i: the inverse permutation.
  void backward() override {
    const Gradient::Target target = dx_.target();
    PermuteArgs args = inverse_;
    args.x = result_.data();
    args.out = target.data;
    args.accumulate = target.accumulate;
    backend().permute(args);
  }

 private:
  Gradient dx_;
  PermuteArgs inverse_;
};

}  // namespace

Tensor reshape(const Tensor& x, const Shape& shape) {
  LONGSHOT_CHECK(x.defined(), "reshape: operand 1 is undefined");
  return x.reshape(shape);
}

Tensor slice(const Tensor& x, int axis, int64_t begin, int64_t end) {
  Context& context = check_operands("slice", {&x});
  const Shape& shape = x.shape();
  axis = check_axis("slice", shape, axis);
  LONGSHOT_CHECK(0 <= begin && begin <= end && end <= shape[axis],
                 "slice: [{}, {}) is not a part of axis {} of {}", begin, end, axis,
                 shape.to_string());
  const int64_t inner = shape.product(axis + 1, shape.rank());
  const Band band{shape.product(0, axis), (end - begin) * inner, shape[axis] * inner,
                  begin * inner};
  Shape result_shape = shape;
  result_shape.set(axis, end - begin);
  Tensor result = make_result(context, "slice", result_shape);
  context.backend().copy_chunks(
      band_to_dense(result.dtype(), band, x.data(), result.data(), false));
  if (wants_gradient(context, {&x})) record<SliceNode>(context, result, x, band);
  return result;
}

Tensor concat(std::span<const Tensor> parts, int axis) {
  LONGSHOT_CHECK(!parts.empty(), "concat: nothing to join");
  Context& context = check_operands("concat", {&parts[0]});
  Shape shape = parts[0].shape();
  axis = check_axis("concat", shape, axis);
  int64_t extent = 0;
  for (const Tensor& part : parts) {
    check_operands("concat", {&parts[0], &part});
    const bool fits = part.shape().rank() == shape.rank() &&
                      without_axis(part.shape(), axis) == without_axis(shape, axis);
    LONGSHOT_CHECK(fits, "concat: {} and {} differ outside axis {}", parts[0].shape().to_string(),
                   part.shape().to_string(), axis);
    extent += part.size(axis);
  }
  shape.set(axis, extent);
  Tensor result = make_result(context, "concat", shape);
  const int64_t inner = shape.product(axis + 1, shape.rank());
  int64_t offset = 0;
  for (const Tensor& part : parts) {
    const int64_t chunk = part.size(axis) * inner;
    const Band band{shape.product(0, axis), chunk, extent * inner, offset};
    context.backend().copy_chunks(
        dense_to_band(result.dtype(), band, part.data(), result.data(), false));
    if (wants_gradient(context, {&part})) record<ConcatNode>(context, result, part, band);
    offset += chunk;
  }
  return result;
}

Tensor permute(const Tensor& x, std::span<const int> axes) {
  Context& context = check_operands("permute", {&x});
  const int rank = x.shape().rank();
  LONGSHOT_CHECK(int(axes.size()) == rank, "permute: {} axes given for {}", axes.size(),
                 x.shape().to_string());
  PermuteArgs args;
  Shape shape;
  bool seen[Shape::kMaxRank] = {};
  for (int i = 0; i < rank; ++i) {
    args.perm[i] = check_axis("permute", x.shape(), axes[i]);
    LONGSHOT_CHECK(!seen[args.perm[i]], "permute: axis {} of {} is named twice", args.perm[i],
                   x.shape().to_string());
    seen[args.perm[i]] = true;
    shape.append(x.size(args.perm[i]));
  }
  Tensor result = make_result(context, "permute", shape);
  args.dtype = result.dtype();
  args.shape = x.shape();
  args.x = x.data();
  args.out = result.data();
  context.backend().permute(args);
  if (wants_gradient(context, {&x})) record<PermuteNode>(context, result, x, args.perm);
  return result;
}

Tensor transpose(const Tensor& x, int axis_a, int axis_b) {
  check_operands("transpose", {&x});
  int axes[Shape::kMaxRank] = {0, 1, 2, 3};
  std::swap(axes[check_axis("transpose", x.shape(), axis_a)],
            axes[check_axis("transpose", x.shape(), axis_b)]);
  return permute(x, std::span<const int>(axes, size_t(x.shape().rank())));
}

}  // namespace longshot::ops
