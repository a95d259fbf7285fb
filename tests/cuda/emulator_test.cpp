// The emulator itself: CUDA semantics by the programming guide, and planted faults it must report.
#include <cmath>
#include <cublas_v2.h>
#include <memory>
#include <vector>

#include "cuda/launch.cuh"
#include "tests/catch.h"

using emulator::Order;
using longshot::cuda::launch;

namespace {

// Device array of T with copies that wait.
template <class T>
class Array {
 public:
  explicit Array(size_t n) : n_(n) {
    void* pointer = nullptr;
    if (cudaMalloc(&pointer, n * sizeof(T)) == cudaSuccess) data_ = static_cast<T*>(pointer);
  }
  explicit Array(const std::vector<T>& host) : Array(host.size()) {
    cudaMemcpyAsync(data_, host.data(), n_ * sizeof(T), cudaMemcpyHostToDevice, nullptr);
  }
  ~Array() { cudaFree(data_); }
  Array(const Array&) = delete;
  T* get() const { return data_; }
  std::vector<T> read() const {
    std::vector<T> host(n_);
    REQUIRE(cudaMemcpyAsync(host.data(), data_, n_ * sizeof(T), cudaMemcpyDeviceToHost, nullptr) ==
            cudaSuccess);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    return host;
  }

 private:
  size_t n_;
  T* data_ = nullptr;
};

class InOrder {
 public:
  explicit InOrder(Order order) : saved_(emulator::options().order) {
    emulator::options().order = order;
  }
  ~InOrder() { emulator::options().order = saved_; }

 private:
  Order saved_;
};

// Expects the queued work to fail and returns the message; leaves the emulator clean.
std::string failure() {
  const cudaError_t error = cudaDeviceSynchronize();
  const std::string message = cudaGetErrorString(error);
  CHECK(error == cudaErrorLaunchFailure);
  emulator::reset();
  return message;
}

__global__ void shuffles(int* up, int* down, int* crossed, int* fixed, int width) {
  const int t = int(threadIdx.x);
  up[t] = __shfl_up_sync(~0u, t, 3, width);
  down[t] = __shfl_down_sync(~0u, t, 3, width);
  crossed[t] = __shfl_xor_sync(~0u, t, 5, width);
  fixed[t] = __shfl_sync(~0u, t, 2, width);
}
__global__ void half_warps(int* out) {  // each half in its own branch with its own mask
  const int t = int(threadIdx.x & 31);
  int value;
  if (t < 16) {
    value = t;
    for (int k = 8; k; k >>= 1) value += __shfl_xor_sync(0x0000FFFFu, value, k);
  } else {
    value = 1;
    for (int k = 8; k; k >>= 1) value += __shfl_xor_sync(0xFFFF0000u, value, k);
    value += 1000;
  }
  out[threadIdx.x] = value;
}
__global__ void early_exit(int* out, int n) {
  if (int(threadIdx.x) >= n) return;
  const unsigned odd = __ballot_sync(~0u, threadIdx.x & 1);
  __syncthreads();
  out[threadIdx.x] = __popc(odd);
}
__global__ void votes(unsigned* out) {
  out[threadIdx.x] = unsigned(__any_sync(~0u, threadIdx.x == 5)) * 4u +
                     unsigned(__all_sync(~0u, threadIdx.x < 32)) * 2u +
                     unsigned(__reduce_add_sync(~0u, threadIdx.x) == 496u);
}
__global__ void matches(unsigned* out) {
  out[threadIdx.x] = __match_any_sync(~0u, int(threadIdx.x % 3));
}
__global__ void counts(int* out) {
  out[threadIdx.x] = __syncthreads_count(threadIdx.x % 3 == 0);
}
__global__ void indices(int* out) {
  const unsigned t = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  const unsigned b = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  out[b * blockDim.x * blockDim.y * blockDim.z + t] = int(b * 1000 + t);
}
__global__ void reversed(float* x) {  // through shared memory, with both kinds of array
  LONGSHOT_DYNAMIC_SHARED(float, copy);
  LONGSHOT_SHARED(float, twice, 64);
  const int t = int(threadIdx.x);
  copy[t] = x[t];
  twice[t] = 2 * x[t];
  __syncthreads();
  x[t] = copy[63 - t] + twice[63 - t];
}
__global__ void last_block(float* part, unsigned* ticket, float* out) {
  LONGSHOT_SHARED(int, last, 1);
  if (threadIdx.x == 0) {
    part[blockIdx.x] = float(blockIdx.x + 1);
    __threadfence();
    *last = atomicAdd(ticket, 1u) == gridDim.x - 1;
  }
  __syncthreads();
  if (*last && threadIdx.x == 0) {
    float sum = 0;
    for (unsigned i = 0; i < gridDim.x; ++i) sum += part[i];
    *out = sum;
  }
}
__global__ void add_one(float* x, int n) {
  const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) x[i] += 1;
}

