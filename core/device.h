// Which device a run uses: "cpu", "cuda", "cuda:N", or "auto", which takes CUDA where it works and
// else the CPU.
//
// CUDA is a module loaded at run time (liblongshot_cuda.so), and only after a driver has answered:
// a program on a machine without a GPU pays nothing for it (a tenth of a millisecond to look for
// libcuda.so.1). The module is taken from $LONGSHOT_CUDA_MODULE, else from beside the executable,
// else from ../lib.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/backend.h"

namespace longshot {

// `reason` (may be null) becomes one sentence: what was chosen, and for "auto" why not CUDA.
// UsageError for a name that is no device and for a CUDA device that cannot be had, with what is
// wrong. `tf32`: matrix products on CUDA may round their inputs to 10 bits of mantissa.
std::unique_ptr<Backend> make_backend(const std::string& device, std::string* reason = nullptr,
                                      bool tf32 = false);

// What "auto" means on this machine: "cpu" or "cuda". Asked once, then remembered.
const std::string& automatic_device();

// The parts, for tests.
struct CudaRequest {
  int device = 0;
  bool tf32 = false;
  std::string driver = "libcuda.so.1";
  std::vector<std::string> modules;  // candidates in order; empty: the places named above
};
// Null with the reason when CUDA cannot be used.
std::unique_ptr<Backend> load_cuda_backend(const CudaRequest& request, std::string* reason);
uint32_t cuda_module_version();

}  // namespace longshot
