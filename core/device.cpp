#include "core/device.h"

#include <charconv>
#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <fmt/format.h>
#include <system_error>

#include "core/cpu/cpu_backend.h"
#include "core/cuda_module.h"
#include "core/error.h"

namespace longshot {
namespace {

// cuda.h is not needed for three functions, and a machine without the toolkit does not have it.
using DriverCall = int (*)(unsigned);
using DriverQuery = int (*)(int*);
constexpr int kDriverNoDevice = 100;  // CUDA_ERROR_NO_DEVICE

template <class F>
F symbol(void* library, const char* name) {
  return reinterpret_cast<F>(dlsym(library, name));
}

// Empty: the driver answers and has the device.
std::string probe_driver(const CudaRequest& request) {
  void* driver = dlopen(request.driver.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!driver) return fmt::format("no NVIDIA driver ({}) on this machine", request.driver);
  const auto initialize = symbol<DriverCall>(driver, "cuInit");
  const auto count_devices = symbol<DriverQuery>(driver, "cuDeviceGetCount");
  if (!initialize || !count_devices) {
    return fmt::format("{} is not an NVIDIA driver: it has no cuInit", request.driver);
  }
  int count = 0;
  const int status = initialize(0);
  if (status != 0 && status != kDriverNoDevice) {
    return fmt::format("the NVIDIA driver does not start (cuInit returned {})", status);
  }
  if (status == kDriverNoDevice || count_devices(&count) != 0 || count == 0) {
    return "the NVIDIA driver sees no CUDA device";
  }
  if (request.device >= count) {
    return fmt::format("device cuda:{} does not exist, the driver has {}: cuda:0 to cuda:{}",
                       request.device, count, count - 1);
  }
  return {};
}

std::vector<std::string> module_places() {
  if (const char* chosen = std::getenv("LONGSHOT_CUDA_MODULE"); chosen && *chosen) return {chosen};
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return {kCudaModuleFile};
  const auto folder = program.parent_path();
  return {(folder / kCudaModuleFile).string(),
          (folder.parent_path() / "lib" / kCudaModuleFile).string()};
}

bool exists(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

std::unique_ptr<Backend> create(const std::string& path, const CudaRequest& request,
                                std::string* reason) {
  // Never closed: the backend's code lives there.
  void* module = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!module) {
    const char* why = dlerror();
    *reason = fmt::format("the CUDA module does not load: {}", why ? why : path.c_str());
    return nullptr;
  }
  const auto factory = symbol<CudaModuleFactory>(module, kCudaModuleSymbol);
  if (!factory) {
    *reason =
        fmt::format("{} is not a Longshot CUDA module: it has no {}", path, kCudaModuleSymbol);
    return nullptr;
  }
  const CudaModuleOptions options{request.device, request.tf32 ? 1u : 0u};
  const uint32_t version = cuda_module_version();
  uint32_t module_version = version;
  char text[512] = {};
  std::unique_ptr<Backend> backend(factory(version, &options, &module_version, text, sizeof text));
  if (backend) return backend;
  if (module_version != version) {
    *reason = fmt::format(
        "the CUDA module {} is of another version ({:08x}, this program needs {:08x}): build both "
        "from the same sources",
        path, module_version, version);
  } else {
    *reason = text[0] ? std::string(text) : fmt::format("the CUDA module {} gave no backend", path);
  }
  return nullptr;
}

// The number after "cuda:"; plain "cuda" is the first device.
int parse_device(const std::string& device) {
  if (device == "cuda") return 0;
  int number = -1;
  const char* end = device.data() + device.size();
  const auto [stop, error] = std::from_chars(device.data() + 5, end, number);
  if (stop != end || error != std::errc{} || number < 0) {
    throw UsageError(fmt::format(
        "device \"{}\": after \"cuda:\" comes the number of a device, as in cuda:0", device));
  }
  return number;
}

// The first module that exists; empty with the reason if none does.
std::string find_module(const CudaRequest& request, std::string* reason) {
  const auto places = request.modules.empty() ? module_places() : request.modules;
  for (const std::string& place : places) {
    if (exists(place)) return place;
  }
  std::string joined;
  for (const std::string& place : places) joined += (joined.empty() ? "" : " or ") + place;
  *reason = fmt::format("there is no CUDA module: {} does not exist", joined);
  return {};
}

}  // namespace

uint32_t cuda_module_version() {
  return LONGSHOT_BACKEND_FINGERPRINT;
}

std::unique_ptr<Backend> load_cuda_backend(const CudaRequest& request, std::string* reason) {
  *reason = probe_driver(request);
  if (!reason->empty()) return nullptr;
  const std::string module = find_module(request, reason);
  return module.empty() ? nullptr : create(module, request, reason);
}

std::unique_ptr<Backend> make_backend(const std::string& device, std::string* reason, bool tf32) {
  std::string text;
  std::unique_ptr<Backend> backend;
  if (device == "auto" || device == "cuda" || device.rfind("cuda:", 0) == 0) {
    CudaRequest request;
    request.tf32 = tf32;
    if (device != "auto") request.device = parse_device(device);
    std::string why;
    backend = load_cuda_backend(request, &why);
    if (backend) {
      text = fmt::format("cuda:{}, {}", request.device, backend->description());
    } else if (device != "auto") {
      throw UsageError(fmt::format("device \"{}\" cannot be had: {}", device, why));
    } else {
      backend = make_cpu_backend();
      text = fmt::format("{}, because {}", backend->description(), why);
    }
  } else if (device == "cpu") {
    backend = make_cpu_backend();
    text = backend->description();
  } else {
    throw UsageError(fmt::format("device \"{}\": it is one of auto, cpu, cuda, cuda:N", device));
  }
  if (reason != nullptr) *reason = text;
  return backend;
}

const std::string& automatic_device() {
  // Without making a backend: the name is wanted before any run starts.
  static const std::string device = [] {
    const CudaRequest request;
    std::string why;
    return probe_driver(request).empty() && !find_module(request, &why).empty() ? "cuda" : "cpu";
  }();
  return device;
}

}  // namespace longshot
