// The CUDA implementation of core/backend.h. One stream, one cuBLAS handle with its own workspace,
// one fixed workspace for partial sums; f32 only.
#pragma once

#include <memory>

#include "core/backend.h"

namespace longshot::cuda {

struct CudaOptions {
  int device = 0;
  bool tf32 = false;  // matrix products on tensor cores with 10 bits of mantissa
};

// Throws Error when the device cannot be used.
std::unique_ptr<Backend> make_cuda_backend(const CudaOptions& options);

}  // namespace longshot::cuda
