#include "core/ops/common.h"

#include <algorithm>

namespace longshot::ops {
namespace {

void check_operand(const char* operation, const Context& context, const Tensor& first,
                   const Tensor& tensor, int position) {
  LONGSHOT_CHECK(&tensor.context() == &context,
                 "{}: operand 1 {} and operand {} {} belong to different contexts", operation,
                 first.shape().to_string(), position, tensor.shape().to_string());
  LONGSHOT_CHECK(tensor.dtype() == context.dtype(), "{}: operand {} {} holds {}, needs {}",
                 operation, position, tensor.shape().to_string(), name_of(tensor.dtype()),
                 name_of(context.dtype()));
}

}  // namespace

Context& check_operands(const char* operation, std::initializer_list<const Tensor*> operands,
                        std::initializer_list<const Tensor*> optional) {
  int position = 0;
  for (const Tensor* tensor : operands) {
    ++position;
    LONGSHOT_CHECK(tensor->defined(), "{}: operand {} is undefined", operation, position);
  }
  const Tensor& first = **operands.begin();
  Context& context = first.context();
  position = 0;
  for (const Tensor* tensor : operands)
    check_operand(operation, context, first, *tensor, ++position);
  for (const Tensor* tensor : optional) {
    ++position;
    if (tensor->defined()) check_operand(operation, context, first, *tensor, position);
  }
  return context;
}

void check_integers(const char* operation, const Context& context, const char* role,
                    const Tensor& tensor) {
  LONGSHOT_CHECK(tensor.defined(), "{}: {} is undefined", operation, role);
  LONGSHOT_CHECK(&tensor.context() == &context, "{}: {} {} belongs to a different context",
                 operation, role, tensor.shape().to_string());
  LONGSHOT_CHECK(tensor.dtype() == DType::i32, "{}: {} {} holds {}, needs i32", operation, role,
                 tensor.shape().to_string(), name_of(tensor.dtype()));
}

void check_indices(const char* operation, const char* role, const Tensor& indices, int64_t low,
                   int64_t high) {
  const int64_t count = indices.elements();
  if (count == 0 || !indices.context().backend().host_accessible()) return;
  const int32_t* values = indices.data_as<int32_t>();
  int32_t least = values[0], most = values[0];
  for (int64_t i = 1; i < count; ++i) {
    least = std::min(least, values[i]);
    most = std::max(most, values[i]);
  }
  if (least >= low && most < high) return;
  int64_t place = 0;
  while (values[place] >= low && values[place] < high) ++place;
  throw Error(fmt::format("{}: {} {} hold {} at element {}, outside {} to {}", operation, role,
                          indices.shape().to_string(), values[place], place, low, high - 1));
}

void check_no_gradient(const char* operation, const char* role, const Tensor& tensor) {
  LONGSHOT_CHECK(!tensor.requires_gradient(),
                 "{}: {} {} wants a gradient, but this operation has none for it", operation, role,
                 tensor.shape().to_string());
}

DropoutSpec check_dropout(const char* operation, const Context& context, DropoutSpec spec) {
  LONGSHOT_CHECK(spec.p >= 0 && spec.p < 1, "{}: the dropout rate must be in [0, 1), got {}",
                 operation, spec.p);
  if (spec.state == nullptr) spec.state = context.step_state();
  return spec;
}

bool wants_gradient(const Context& context, std::initializer_list<const Tensor*> inputs) {
  if (!context.recording()) return false;
  for (const Tensor* input : inputs)
    if (input->requires_gradient()) return true;
  return false;
}

void contribute(Backend& backend, DType dtype, int64_t n, const void* source,
                const Gradient::Target& target, double alpha) {
  AffineArgs args;
  args.dtype = dtype;
  args.n = n;
  args.x = source;
  args.y = target.data;
  args.alpha = alpha;
  args.accumulate = target.accumulate;
  backend.affine(args);
}

void clear_unless_accumulating(Backend& backend, DType dtype, int64_t n,
                               const Gradient::Target& target) {
  if (!target.accumulate) backend.fill_zero(target.data, static_cast<size_t>(n * size_of(dtype)));
}

bool is_suffix(const Shape& whole, const Shape& tail) {
  if (tail.rank() > whole.rank()) return false;
  for (int i = 1; i <= tail.rank(); ++i)
    if (whole[-i] != tail[-i]) return false;
  return true;
}

Shape without_axis(const Shape& shape, int axis) {
  Shape result;
  for (int i = 0; i < shape.rank(); ++i)
    if (i != axis) result.append(shape[i]);
  return result;
}

Shape with_last(const Shape& shape, int64_t extent) {
  Shape result = shape;
  result.set(-1, extent);
  return result;
}

}  // namespace longshot::ops
