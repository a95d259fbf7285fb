#include "tests/support/test_backends.h"

#include <memory>

#include "core/cpu/cpu_backend.h"
#include "tests/support/reference_backend.h"

namespace longshot::testing {

Backend& reference_backend() {
  static ReferenceBackend backend;
  return backend;
}

Backend& cpu_backend() {
  static const std::unique_ptr<Backend> backend = make_cpu_backend();
  return *backend;
}

std::vector<Backend*> f64_backends() {
  return {&reference_backend(), &cpu_backend()};
}

}  // namespace longshot::testing
