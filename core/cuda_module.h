// What the program and the loadable CUDA module agree on. The module, liblongshot_cuda.so, exports
// one function; everything else in it is hidden.
//
// The version is a fingerprint of core/backend.h made at configuration time, so a module built from
// another state of that interface is refused instead of crashing.
#pragma once

#include <cstddef>
#include <cstdint>

#ifndef LONGSHOT_BACKEND_FINGERPRINT
#define LONGSHOT_BACKEND_FINGERPRINT 0
#endif

namespace longshot {

class Backend;

struct CudaModuleOptions {
  int32_t device = 0;
  uint32_t tf32 = 0;
};

// Returns a backend that the caller deletes, or null with a sentence in `reason`. A module of
// another version returns null with `*module_version` set to its own.
using CudaModuleFactory = Backend* (*)(uint32_t version, const CudaModuleOptions* options,
                                       uint32_t* module_version, char* reason, size_t reason_bytes);
inline constexpr const char* kCudaModuleSymbol = "longshot_cuda_create";
inline constexpr const char* kCudaModuleFile = "liblongshot_cuda.so";

}  // namespace longshot