// Planted faults.
__global__ void missing_barrier(const float* x, float* out) {
  LONGSHOT_SHARED(float, shared, 64);
  shared[threadIdx.x] = x[threadIdx.x];
  out[threadIdx.x] = shared[(threadIdx.x + 17) % 64];
}
__global__ void divergent_barrier(float* out) {
  if (threadIdx.x < 17) {
    __syncthreads();
  } else {
    __syncwarp();
  }
  out[threadIdx.x] = 1;
}
__global__ void bad_shuffle(float* out) {
  float value = float(threadIdx.x);
  if (threadIdx.x < 16) value = __shfl_down_sync(0x0000FFFFu, value, 8);
  out[threadIdx.x] = value;
}
__global__ void write_at(float* out, long long index) {
  if (threadIdx.x == 3) out[index] = 1;
}
__global__ void uninitialised_shared(float* out) {
  LONGSHOT_SHARED(float, shared, 32);
  if (threadIdx.x & 1) shared[threadIdx.x] = 1;
  __syncthreads();
  out[threadIdx.x] = shared[threadIdx.x];
}
#if !defined(__SANITIZE_ADDRESS__)  // which itself ends the process at this fault
__global__ void shared_overrun() {
  LONGSHOT_DYNAMIC_SHARED(unsigned char, bytes);
  bytes[blockDim.x + (threadIdx.x == 5 ? 1 : 0) - 1] = 1;
}
#endif
struct Pointers {
  const float* x;
  float* y;
  long long n;
};
__global__ void through_struct(Pointers p) {
  p.y[threadIdx.x] = p.x[threadIdx.x];
}

}  // namespace

TEST_CASE("emulator: shuffles follow the programming guide in every order", "[emulator]") {
  const Order order = GENERATE(Order::forward, Order::reverse, Order::random);
  const int width = GENERATE(32, 16, 8);
  const InOrder guard(order);
  Array<int> up(64), down(64), crossed(64), fixed(64);
  REQUIRE(launch("shuffles", shuffles, 1, 64, 0, nullptr, up.get(), down.get(), crossed.get(),
                 fixed.get(), width) == cudaSuccess);
  const auto u = up.read(), d = down.read(), c = crossed.read(), f = fixed.read();
  for (int t = 0; t < 64; ++t) {
    const int lane = t & 31, warp = t & ~31, begin = lane & ~(width - 1), end = begin + width;
    CHECK(u[size_t(t)] == warp + (lane - 3 >= begin ? lane - 3 : lane));
    CHECK(d[size_t(t)] == warp + (lane + 3 < end ? lane + 3 : lane));
    CHECK(c[size_t(t)] == warp + ((lane ^ 5) < end ? (lane ^ 5) : lane));
    CHECK(f[size_t(t)] == warp + begin + 2);
  }
}

TEST_CASE("emulator: masks, early exits, votes, matches and indices", "[emulator]") {
  const InOrder guard(GENERATE(Order::forward, Order::reverse, Order::random));
  Array<int> out(512);
  REQUIRE(launch("half_warps", half_warps, 1, 64, 0, nullptr, out.get()) == cudaSuccess);
  auto values = out.read();
  for (size_t t = 0; t < 64; ++t) CHECK(values[t] == ((t & 31) < 16 ? 120 : 1016));
  REQUIRE(launch("early_exit", early_exit, 1, 96, 0, nullptr, out.get(), 50) == cudaSuccess);
  values = out.read();
  for (size_t t = 0; t < 50; ++t) CHECK(values[t] == (t < 32 ? 16 : 9));
  REQUIRE(launch("counts", counts, 1, 100, 0, nullptr, out.get()) == cudaSuccess);
  values = out.read();
  for (size_t t = 0; t < 100; ++t) CHECK(values[t] == 34);
  Array<unsigned> flags(32);
  REQUIRE(launch("votes", votes, 1, 32, 0, nullptr, flags.get()) == cudaSuccess);
  for (unsigned flag : flags.read()) CHECK(flag == 7u);
  REQUIRE(launch("matches", matches, 1, 32, 0, nullptr, flags.get()) == cudaSuccess);
  const auto groups = flags.read();
  for (size_t t = 0; t < 32; ++t) {
    unsigned expected = 0;
    for (size_t k = t % 3; k < 32; k += 3) expected |= 1u << k;
    CHECK(groups[t] == expected);
  }
  REQUIRE(launch("indices", indices, dim3(2, 3, 2), dim3(3, 2, 4), 0, nullptr, out.get()) ==
          cudaSuccess);
  values = out.read();
  for (size_t i = 0; i < 12 * 24; ++i) CHECK(values[i] == int(i / 24 * 1000 + i % 24));
}

