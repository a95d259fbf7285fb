#include "tests/support/operation_devices.h"

#include <cstdlib>
#include <string>

#include "tests/support/cuda_test_backend.h"
#include "tests/support/test_backends.h"

namespace longshot::testing {

bool testing_cuda() {
  const char* name = std::getenv("LONGSHOT_TEST_BACKEND");
  return name != nullptr && std::string(name) == "cuda";
}

OperationDevice model_device() {
  if (testing_cuda()) return {&cuda_test_backend(), DType::f32};
  return {&cpu_backend(), DType::f64};
}

Backend& backend_for(DType dtype) {
  return testing_cuda() && dtype != DType::f64 ? cuda_test_backend() : cpu_backend();
}

std::vector<OperationDevice> operation_devices() {
  Backend& first = testing_cuda() ? cpu_backend() : reference_backend();
  return {{&first, DType::f64}, model_device()};
}

}  // namespace longshot::testing
