// A stand-in for the CUDA module that never gives a backend: of another version, or failing with
// the sentence in FAKE_CUDA_REASON.
#include <cstdio>
#include <cstdlib>

#include "core/cuda_module.h"

extern "C" longshot::Backend* longshot_cuda_create(uint32_t version,
                                                   const longshot::CudaModuleOptions*,
                                                   uint32_t* module_version, char* reason,
                                                   size_t reason_bytes) {
  const char* text = std::getenv("FAKE_CUDA_REASON");
  *module_version = text ? version : version + 1;
  if (text) std::snprintf(reason, reason_bytes, "%s", text);
  return nullptr;
}
