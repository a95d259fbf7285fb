// The CPU backend against the reference, every method over generated shapes.

#include "tests/support/backend_parity.h"

#include "tests/catch.h"
#include "tests/support/test_backends.h"

namespace longshot::testing {
namespace {

TEST_CASE("backend parity: cpu against the reference in f32 and f64") {
  for (const uint64_t seed : {uint64_t(1), uint64_t(2), uint64_t(3)}) {
    check_backend_parity(cpu_backend(), DType::f32, seed);
    check_backend_parity(cpu_backend(), DType::f64, seed);
  }
}

}  // namespace
}  // namespace longshot::testing
