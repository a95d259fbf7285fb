// The two devices the tests of this folder compare, made once.
#pragma once

#include "tests/support/both_backends.h"
#include "tests/support/cuda_test_backend.h"
#include "tests/support/test_backends.h"

namespace longshot::test {

inline Backend& cpu_device() {
  return testing::cpu_backend();
}
inline Backend& cuda_device() {
  return testing::cuda_test_backend();
}

class Devices : public Both {
 public:
  Devices() : Both(cpu_device(), cuda_device()) {}
};

}  // namespace longshot::test
