// The CUDA backend that tests run on: the emulated device, or a real one named by the environment
// (LONGSHOT_TEST_DEVICE=cuda), whose module is then loaded as the program loads it.
#pragma once

#include "core/backend.h"

namespace longshot::testing {

Backend& cuda_test_backend();
bool on_real_device();

}  // namespace longshot::testing
