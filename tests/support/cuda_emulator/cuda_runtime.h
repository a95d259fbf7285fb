// The part of the CUDA runtime this project uses, emulated. This folder stands first on the
// include path in place of the toolkit's; nothing of it is in the product.
//
// Streams are queues: kernels, copies and fills wait until the host synchronises (or the queue is
// full, as a real device may run at any time). A destination of a copy to the host holds NaN
// until then. During capture the commands are recorded instead, and cudaGraphLaunch queues them.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <tuple>
#include <utility>

#include "kernel.h"
#include "memory.h"

enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInvalidConfiguration = 9,
  cudaErrorInsufficientDriver = 35,
  cudaErrorNoDevice = 100,
  cudaErrorInvalidDevice = 101,
  cudaErrorInvalidResourceHandle = 400,
  cudaErrorIllegalAddress = 700,
  cudaErrorLaunchFailure = 719,
  cudaErrorStreamCaptureUnsupported = 900,
  cudaErrorStreamCaptureInvalidated = 901,
};
enum cudaMemcpyKind {
  cudaMemcpyHostToHost,
  cudaMemcpyHostToDevice,
  cudaMemcpyDeviceToHost,
  cudaMemcpyDeviceToDevice,
};
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };
enum cudaStreamCaptureMode {
  cudaStreamCaptureModeGlobal,
  cudaStreamCaptureModeThreadLocal,
  cudaStreamCaptureModeRelaxed,
};
enum { cudaStreamNonBlocking = 1 };

using cudaStream_t = struct EmulatedStream*;
using cudaGraph_t = struct EmulatedGraph*;
using cudaGraphExec_t = struct EmulatedGraphExec*;

struct cudaDeviceProp {
  char name[256];
  int major, minor, multiProcessorCount, warpSize;
  size_t totalGlobalMem, sharedMemPerBlock, sharedMemPerBlockOptin;
};

cudaError_t cudaGetLastError();
const char* cudaGetErrorString(cudaError_t error);
cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device);
cudaError_t cudaRuntimeGetVersion(int* version);
cudaError_t cudaDriverGetVersion(int* version);

cudaError_t cudaMalloc(void** pointer, size_t bytes);
cudaError_t cudaFree(void* pointer);
cudaError_t cudaMallocHost(void** pointer, size_t bytes);
cudaError_t cudaFreeHost(void* pointer);
cudaError_t cudaMemGetInfo(size_t* available, size_t* total);
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream);
cudaError_t cudaMemsetAsync(void* pointer, int value, size_t bytes, cudaStream_t stream);

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaDeviceSynchronize();

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                 unsigned long long flags = 0);
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);

namespace emulator {

// What the emulated device did, for tests.
struct Counters {
  long long kernels_queued = 0, kernels_run = 0, synchronisations = 0;
  long long graph_launches = 0, allocations = 0, blocks_queued = 0;
  long long streams = 0, handles = 0, graphs = 0;  // alive: cuBLAS handles, graphs to launch
};
Counters& counters();

// Clears the sticky error that a failed kernel leaves, and drops whatever is queued.
void reset();
std::string last_message();
void fail_next_blas_call();  // of those that set a handle up
void set_dynamic_shared_limit(const void* kernel, size_t bytes);

struct KernelLaunch {
  const char* name;
  const void* kernel;
  dim3 grid, block;
  size_t shared;
};
cudaError_t check_launch(const KernelLaunch& launch);
cudaError_t report_argument(const KernelLaunch& launch, int argument, const void* value);
cudaError_t queue_kernel(const KernelLaunch& launch, cudaStream_t stream,
                         std::function<void()> body);
// A library call on the device: runs with device memory open; returns an error text or nothing.
cudaError_t queue_call(cudaStream_t stream, std::function<std::string()> call);

// Null if `value` (a kernel's argument) holds nothing that is an address of the host.
template <class T>
const void* host_pointer_in(const T& value) {
  if constexpr (std::is_pointer_v<T>) {
    const void* pointer = reinterpret_cast<const void*>(value);
    return pointer && !is_device_pointer(pointer) ? pointer : nullptr;
  } else if constexpr (sizeof(T) >= sizeof(void*)) {
    static_assert(std::is_trivially_copyable_v<T>);
#if defined(__has_builtin) && __has_builtin(__builtin_clear_padding)
    T clean = value;
    __builtin_clear_padding(&clean);  // padding may hold the remains of an address
    for (size_t at = 0; at + sizeof(void*) <= sizeof(T); at += sizeof(void*)) {
      const void* word;
      std::memcpy(&word, reinterpret_cast<const char*>(&clean) + at, sizeof word);
      if (looks_like_host_pointer(word)) return word;
    }
#endif
  }
  return nullptr;
}

template <class... P, class... A>
cudaError_t launch(const char* name, void (*kernel)(P...), dim3 grid, dim3 block, size_t shared,
                   cudaStream_t stream, A&&... arguments) {
  const KernelLaunch shape{name, reinterpret_cast<const void*>(kernel), grid, block, shared};
  if (const cudaError_t error = check_launch(shape)) return error;
  std::tuple<std::decay_t<P>...> values(static_cast<P>(std::forward<A>(arguments))...);
  const void* bad = nullptr;
  int index = 0, bad_index = 0;
  std::apply(
      [&](const auto&... value) {
        (((bad = bad ? bad : host_pointer_in(value)), bad_index += bad ? 0 : 1, ++index), ...);
      },
      values);
  if (bad) return report_argument(shape, bad_index, bad);
  return queue_kernel(shape, stream, [kernel, values] { std::apply(kernel, values); });
}

inline void* dynamic_shared() {
  return scheduler().dynamic_shared();
}

}  // namespace emulator

template <class F>
cudaError_t cudaFuncSetAttribute(F* kernel, cudaFuncAttribute, int value) {
  if (value < 0 || value > 99 * 1024) return cudaErrorInvalidValue;
  emulator::set_dynamic_shared_limit(reinterpret_cast<const void*>(kernel), size_t(value));
  return cudaSuccess;
}
