#include "tests/support/cuda_test_backend.h"

#include <cstdlib>
#include <memory>

#include "core/device.h"
#include "cuda/cuda_backend.h"

namespace longshot::testing {

bool on_real_device() {
  return std::getenv("LONGSHOT_TEST_DEVICE") != nullptr;
}

Backend& cuda_test_backend() {
  static const std::unique_ptr<Backend> backend =
      on_real_device() ? make_backend(std::getenv("LONGSHOT_TEST_DEVICE"))
                       : cuda::make_cuda_backend({});
  return *backend;
}

}  // namespace longshot::testing
