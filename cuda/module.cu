// The one function that liblongshot_cuda.so exports. Nothing is thrown across it: what is wrong
// comes back as a sentence.
#include <cstdio>
#include <exception>

#include "core/cuda_module.h"
#include "cuda/cuda_backend.h"
#include "cuda/kernels.cuh"

namespace {

// Empty, or why the driver cannot run this module.
std::string refuse_driver() {
  int driver = 0, runtime = 0;
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  if (driver == 0) return "no NVIDIA driver answers";
  if (driver / 1000 < runtime / 1000) {
    return fmt::format("the NVIDIA driver is too old: it offers CUDA {}.{}, the module needs {}.{}",
                       driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
  }
  return {};
}

}  // namespace

extern "C" __attribute__((visibility("default"))) longshot::Backend* longshot_cuda_create(
    uint32_t version, const longshot::CudaModuleOptions* options, uint32_t* module_version,
    char* reason, size_t reason_bytes) {
  *module_version = LONGSHOT_BACKEND_FINGERPRINT;
  if (version != *module_version) return nullptr;
  try {
    const std::string refusal = refuse_driver();
    if (refusal.empty()) {
      return longshot::cuda::make_cuda_backend({options->device, options->tf32 != 0}).release();
    }
    std::snprintf(reason, reason_bytes, "%s", refusal.c_str());
  } catch (const std::exception& error) {
    std::snprintf(reason, reason_bytes, "%s", error.what());
  } catch (...) {
    std::snprintf(reason, reason_bytes, "the CUDA module failed for an unknown reason");
  }
  return nullptr;
}
