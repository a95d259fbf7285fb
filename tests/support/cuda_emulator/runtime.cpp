#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <set>
#include <vector>

#include "cuda_runtime.h"

using emulator::DeviceAccess;

namespace {
using Command = std::function<std::string()>;  // an error text, or empty
constexpr size_t kQueueLimit = 1024;           // what a real driver holds
constexpr size_t kSharedLimit = 48 << 10;
}  // namespace

struct EmulatedGraph {
  std::vector<Command> commands;
};
struct EmulatedGraphExec {
  std::vector<Command> commands;
};
struct EmulatedStream {
  std::deque<Command> queue;
  std::unique_ptr<EmulatedGraph> capture;  // while capturing
  bool capture_broken = false;
};

namespace emulator {
namespace {

struct State {
  std::recursive_mutex mutex;
  std::set<EmulatedStream*> streams;
  std::map<const void*, size_t> shared_limits;
  std::map<char*, size_t> pinned;
  cudaError_t last = cudaSuccess;
  cudaError_t sticky = cudaSuccess;
  std::string message;
  Counters counters;
  EmulatedStream default_stream;
};
State& state() {
  static State* instance = new State;
  return *instance;
}

cudaError_t fail(cudaError_t error, std::string message = {}) {
  State& s = state();
  s.last = error;
  if (!message.empty()) s.message = std::move(message);
  return error;
}

EmulatedStream& stream_of(cudaStream_t stream) {
  return stream ? *stream : state().default_stream;
}

// A call that would wait, or change memory, while a stream records: an error that also spoils the
// recording, as on a real device.
bool spoils_capture() {
  bool capturing = false;
  for (EmulatedStream* stream : state().streams) {
    if (!stream->capture) continue;
    stream->capture_broken = true;
    capturing = true;
  }
  return capturing;
}

cudaError_t drain(EmulatedStream& stream) {
  State& s = state();
  if (s.sticky) return s.last = s.sticky;
  if (stream.queue.empty()) return cudaSuccess;
  const DeviceAccess access;
  while (!stream.queue.empty()) {
    const Command command = std::move(stream.queue.front());
    stream.queue.pop_front();
    std::string error = command();
    if (error.empty() && stream.queue.empty()) error = check_allocation_ends();
    if (!error.empty()) {
      stream.queue.clear();
      s.message = error;
      s.sticky = cudaErrorLaunchFailure;
      return s.last = s.sticky;
    }
  }
  return cudaSuccess;
}

cudaError_t drain_all() {
  for (EmulatedStream* stream : state().streams) {
    if (const cudaError_t error = drain(*stream)) return error;
  }
  return drain(state().default_stream);
}

cudaError_t queue(cudaStream_t handle, Command command) {
  State& s = state();
  if (s.sticky) return s.last = s.sticky;
  EmulatedStream& stream = stream_of(handle);
  if (stream.capture) {
    stream.capture->commands.push_back(std::move(command));
    return cudaSuccess;
  }
  stream.queue.push_back(std::move(command));
  return stream.queue.size() >= kQueueLimit ? drain(stream) : cudaSuccess;
}

std::string run_grid(const KernelLaunch& launch, const std::function<void()>& body) {
  const int64_t blocks = int64_t(launch.grid.x) * launch.grid.y * launch.grid.z;
  std::vector<int64_t> order(static_cast<size_t>(blocks));
  std::iota(order.begin(), order.end(), int64_t(0));
  if (options().order == Order::reverse) std::reverse(order.begin(), order.end());
  if (options().order == Order::random) {
    uint64_t x = options().seed * 2654435761u + 12345;
    for (size_t i = order.size(); i > 1; --i) {
      x = x * 6364136223846793005ull + 1442695040888963407ull;
      std::swap(order[i - 1], order[(x >> 33) % i]);
    }
  }
  std::string error;
  std::atomic<bool> failed{false};
#pragma omp parallel for schedule(dynamic) if (blocks > 1)
  for (int64_t i = 0; i < blocks; ++i) {
    if (failed.load(std::memory_order_relaxed)) continue;
    const uint64_t block = uint64_t(order[size_t(i)]);
    gridDim = launch.grid;
    blockDim = launch.block;
    blockIdx = {unsigned(block % launch.grid.x), unsigned(block / launch.grid.x % launch.grid.y),
                unsigned(block / launch.grid.x / launch.grid.y)};
    const auto call = [](const void* f) { (*static_cast<const std::function<void()>*>(f))(); };
    const std::string problem = BlockScheduler::current().run(call, &body, launch.shared);
    if (problem.empty()) continue;
#pragma omp critical(longshot_emulator_error)
    error = problem;
    failed = true;
  }
  return error.empty() ? error : std::string("kernel ") + launch.name + ": " + error;
}

}  // namespace

Counters& counters() {
  return state().counters;
}
std::string last_message() {
  return state().message;
}
void set_dynamic_shared_limit(const void* kernel, size_t bytes) {
  state().shared_limits[kernel] = bytes;
}

void reset() {
  State& s = state();
  s.last = s.sticky = cudaSuccess;
  s.message.clear();
  s.default_stream.queue.clear();
  for (EmulatedStream* stream : s.streams) {
    stream->queue.clear();
    stream->capture.reset();
  }
}

cudaError_t check_launch(const KernelLaunch& launch) {
  const dim3 &grid = launch.grid, &block = launch.block;
  const uint64_t threads = uint64_t(block.x) * block.y * block.z;
  const bool good = threads >= 1 && threads <= 1024 && block.z <= 64 && grid.x >= 1 &&
                    grid.y >= 1 && grid.z >= 1 && grid.x <= 0x7FFFFFFFu && grid.y <= 65535 &&
                    grid.z <= 65535;
  if (!good) return fail(cudaErrorInvalidConfiguration);
  const auto found = state().shared_limits.find(launch.kernel);
  const size_t limit =
      found == state().shared_limits.end() ? kSharedLimit : std::max(kSharedLimit, found->second);
  if (launch.shared > limit) return fail(cudaErrorInvalidValue);
  return cudaSuccess;
}

cudaError_t report_argument(const KernelLaunch& launch, int argument, const void* value) {
  char text[300];
  std::snprintf(text, sizeof text, "kernel %s: argument %d holds the address %s", launch.name,
                argument, describe_address(value).c_str());
  return fail(cudaErrorIllegalAddress, text);
}

cudaError_t queue_kernel(const KernelLaunch& launch, cudaStream_t stream,
                         std::function<void()> body) {
  const std::lock_guard lock(state().mutex);
  ++state().counters.kernels_queued;
  state().counters.blocks_queued +=
      static_cast<long long>(launch.grid.x) * launch.grid.y * launch.grid.z;
  return queue(stream, [launch, body = std::move(body)] {
    ++state().counters.kernels_run;
    return run_grid(launch, body);
  });
}

cudaError_t queue_call(cudaStream_t stream, std::function<std::string()> call) {
  const std::lock_guard lock(state().mutex);
  ++state().counters.kernels_queued;
  return queue(stream, [call = std::move(call)] {
    ++state().counters.kernels_run;
    return call();
  });
}

}  // namespace emulator