TEST_CASE("emulator: shared memory and the last-block pattern", "[emulator]") {
  const InOrder guard(GENERATE(Order::forward, Order::reverse, Order::random));
  std::vector<float> host(64);
  for (size_t i = 0; i < 64; ++i) host[i] = float(i);
  Array<float> x(host);
  REQUIRE(launch("reversed", reversed, 1, 64, 64 * sizeof(float), nullptr, x.get()) == cudaSuccess);
  const auto values = x.read();
  for (size_t i = 0; i < 64; ++i) CHECK(values[i] == 3.0f * float(63 - i));
  Array<float> part(50), out(1);
  Array<unsigned> ticket(std::vector<unsigned>{0});
  REQUIRE(launch("last_block", last_block, 50, 64, 0, nullptr, part.get(), ticket.get(),
                 out.get()) == cudaSuccess);
  CHECK(out.read()[0] == 1275.0f);
}

TEST_CASE("emulator: a missing barrier changes the result", "[emulator]") {
  std::vector<float> host(64);
  for (size_t i = 0; i < 64; ++i) host[i] = float(i);
  Array<float> x(host), out(64);
  int wrong_orders = 0;
  for (Order order : {Order::forward, Order::reverse, Order::random}) {
    const InOrder guard(order);
    REQUIRE(launch("missing_barrier", missing_barrier, 1, 64, 0, nullptr, x.get(), out.get()) ==
            cudaSuccess);
    const auto values = out.read();
    bool wrong = false;
    for (size_t i = 0; i < 64; ++i) wrong = wrong || values[i] != float((i + 17) % 64);
    wrong_orders += wrong;
  }
  CHECK(wrong_orders == 3);
}

TEST_CASE("emulator: reports divergent barriers, bad shuffles and bad addresses", "[emulator]") {
  Array<float> out(64);
  launch("divergent_barrier", divergent_barrier, 1, 32, 0, nullptr, out.get());
  CHECK_THAT(failure(), ContainsSubstring("kernel divergent_barrier: divergent barrier: 17 lanes "
                                          "wait at __syncthreads, 15 at a warp operation"));
  launch("bad_shuffle", bad_shuffle, 1, 32, 0, nullptr, out.get());
  CHECK_THAT(failure(), ContainsSubstring("shuffle reads lane 16, which takes no part"));
  // 64 floats end exactly at the guard page.
  launch("write_at", write_at, 1, 32, 0, nullptr, out.get(), 64LL);
  CHECK_THAT(failure(), ContainsSubstring("outside every live allocation of the device") &&
                            ContainsSubstring("thread (3, 0, 0)"));
  Array<float> odd(3);  // ends within the alignment: seen by the bytes behind it
  launch("write_at", write_at, 1, 32, 0, nullptr, odd.get(), 3LL);
  CHECK_THAT(failure(), ContainsSubstring("write past the end of an allocation of 12 bytes"));
}

TEST_CASE("emulator: a use after the release faults", "[emulator]") {
  float* stale = nullptr;
  {
    Array<float> gone(64);
    stale = gone.get();
  }
  // The argument check already refuses it; nothing is queued.
  CHECK(launch("write_at", write_at, 1, 32, 0, nullptr, stale, 0LL) == cudaErrorIllegalAddress);
  CHECK_THAT(emulator::last_message(), ContainsSubstring("outside every live allocation"));
  emulator::reset();
  CHECK(cudaFree(stale) == cudaErrorInvalidValue);
  emulator::reset();
}

