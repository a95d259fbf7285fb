// The choice of a device: each way in which CUDA cannot be had is one sentence that says what is
// wrong.
#include "core/device.h"

#include <cstdlib>

#include "core/error.h"
#include "tests/catch.h"

using namespace longshot;

namespace {

class Environment {
 public:
  Environment(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~Environment() { unsetenv(name_); }

 private:
  const char* name_;
};

std::string refusal(const CudaRequest& request) {
  std::string reason;
  CHECK(load_cuda_backend(request, &reason) == nullptr);
  CHECK(reason.find('\n') == std::string::npos);
  return reason;
}
CudaRequest request(const char* module, int device = 0) {
  CudaRequest result;
  result.device = device;
  result.driver = LONGSHOT_FAKE_DRIVER;
  result.modules = {module};
  return result;
}

}  // namespace

TEST_CASE("device: without a driver", "[device]") {
  CudaRequest none = request(LONGSHOT_FAKE_MODULE);
  none.driver = "libno-such-driver.so.1";
  CHECK(refusal(none) == "no NVIDIA driver (libno-such-driver.so.1) on this machine");
  none.driver = LONGSHOT_FAKE_MODULE;  // a library, but no driver
  CHECK_THAT(refusal(none), ContainsSubstring("is not an NVIDIA driver: it has no cuInit"));
}

TEST_CASE("device: a driver without the device", "[device]") {
  const CudaRequest first = request(LONGSHOT_FAKE_MODULE);
  CHECK(refusal(first) == "the NVIDIA driver sees no CUDA device");
  {
    const Environment status("FAKE_CUDA_INIT", "100");
    CHECK(refusal(first) == "the NVIDIA driver sees no CUDA device");
  }
  {
    const Environment status("FAKE_CUDA_INIT", "804");
    CHECK(refusal(first) == "the NVIDIA driver does not start (cuInit returned 804)");
  }
  const Environment two("FAKE_CUDA_DEVICES", "2");
  CHECK(refusal(request(LONGSHOT_FAKE_MODULE, 2)) ==
        "device cuda:2 does not exist, the driver has 2: cuda:0 to cuda:1");
}

TEST_CASE("device: without a module that fits", "[device]") {
  const Environment one("FAKE_CUDA_DEVICES", "1");
  CHECK(refusal(request("/no/such/module.so")) ==
        "there is no CUDA module: /no/such/module.so does not exist");
  CHECK_THAT(refusal(request("/proc/self/cmdline")), ContainsSubstring("does not load"));
  CHECK_THAT(refusal(request(LONGSHOT_FAKE_DRIVER)),
             ContainsSubstring("is not a Longshot CUDA module: it has no longshot_cuda_create"));
  CHECK_THAT(refusal(request(LONGSHOT_FAKE_MODULE)),
             ContainsSubstring("is of another version") &&
                 ContainsSubstring("build both from the same sources"));
  const Environment memory("FAKE_CUDA_REASON", "cuda: out of device memory: 16777216 bytes");
  CHECK(refusal(request(LONGSHOT_FAKE_MODULE)) == "cuda: out of device memory: 16777216 bytes");
}

TEST_CASE("device: a driver older than the module's CUDA", "[device]") {
  const Environment one("FAKE_CUDA_DEVICES", "1");
  const auto with = [](const char* version) {
    const Environment driver("LONGSHOT_EMULATOR_DRIVER", version);
    return refusal(request(LONGSHOT_EMULATED_MODULE));
  };
  CHECK(with("12090") ==
        "the NVIDIA driver is too old: it offers CUDA 12.9, the module needs 13.0");
  CHECK(with("0") == "no NVIDIA driver answers");
}

TEST_CASE("device: TF32 is asked of the matrix products, and only where it was chosen",
          "[device]") {
  const Environment one("FAKE_CUDA_DEVICES", "1");
  const auto product = [](bool tf32) {
    CudaRequest chosen = request(LONGSHOT_EMULATED_MODULE);
    chosen.tf32 = tf32;
    std::string reason;
    const auto backend = load_cuda_backend(chosen, &reason);
    REQUIRE(backend);
    // 1 + 2^-12 has twelve bits after the point, TF32 ten.
    const float values[] = {1.000244140625f, 1};
    auto* memory = static_cast<float*>(backend->allocate(3 * sizeof(float)));
    backend->copy_to_device(memory, values, sizeof values);
    backend->gemm({.rows = 1,
                   .columns = 1,
                   .inner = 1,
                   .a = memory,
                   .b = memory + 1,
                   .c = memory + 2,
                   .lda = 1,
                   .ldb = 1,
                   .ldc = 1});
    float result = 0;
    backend->copy_to_host(&result, memory + 2, sizeof result);
    backend->release(memory, 3 * sizeof(float));
    return result;
  };
  CHECK(product(false) == 1.000244140625f);
  CHECK(product(true) == 1);
}

TEST_CASE("device: a module that works gives a backend", "[device]") {
  const Environment one("FAKE_CUDA_DEVICES", "1");
  REQUIRE(cuda_module_version() != 0);
  std::string reason;
  CudaRequest good = request(LONGSHOT_EMULATED_MODULE);
  good.tf32 = true;
  const auto backend = load_cuda_backend(good, &reason);
  INFO(reason);
  REQUIRE(backend);
  CHECK(std::string(backend->name()) == "cuda");
  CHECK_THAT(backend->description(),
             ContainsSubstring("emulated device") && ContainsSubstring("TF32"));
  // An error thrown in the module is caught here.
  CHECK_THROWS_AS(backend->allocate(size_t(1) << 40), Error);
}

TEST_CASE("device: names", "[device]") {
  std::string reason;
  CHECK(std::string(make_backend("cpu", &reason)->name()) == "cpu");
  for (const char* bad : {"gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:1x", ""}) {
    CHECK_THROWS_AS(make_backend(bad, &reason), UsageError);
  }
  if (automatic_device() == "cpu") {
    const auto backend = make_backend("auto", &reason);
    CHECK(std::string(backend->name()) == "cpu");
    CHECK_THAT(reason, ContainsSubstring("because "));
    CHECK_THROWS_WITH(make_backend("cuda:0", &reason),
                      ContainsSubstring("device \"cuda:0\" cannot be had: "));
  }
}