using emulator::fail;
using emulator::state;

cudaError_t cudaGetLastError() {
  auto& s = state();
  const cudaError_t error = s.sticky ? s.sticky : s.last;
  s.last = cudaSuccess;
  return error;
}

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorInvalidValue:
      return "invalid argument";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInvalidConfiguration:
      return "invalid configuration argument";
    case cudaErrorInsufficientDriver:
      return "CUDA driver version is insufficient";
    case cudaErrorNoDevice:
      return "no CUDA-capable device is detected";
    case cudaErrorInvalidDevice:
      return "invalid device ordinal";
    case cudaErrorInvalidResourceHandle:
      return "invalid resource handle";
    case cudaErrorStreamCaptureUnsupported:
      return "operation not permitted when stream is capturing";
    case cudaErrorStreamCaptureInvalidated:
      return "operation failed due to a previous error during capture";
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchFailure:
      return state().message.c_str();
  }
  return "unknown error";
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  return device == 0 ? cudaSuccess : fail(cudaErrorInvalidDevice);
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (device != 0) return fail(cudaErrorInvalidDevice);
  *properties = {};
  std::snprintf(properties->name, sizeof properties->name, "emulated device");
  properties->major = 8;
  properties->minor = 6;
  properties->multiProcessorCount = 2;
  properties->warpSize = 32;
  properties->totalGlobalMem = emulator::device_memory_limit();
  properties->sharedMemPerBlock = kSharedLimit;
  properties->sharedMemPerBlockOptin = 99 << 10;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}

