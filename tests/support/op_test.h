// What tests of operations share: contexts with guard bytes and NaN-filled memory, and short ways
// to make tensors.
#pragma once

#include <initializer_list>
#include <optional>
#include <vector>

#include "core/context.h"
#include "core/ops.h"
#include "tests/catch.h"
#include "tests/support/gradient_check.h"
#include "tests/support/operation_devices.h"
#include "tests/support/test_backends.h"

namespace longshot::testing {

inline ContextOptions guarded(DType dtype, const Backend& backend = cpu_backend()) {
  ContextOptions options;
  options.dtype = dtype;
  if (!backend.host_accessible()) return options;  // the emulated device's memory has its own
  options.heap.guard_bytes = 256;
  options.heap.poison = true;
  return options;
}

// body(context) on every device that operations are tested on; guard bytes are looked at
// afterwards. In f32, where differences say little, check_gradients compares with what the same
// call gave on the CPU in f64.
template <class Body>
void on_every_device(const Body& body) {
  std::optional<GradientRecord> record;
  if (testing_cuda()) record.emplace();
  for (const OperationDevice& device : operation_devices()) {
    INFO("backend " << device.backend->name());
    Context context(*device.backend, guarded(device.dtype, *device.backend));
    if (record) record->begin(device.dtype == DType::f64 ? 0 : kSingleTolerance);
    body(context);
    if (record) record->end();
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
