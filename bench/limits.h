// What the kernels are measured against, measured in turn with them: this machine's FMA peak or
// memory bandwidth, and a peer that does the same work.
//
// Neighbours on the same hardware and changing clocks move every figure by a third within minutes.
// So short slices of kernel, limit and peer alternate and the fastest of each counts: one
// undisturbed moment is enough, and what disturbs for longer disturbs all of them.
#pragma once

#include <algorithm>
#include <benchmark/benchmark.h>
#include <chrono>
#include <cstdint>
#include <new>
#include <type_traits>
#include <vector>

#include "core/cpu/pages.h"

namespace longshot::bench {

constexpr int64_t kElements = int64_t(96) << 20;  // of an array beyond every cache: 384 MB of f32

// One slice of a limit: FLOP/s (f32, about 2 ms), bytes/s of a copy of such an array, its
// write-allocate counted, and of reading one, which is slower: a core keeps fewer requests open
// without stores.
double peak_slice();
double copy_slice();
double read_slice();

constexpr double kSeconds = 1.0;        // for one benchmark, at least kLeastSlices slices of each
constexpr double kSliceSeconds = 4e-3;  // a slice is at least one call
constexpr int kLeastSlices = 10;

// Seconds a call over one slice. `warm`: after a call that only fills the caches again.
template <class Call>
double slice(const Call& call, bool warm) {
  using Clock = std::chrono::steady_clock;
  if (warm) call();
  const auto start = Clock::now();
  for (int64_t calls = 1;; ++calls) {
    call();
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    if (seconds > kSliceSeconds) return seconds / double(calls);
  }
}

struct Measured {
  double seconds;  // a call of the kernel
  double limit;    // FLOP/s or bytes/s
  double peer;     // seconds a call, 0 without a peer
};
struct NoPeer {};

template <class Kernel, class Limit, class Peer = NoPeer>
Measured in_turn(bool warm, const Kernel& kernel, const Limit& limit, const Peer& peer = {}) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration<double>(kSeconds);
  Measured best{1e30, 0, 0};
  for (int done = 0; done < kLeastSlices || Clock::now() < end; ++done) {
    best.limit = std::max(best.limit, limit());
    best.seconds = std::min(best.seconds, slice(kernel, warm));
    if constexpr (!std::is_same_v<Peer, NoPeer>) {
      const double seconds = slice(peer, warm);
      best.peer = done == 0 ? seconds : std::min(best.peer, seconds);
    }
  }
  return best;
}

// The one iteration that Google Benchmark sees takes as long as a call. Counters: GFLOP/s,
// share_of_peak, and times_peer (the peer's time over ours) where there is one.
template <class Kernel, class Peer = NoPeer>
void against_peak(benchmark::State& state, double flops, const Kernel& kernel,
                  const Peer& peer = {}) {
  for (auto _ : state) {
    const Measured m = in_turn(true, kernel, peak_slice, peer);
    state.SetIterationTime(m.seconds);
    state.counters["GFLOP/s"] = 1e-9 * flops / m.seconds;
    state.counters["share_of_peak"] = flops / m.seconds / m.limit;
    state.counters["times_peer"] = m.peer / m.seconds;  // 0 without: a CSV has one set of columns
  }
}

// Counters: bytes_per_second, and over_traffic, the time over what `bytes` take at the rate of
// `limit`.
template <class Kernel, class Limit>
void against_bandwidth(benchmark::State& state, double bytes, const Kernel& kernel,
                       const Limit& limit) {
  for (auto _ : state) {
    const Measured m = in_turn(false, kernel, limit);
    state.SetIterationTime(m.seconds);
    state.counters["bytes_per_second"] = bytes / m.seconds;
    state.counters["over_traffic"] = m.seconds * m.limit / bytes;
  }
}

// Operands lie where a model's tensors lie: 64-byte aligned, on huge pages where there are some.
template <class T>
struct PageAllocator {
  using value_type = T;
  PageAllocator() = default;
  template <class U>
  PageAllocator(const PageAllocator<U>&) {}
  T* allocate(size_t n) {
    void* memory = cpu::allocate_pages(n * sizeof(T));
    if (memory == nullptr) throw std::bad_alloc();
    return static_cast<T*>(memory);
  }
  void deallocate(T* memory, size_t) { cpu::release_pages(memory); }
  bool operator==(const PageAllocator&) const { return true; }
};
using Floats = std::vector<float, PageAllocator<float>>;

Floats random_floats(int64_t n, uint32_t stream);

}  // namespace longshot::bench
