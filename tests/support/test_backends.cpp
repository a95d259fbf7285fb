#include "tests/support/test_backends.h"

#include "tests/support/reference_backend.h"

namespace longshot::testing {

Backend& reference_backend() {
  static ReferenceBackend backend;
  return backend;
}

std::vector<Backend*> f64_backends() { return {&reference_backend()}; }

}  // namespace longshot::testing