// As new as the runtime, unless a test wants another (LONGSHOT_EMULATOR_DRIVER=12040; 0: none).
cudaError_t cudaDriverGetVersion(int* version) {
  const char* wanted = std::getenv("LONGSHOT_EMULATOR_DRIVER");
  if (!wanted) return cudaRuntimeGetVersion(version);
  *version = std::atoi(wanted);
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** pointer, size_t bytes) {
  const std::lock_guard lock(state().mutex);
  *pointer = nullptr;
  if (emulator::spoils_capture()) return fail(cudaErrorStreamCaptureUnsupported);
  ++state().counters.allocations;
  *pointer = emulator::device_allocate(bytes);
  return *pointer ? cudaSuccess : fail(cudaErrorMemoryAllocation);
}
cudaError_t cudaFree(void* pointer) {
  const std::lock_guard lock(state().mutex);
  if (!pointer) return cudaSuccess;
  if (emulator::spoils_capture()) return fail(cudaErrorStreamCaptureUnsupported);
  const cudaError_t error = emulator::drain_all();
  if (!emulator::device_release(pointer)) return fail(cudaErrorInvalidValue);
  return error;
}
cudaError_t cudaMallocHost(void** pointer, size_t bytes) {
  const std::lock_guard lock(state().mutex);
  *pointer = std::malloc(bytes ? bytes : 1);
  state().pinned[static_cast<char*>(*pointer)] = bytes;
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* pointer) {
  const std::lock_guard lock(state().mutex);
  const cudaError_t error = emulator::drain_all();
  state().pinned.erase(static_cast<char*>(pointer));
  std::free(pointer);
  return error;
}
cudaError_t cudaMemGetInfo(size_t* available, size_t* total) {
  *total = emulator::device_memory_limit();
  *available = *total - emulator::device_memory_used();
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  auto& s = state();
  const std::lock_guard lock(s.mutex);
  if (bytes == 0) return cudaSuccess;
  const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  const auto fits = [&](const void* p, bool device) {
    return device ? emulator::is_device_pointer(p) &&
                        emulator::is_device_pointer(static_cast<const char*>(p) + bytes)
                  : !emulator::in_device_region(p);
  };
  if (!fits(to, to_device) || !fits(from, from_device)) return fail(cudaErrorInvalidValue);
  const auto is_pinned = [&](const void* p) {
    auto found = s.pinned.upper_bound(static_cast<char*>(const_cast<void*>(p)));
    if (found == s.pinned.begin()) return false;
    --found;
    return static_cast<const char*>(p) + bytes <= found->first + found->second;
  };
  const bool capturing = emulator::stream_of(stream).capture != nullptr;
  if (kind == cudaMemcpyHostToDevice && !is_pinned(from)) {
    // Pageable memory is staged before the call returns; a graph would read it at every launch.
    if (capturing && emulator::spoils_capture()) return fail(cudaErrorStreamCaptureUnsupported);
    const char* begin = static_cast<const char*>(from);
    auto staged = std::make_shared<std::vector<char>>(begin, begin + bytes);
    return emulator::queue(stream, [to, staged] {
      std::memcpy(to, staged->data(), staged->size());
      return std::string();
    });
  }
  if (kind == cudaMemcpyDeviceToHost) {
    if (capturing && !is_pinned(to) && emulator::spoils_capture()) {
      return fail(cudaErrorStreamCaptureUnsupported);
    }
    if (!capturing) std::memset(to, 0xFF, bytes);  // not there until the host has waited
  }
  return emulator::queue(stream, [to, from, bytes] {
    std::memmove(to, from, bytes);
    return std::string();
  });
}

cudaError_t cudaMemsetAsync(void* pointer, int value, size_t bytes, cudaStream_t stream) {
  const std::lock_guard lock(state().mutex);
  if (bytes == 0) return cudaSuccess;
  if (!emulator::is_device_pointer(pointer) ||
      !emulator::is_device_pointer(static_cast<char*>(pointer) + bytes)) {
    return fail(cudaErrorInvalidValue);
  }
  return emulator::queue(stream, [pointer, value, bytes] {
    std::memset(pointer, value, bytes);
    return std::string();
  });
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  const std::lock_guard lock(state().mutex);
  *stream = std::make_unique<EmulatedStream>().release();
  state().streams.insert(*stream);
  ++state().counters.streams;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const std::lock_guard lock(state().mutex);
  if (state().streams.erase(stream) == 0) return fail(cudaErrorInvalidResourceHandle);
  const std::unique_ptr<EmulatedStream> owner(stream);
  --state().counters.streams;
  return emulator::drain(*owner);
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  const std::lock_guard lock(state().mutex);
  if (emulator::stream_of(stream).capture && emulator::spoils_capture()) {
    return fail(cudaErrorStreamCaptureUnsupported);
  }
  ++state().counters.synchronisations;
  return emulator::drain(emulator::stream_of(stream));
}
cudaError_t cudaDeviceSynchronize() {
  const std::lock_guard lock(state().mutex);
  if (emulator::spoils_capture()) return fail(cudaErrorStreamCaptureUnsupported);
  ++state().counters.synchronisations;
  return emulator::drain_all();
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  const std::lock_guard lock(state().mutex);
  if (!stream || stream->capture) return fail(cudaErrorStreamCaptureUnsupported);
  stream->capture = std::make_unique<EmulatedGraph>();
  stream->capture_broken = false;
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const std::lock_guard lock(state().mutex);
  *graph = nullptr;
  if (!stream || !stream->capture) return fail(cudaErrorInvalidValue);
  const std::unique_ptr<EmulatedGraph> recorded = std::move(stream->capture);
  if (stream->capture_broken) return fail(cudaErrorStreamCaptureInvalidated);
  *graph = std::make_unique<EmulatedGraph>(*recorded).release();
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                 unsigned long long) {
  *executable = std::make_unique<EmulatedGraphExec>(EmulatedGraphExec{graph->commands}).release();
  ++state().counters.graphs;
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  const std::lock_guard lock(state().mutex);
  ++state().counters.graph_launches;
  return emulator::queue(stream, [commands = executable->commands]() -> std::string {
    for (const Command& command : commands) {
      std::string error = command();
      if (!error.empty()) return error;
    }
    return std::string();
  });
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  const std::unique_ptr<EmulatedGraphExec> owner(executable);
  --state().counters.graphs;
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  const std::unique_ptr<EmulatedGraph> owner(graph);
  return cudaSuccess;
}