TEST_CASE("emulator: uninitialised memory is NaN", "[emulator]") {
  Array<float> out(32);
  for (float value : out.read()) CHECK(std::isnan(value));
  REQUIRE(launch("uninitialised_shared", uninitialised_shared, 1, 32, 0, nullptr, out.get()) ==
          cudaSuccess);
  const auto values = out.read();
  for (size_t i = 0; i < 32; ++i) CHECK(std::isnan(values[i]) == (i % 2 == 0));
}

#if !defined(__SANITIZE_ADDRESS__)
TEST_CASE("emulator: a write past shared memory is reported", "[emulator]") {
  launch("shared_overrun", shared_overrun, 1, 32, 32, nullptr);
  CHECK_THAT(failure(), ContainsSubstring("write past the end of a shared array"));
}
#endif

TEST_CASE("emulator: host pointers do not reach a kernel", "[emulator]") {
  std::vector<float> heap(64, 1.0f);
  float stack[64] = {};
  Array<float> out(64);
  CHECK(launch("add_one", add_one, 1, 64, 0, nullptr, heap.data(), 64) == cudaErrorIllegalAddress);
  CHECK_THAT(emulator::last_message(), ContainsSubstring("kernel add_one: argument 0") &&
                                           ContainsSubstring("not an address"));
  CHECK(launch("add_one", add_one, 1, 64, 0, nullptr, stack, 64) == cudaErrorIllegalAddress);
  const Pointers hidden{heap.data(), out.get(), 64};
  CHECK(launch("through_struct", through_struct, 1, 64, 0, nullptr, hidden) ==
        cudaErrorIllegalAddress);
  emulator::reset();
}

TEST_CASE("emulator: device memory is closed to the host", "[emulator]") {
  Array<float> x(std::vector<float>(64, 1.0f));
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  volatile float sink = 0;
  const float* address = x.get();
  CHECK_THAT(emulator::expect_host_fault([&] { sink = *address; }),
             ContainsSubstring("used on the host"));
  CHECK(emulator::expect_host_fault([&] { sink = 1; }).empty());
}

TEST_CASE("emulator: nothing runs before the host waits", "[emulator]") {
  Array<float> x(std::vector<float>(8, 1.0f));
  const long long before = emulator::counters().kernels_run;
  REQUIRE(launch("add_one", add_one, 1, 8, 0, nullptr, x.get(), 8) == cudaSuccess);
  std::vector<float> host(8, 5.0f);
  REQUIRE(cudaMemcpyAsync(host.data(), x.get(), 32, cudaMemcpyDeviceToHost, nullptr) ==
          cudaSuccess);
  CHECK(std::isnan(host[0]));  // neither the old value nor the result
  CHECK(emulator::counters().kernels_run == before);
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  CHECK(host[0] == 2.0f);
  CHECK(emulator::counters().kernels_run == before + 1);
}

TEST_CASE("emulator: a pageable source may change after the copy, a pinned one may not",
          "[emulator]") {
  Array<float> x(1);
  float pageable = 1;
  cudaMemcpyAsync(x.get(), &pageable, 4, cudaMemcpyHostToDevice, nullptr);
  pageable = 2;
  CHECK(x.read()[0] == 1.0f);
  void* memory = nullptr;
  REQUIRE(cudaMallocHost(&memory, 4) == cudaSuccess);
  float* pinned = static_cast<float*>(memory);
  *pinned = 1;
  cudaMemcpyAsync(x.get(), pinned, 4, cudaMemcpyHostToDevice, nullptr);
  *pinned = 2;
  CHECK(x.read()[0] == 2.0f);
  cudaFreeHost(memory);
}

TEST_CASE("emulator: bad launches are refused", "[emulator]") {
  Array<float> x(1);
  CHECK(launch("add_one", add_one, 0, 32, 0, nullptr, x.get(), 0) == cudaErrorInvalidConfiguration);
  CHECK(launch("add_one", add_one, 1, 1025, 0, nullptr, x.get(), 0) ==
        cudaErrorInvalidConfiguration);
  CHECK(launch("add_one", add_one, dim3(1, 65536), 1, 0, nullptr, x.get(), 0) ==
        cudaErrorInvalidConfiguration);
  CHECK(launch("add_one", add_one, 1, 1, 49 << 10, nullptr, x.get(), 0) == cudaErrorInvalidValue);
  CHECK(cudaFuncSetAttribute(add_one, cudaFuncAttributeMaxDynamicSharedMemorySize, 200 << 10) ==
        cudaErrorInvalidValue);
  REQUIRE(cudaFuncSetAttribute(add_one, cudaFuncAttributeMaxDynamicSharedMemorySize, 64 << 10) ==
          cudaSuccess);
  CHECK(launch("add_one", add_one, 1, 1, 49 << 10, nullptr, x.get(), 0) == cudaSuccess);
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  emulator::reset();
}

