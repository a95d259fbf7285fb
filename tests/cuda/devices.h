// The two devices the tests of this folder compare, made once.
#pragma once

#include "cuda/cuda_backend.h"
#include "tests/support/both_backends.h"

namespace longshot::test {

inline Backend& cpu_device() {
  static const std::unique_ptr<Backend> backend = make_cpu_backend();
  return *backend;
}
inline Backend& cuda_device() {
  static const std::unique_ptr<Backend> backend = cuda::make_cuda_backend({});
  return *backend;
}
class Devices : public Both {
 public:
  Devices() : Both(cpu_device(), cuda_device()) {}
};

}  // namespace longshot::test
