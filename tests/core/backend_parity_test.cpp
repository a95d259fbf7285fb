// The CPU backend against the reference, every method over generated shapes; so the CUDA one.

#include "tests/support/backend_parity.h"

#include "tests/catch.h"
#include "tests/support/operation_devices.h"
#include "tests/support/test_backends.h"

namespace longshot::testing {
namespace {

TEST_CASE("backend parity: against the reference in f32 and f64") {
  for (const uint64_t seed : {uint64_t(1), uint64_t(2), uint64_t(3)}) {
    check_backend_parity(backend_for(DType::f32), DType::f32, seed);
    if (!testing_cuda()) check_backend_parity(cpu_backend(), DType::f64, seed);
  }
}

}  // namespace
}  // namespace longshot::testing
