#include "core/device.h"

#include "core/cpu/cpu_backend.h"
#include "core/error.h"

namespace longshot {

std::unique_ptr<Backend> make_backend(const std::string& device, std::string* reason) {
  if (device != "auto" && device != "cpu" && device != "cuda" && device.rfind("cuda:", 0) != 0)
    throw UsageError(fmt::format("device \"{}\": it is one of auto, cpu, cuda, cuda:N", device));
  if (device.rfind("cuda", 0) == 0)
    throw UsageError(fmt::format("device \"{}\": this build has no CUDA module", device));
  std::unique_ptr<Backend> backend = make_cpu_backend();
  if (reason != nullptr) *reason = backend->description();
  return backend;
}

const std::string& automatic_device() {
  static const std::string device = "cpu";
  return device;
}

}  // namespace longshot
