// The backend as such: what it refuses, and in which words.
#include <cuda_runtime.h>

#include "core/capture.h"
#include "cuda/cuda_backend.h"
#include "tests/cuda/devices.h"
#include "tests/support/cuda_emulator/memory.h"

using namespace longshot;
using longshot::test::Devices;

TEST_CASE("cuda: only f32 is taken, and the sentence says so", "[cuda]") {
  Devices d;
  const auto x = d.random(4);
  CHECK_THROWS_WITH(d.other().unary({.dtype = DType::f64, .n = 2, .x = x[1], .y = x[1]}),
                    ContainsSubstring("cuda: unary: only f32 runs on this device, got f64"));
  CHECK_FALSE(d.other().supports(DType::f64));
  CHECK(d.other().supports(DType::f32));
  CHECK_FALSE(d.other().host_accessible());
}

TEST_CASE("cuda: out of memory says how much was asked for, and the device goes on", "[cuda]") {
  Devices d;
  CHECK_THROWS_WITH(d.other().allocate(size_t(1) << 40),
                    ContainsSubstring("cuda: out of device memory: 1099511627776 bytes asked for"));
  const auto x = d.random(4), y = d.output(4);
  d.run([&](Backend& b, int s) { b.unary({.n = 4, .x = x[s], .y = y[s]}); });
  d.check(y, "after running out");
}

TEST_CASE("cuda: a backend that cannot be made, or dies amid a recording, holds nothing back",
          "[cuda]") {
  const emulator::Counters before = emulator::counters();
  const size_t used = emulator::device_memory_used(), limit = emulator::device_memory_limit();
  const auto check_released = [&] {
    const emulator::Counters now = emulator::counters();
    CHECK(now.streams == before.streams);
    CHECK(now.handles == before.handles);
    CHECK(now.graphs == before.graphs);
    CHECK(emulator::device_memory_used() == used);
  };
  // The workspace is 16 MiB, what cuBLAS gets at least 4 more.
  for (const size_t bytes : {size_t(1) << 20, size_t(17) << 20}) {
    emulator::set_device_memory_limit(used + bytes);
    CHECK_THROWS_WITH(cuda::make_cuda_backend({}), ContainsSubstring("out of device memory"));
    emulator::set_device_memory_limit(limit);
    check_released();
  }
  emulator::fail_next_blas_call();
  CHECK_THROWS_WITH(cuda::make_cuda_backend({}), ContainsSubstring("cuBLAS"));
  check_released();
  {
    const auto backend = cuda::make_cuda_backend({});
    dynamic_cast<StepRecorder&>(*backend).begin_capture();
  }
  check_released();
}