TEST_CASE("emulator: running out of memory is an error, not a crash", "[emulator]") {
  void* pointer = nullptr;
  CHECK(cudaMalloc(&pointer, size_t(1) << 45) == cudaErrorMemoryAllocation);
  CHECK(pointer == nullptr);
  emulator::reset();
}

TEST_CASE("emulator: a captured graph replays on the memory as it is then", "[emulator][capture]") {
  cudaStream_t stream = nullptr;
  REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
  Array<float> x(std::vector<float>(8, 1.0f));
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
  launch("add_one", add_one, 1, 8, 0, stream, x.get(), 8);
  launch("add_one", add_one, 1, 8, 0, stream, x.get(), 8);
  cudaGraph_t graph = nullptr;
  REQUIRE(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
  CHECK(x.read()[0] == 1.0f);  // recorded, not run
  cudaGraphExec_t executable = nullptr;
  REQUIRE(cudaGraphInstantiate(&executable, graph, 0) == cudaSuccess);
  for (int i = 0; i < 3; ++i) REQUIRE(cudaGraphLaunch(executable, stream) == cudaSuccess);
  REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
  CHECK(x.read()[0] == 7.0f);
  cudaGraphExecDestroy(executable);
  cudaGraphDestroy(graph);
  cudaStreamDestroy(stream);
}

TEST_CASE("emulator: waiting, allocating or pageable copies spoil a capture",
          "[emulator][capture]") {
  cudaStream_t stream = nullptr;
  REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
  Array<float> x(8);
  const int fault = GENERATE(0, 1, 2);
  REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
  float host = 0;
  void* pointer = nullptr;
  if (fault == 0) CHECK(cudaStreamSynchronize(stream) == cudaErrorStreamCaptureUnsupported);
  if (fault == 1) CHECK(cudaMalloc(&pointer, 4) == cudaErrorStreamCaptureUnsupported);
  if (fault == 2) {
    CHECK(cudaMemcpyAsync(x.get(), &host, 4, cudaMemcpyHostToDevice, stream) ==
          cudaErrorStreamCaptureUnsupported);
  }
  cudaGraph_t graph = nullptr;
  CHECK(cudaStreamEndCapture(stream, &graph) == cudaErrorStreamCaptureInvalidated);
  CHECK(graph == nullptr);
  cudaStreamDestroy(stream);
  emulator::reset();
}

TEST_CASE("emulator: the matrix product is column-major and checks its arguments", "[emulator]") {
  // a (2 x 3) and b (3 x 2), column by column; c = a b.
  Array<float> a(std::vector<float>{1, 4, 2, 5, 3, 6}), b(std::vector<float>{7, 9, 11, 8, 10, 12});
  Array<float> c(4), workspace(1024);
  cublasHandle_t handle = nullptr;
  REQUIRE(cublasCreate(&handle) == CUBLAS_STATUS_SUCCESS);
  const float one = 1, zero = 0;
  const auto product = [&](int lda) {
    return cublasGemmStridedBatchedEx(handle, CUBLAS_OP_N, CUBLAS_OP_N, 2, 2, 3, &one, a.get(),
                                      CUDA_R_32F, lda, 0, b.get(), CUDA_R_32F, 3, 0, &zero, c.get(),
                                      CUDA_R_32F, 2, 0, 1, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
  };
  CHECK(product(2) == CUBLAS_STATUS_NOT_INITIALIZED);  // no workspace
  REQUIRE(cublasSetWorkspace(handle, workspace.get(), 4096) == CUBLAS_STATUS_SUCCESS);
  CHECK(product(1) == CUBLAS_STATUS_INVALID_VALUE);
  REQUIRE(product(2) == CUBLAS_STATUS_SUCCESS);
  CHECK(c.read() == std::vector<float>{58, 139, 64, 154});
  cublasDestroy(handle);
}
