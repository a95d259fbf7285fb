// The CUDA C++ language as kernels of this project use it, for an ordinary C++ compiler:
// qualifiers, thread indices, barriers, warp operations, atomics, a few math functions.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "scheduler.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(...)
#define __restrict__ __restrict

struct __attribute__((aligned(8))) float2 {
  float x, y;
};
struct __attribute__((aligned(16))) float4 {
  float x, y, z, w;
};
inline float2 make_float2(float x, float y) {
  return {x, y};
}
inline float4 make_float4(float x, float y, float z, float w) {
  return {x, y, z, w};
}

constexpr int warpSize = 32;
using std::max;
using std::min;

namespace emulator {

template <class T>
uint64_t to_bits(T value) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 8);
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return bits;
}
template <class T>
T from_bits(uint64_t bits) {
  T value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
inline BlockScheduler& scheduler() {
  return BlockScheduler::current();
}
template <class T>
T shuffle(unsigned mask, T value, int source) {
  return from_bits<T>(
      scheduler().warp_exchange(WarpOperation::shuffle, mask, to_bits(value), source));
}
template <class T, class F>
T atomic_update(T* address, F update) {
  std::atomic_ref<T> cell(*address);
  T old = cell.load();
  while (!cell.compare_exchange_weak(old, update(old))) {
  }
  return old;
}

}  // namespace emulator

inline void __syncthreads() {
  emulator::scheduler().block_barrier(false);
}
inline int __syncthreads_count(int predicate) {
  return emulator::scheduler().block_barrier(predicate != 0);
}
inline int __syncthreads_or(int predicate) {
  return __syncthreads_count(predicate) != 0;
}
inline void __syncwarp(unsigned mask = 0xFFFFFFFFu) {
  emulator::scheduler().warp_exchange(emulator::WarpOperation::sync, mask, 0);
}
inline unsigned __ballot_sync(unsigned mask, int predicate) {
  return unsigned(
      emulator::scheduler().warp_exchange(emulator::WarpOperation::ballot, mask, predicate != 0));
}
inline int __any_sync(unsigned mask, int predicate) {
  return __ballot_sync(mask, predicate) != 0;
}
inline int __all_sync(unsigned mask, int predicate) {
  return __ballot_sync(mask, !predicate) == 0;
}
inline unsigned __reduce_add_sync(unsigned mask, unsigned value) {
  return unsigned(emulator::scheduler().warp_exchange(emulator::WarpOperation::add, mask, value));
}
template <class T>
unsigned __match_any_sync(unsigned mask, T value) {
  return unsigned(emulator::scheduler().warp_exchange(emulator::WarpOperation::match, mask,
                                                      emulator::to_bits(value)));
}
// Shuffles within segments of `width` lanes; a source outside the segment gives the lane's own.
template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32) {
  const int lane = emulator::scheduler().lane_in_warp();
  return emulator::shuffle(mask, value, (lane & ~(width - 1)) | (source & (width - 1)));
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32) {
  const int lane = emulator::scheduler().lane_in_warp(), source = lane ^ lane_mask;
  return emulator::shuffle(mask, value, source <= (lane | (width - 1)) ? source : lane);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  const int lane = emulator::scheduler().lane_in_warp(), source = lane + int(delta);
  return emulator::shuffle(mask, value, source <= (lane | (width - 1)) ? source : lane);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  const int lane = emulator::scheduler().lane_in_warp(), source = lane - int(delta);
  return emulator::shuffle(mask, value, source >= (lane & ~(width - 1)) ? source : lane);
}

template <class T, class U>
T atomicAdd(T* address, U value) {
  static_assert(std::is_integral_v<T>, "no float atomics: their order is not defined");
  return std::atomic_ref<T>(*address).fetch_add(T(value));
}
template <class T>
T atomicMax(T* address, std::type_identity_t<T> value) {
  return emulator::atomic_update(address, [value](T old) { return std::max(old, value); });
}
template <class T>
T atomicMin(T* address, std::type_identity_t<T> value) {
  return emulator::atomic_update(address, [value](T old) { return std::min(old, value); });
}
template <class T>
T atomicCAS(T* address, std::type_identity_t<T> expected, std::type_identity_t<T> value) {
  std::atomic_ref<T>(*address).compare_exchange_strong(expected, value);
  return expected;
}
inline void __threadfence() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
}
inline int __popc(unsigned x) {
  return std::popcount(x);
}
inline int __ffs(int x) {
  return x ? std::countr_zero(unsigned(x)) + 1 : 0;
}
inline float rsqrtf(float x) {
  return 1.0f / std::sqrt(x);
}
