// What tests of operations share: contexts with guard bytes and NaN-filled memory, and short ways
// to make tensors.
#pragma once

#include <initializer_list>
#include <vector>

#include "core/context.h"
#include "core/ops.h"
#include "tests/catch.h"
#include "tests/support/gradient_check.h"
#include "tests/support/test_backends.h"

namespace longshot::testing {

inline ContextOptions guarded(DType dtype) {
  ContextOptions options;
  options.dtype = dtype;
  options.heap.guard_bytes = 256;
  options.heap.poison = true;
  return options;
}

// body(context) in f64 on every backend; guard bytes are looked at afterwards.
template <class Body>
void on_f64_backends(const Body& body) {
  for (Backend* backend : f64_backends()) {
    INFO("backend " << backend->name());
    Context context(*backend, guarded(DType::f64));
    body(context);
    context.step_heap().check_guards();
    context.persistent_heap().check_guards();
  }
}

// A step value; `wanted` marks it as wanting a gradient.
inline Tensor value(Context& context, const std::vector<double>& values, const Shape& shape,
                    bool wanted = false) {
  Tensor tensor = context.from_doubles(values, shape);
  if (wanted) tensor.set_requires_gradient(true);
  return tensor;
}
inline Tensor ints(Context& context, const std::vector<int32_t>& values, const Shape& shape) {
  return context.from_host<int32_t>(values, shape);
}

inline void check_values(const Tensor& tensor, const std::vector<double>& expected,
                         double tolerance = 1e-12) {
  check_close(tensor.to_doubles(), expected, tolerance, tensor.name());
}
inline void check_gradient(const Tensor& tensor, const std::vector<double>& expected,
                           double tolerance = 1e-12) {
  check_close(tensor.gradient_to_doubles(), expected, tolerance, "gradient");
}

// Sum of values times given numbers, then backward.
inline void backward_with(Context& context, const Tensor& result,
                          const std::vector<double>& cotangent) {
  context.tape().backward(
      ops::sum(ops::mul(result, context.from_doubles(cotangent, result.shape()))));
}

}  // namespace longshot::testing
