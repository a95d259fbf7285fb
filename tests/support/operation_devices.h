// Where tests run: on the CPU, or, with LONGSHOT_TEST_BACKEND=cuda in the environment, what is in
// f32 on the CUDA backend (emulated, or real as tests/support/cuda_test_backend.h says).
#pragma once

#include <vector>

#include "core/backend.h"

namespace longshot::testing {

struct OperationDevice {
  Backend* backend;
  DType dtype;
};

bool testing_cuda();
// Two: the reference and the CPU, or the CPU in f64 and CUDA, whose gradients are compared with it.
std::vector<OperationDevice> operation_devices();
// The one device of tests that need no second.
OperationDevice model_device();
// For tests that choose the type: f64 exists on the CPU alone.
Backend& backend_for(DType dtype);
// In f32 no result is right to more than this, relative to max(1, |value|).
inline constexpr double kSingleTolerance = 1e-4;
inline double device_tolerance(double in_double) {
  return testing_cuda() && in_double < kSingleTolerance ? kSingleTolerance : in_double;
}

}  // namespace longshot::testing
