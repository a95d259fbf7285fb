// Gather along the last axis, and the relative shift, its special case that needs no index.
//
//   gather          y[n, i, j] = x[n, i, index[i, j]], negative indices give 0
//   relative_shift  y[n, i, j] = x[n, i, R - 1 + j - i - offset], x (..., T, 2R - 1): from scores
//   by distance to scores
//                   by key (Transformer-XL's "shift", here for both directions)

#include <limits>

#include "core/ops/common.h"

namespace longshot::ops {
namespace {

class GatherNode final : public ResultNode {
 public:
  GatherNode(Context& context, const Tensor& result, const Tensor& x, const Tensor& index,
             const GatherArgs& forward)
      : ResultNode(context, result), dx_(x), index_(index) {
    args_.dtype = forward.dtype;
    args_.outer = forward.outer, args_.rows = forward.rows;
    args_.source = forward.source, args_.columns = forward.columns;
    args_.index_batches = forward.index_batches;
  }
  const char* name() const override { return "gather"; }

  // dx[n, i, s] = sum over the j with index[i, j] = s of dy[n, i, j]
  void backward() override {
    const Gradient::Target target = dx_.target();
    GatherBackwardArgs args = args_;
    args.index = index_.data_as<int32_t>();
    args.dy = result_.data();
    args.dx = target.data;
    args.accumulate = target.accumulate;
    backend().gather_backward(args);
  }

 private:
  Gradient dx_;
  Tensor index_;
  GatherBackwardArgs args_;  // sizes only
};

struct ShiftSizes {
  int64_t outer = 0, rows = 0, width = 0, keys = 0, first = 0;  // first: R - 1 - offset
};

// Row i of matrix n is the run of `keys` elements of x that starts at column first - i. Seen as one
// array, runs of successive rows are width - 1 apart, and runs of successive matrices rows * width:
// either way one strided copy, so we loop over the shorter of the two axes.
template <class Copy>
void for_each_run(const ShiftSizes& sizes, const Copy& copy) {
  const bool by_matrix = sizes.outer <= sizes.rows;
  const int64_t calls = by_matrix ? sizes.outer : sizes.rows;
  for (int64_t i = 0; i < calls; ++i) {
    if (by_matrix) {
      copy(sizes.rows, i * sizes.rows * sizes.width + sizes.first, sizes.width - 1,
           i * sizes.rows * sizes.keys, sizes.keys);
    } else {
      copy(sizes.outer, i * sizes.width + sizes.first - i, sizes.rows * sizes.width, i * sizes.keys,
           sizes.rows * sizes.keys);
    }
  }
}

class RelativeShiftNode final : public ResultNode {
 public:
  RelativeShiftNode(Context& context, const Tensor& result, const Tensor& x,
                    const ShiftSizes& sizes)
      : ResultNode(context, result), dx_(x), sizes_(sizes) {}
  const char* name() const override { return "relative_shift"; }

  // Every y[n, i, j] is a different element of x: dx is dy put back, 0 for distances that do not
  // occur.
  void backward() override {
    const Gradient::Target target = dx_.target();
    clear_unless_accumulating(backend(), dtype_, sizes_.outer * sizes_.rows * sizes_.width, target);
    for_each_run(sizes_, [&](int64_t runs, int64_t x_offset, int64_t x_stride, int64_t y_offset,
                             int64_t y_stride) {
      CopyChunksArgs args;
      args.dtype = dtype_;
      args.outer = runs, args.chunk = sizes_.keys;
      args.x = result_.data(), args.x_stride = y_stride, args.x_offset = y_offset;
      args.out = target.data, args.out_stride = x_stride, args.out_offset = x_offset;
      args.accumulate = target.accumulate;
      backend().copy_chunks(args);
    });
  }

 private:
  Gradient dx_;
  ShiftSizes sizes_;
};

}  // namespace

Tensor gather(const Tensor& x, const Tensor& index) {
  Context& context = check_operands("gather", {&x});
  check_integers("gather", context, "index", index);
  const Shape& shape = x.shape();
  const int index_rank = index.shape().rank();
  bool fits =
      shape.rank() >= 2 && (index_rank == 2 || index_rank == 3) && index.size(-2) == shape[-2];
  if (fits && index_rank == 3) fits = shape.rank() >= 3 && index.size(0) == shape[0];
  LONGSHOT_CHECK(
      fits,
      "gather: {} by index {}: the index must be (rows, columns) or (first extent, rows, columns)",
      shape.to_string(), index.shape().to_string());
  check_indices("gather", "indices", index, std::numeric_limits<int32_t>::min(), shape[-1]);
  Tensor result = make_result(context, "gather", with_last(shape, index.size(-1)));
  GatherArgs args;
  args.dtype = result.dtype();
  args.outer = shape.product(0, shape.rank() - 2);
  args.rows = shape[-2], args.source = shape[-1], args.columns = index.size(-1);
  args.index_batches = index_rank == 3 ? index.size(0) : 1;
  args.index = index.data_as<int32_t>();
  args.x = x.data();
  args.out = result.data();
  context.backend().gather(args);
  if (wants_gradient(context, {&x})) record<GatherNode>(context, result, x, index, args);
  return result;
}

Tensor relative_shift(const Tensor& x, int64_t keys, int64_t query_offset) {
  Context& context = check_operands("relative_shift", {&x});
  const Shape& shape = x.shape();
  LONGSHOT_CHECK(shape.rank() >= 2 && shape[-1] % 2 == 1 && keys >= 0 && query_offset >= 0,
                 "relative_shift: {} to {} keys from row {}: needs (..., rows, 2 reach - 1)",
                 shape.to_string(), keys, query_offset);
  const int64_t rows = shape[-2], width = shape[-1], reach = (width + 1) / 2;
  const bool reaches =
      rows == 0 || keys == 0 || (query_offset + rows <= reach && keys - query_offset <= reach);
  LONGSHOT_CHECK(
      reaches,
      "relative_shift: {} holds distances up to {}, too few for {} keys and query rows {} to {}",
      shape.to_string(), reach - 1, keys, query_offset, query_offset + rows - 1);
  Tensor result = make_result(context, "relative_shift", with_last(shape, keys));
  const ShiftSizes sizes{shape.product(0, shape.rank() - 2), rows, width, keys,
                         reach - 1 - query_offset};
  for_each_run(sizes, [&](int64_t runs, int64_t x_offset, int64_t x_stride, int64_t y_offset,
                          int64_t y_stride) {
    CopyChunksArgs args;
    args.dtype = result.dtype();
    args.outer = runs, args.chunk = keys;
    args.x = x.data(), args.x_stride = x_stride, args.x_offset = x_offset;
    args.out = result.data(), args.out_stride = y_stride, args.out_offset = y_offset;
    context.backend().copy_chunks(args);
  });
  if (wants_gradient(context, {&x})) record<RelativeShiftNode>(context, result, x, sizes);
  return result;
}

}  // namespace longshot::ops
