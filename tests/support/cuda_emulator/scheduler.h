// Runs one block of a CUDA kernel on the calling CPU thread.
//
// Every CUDA thread ("lane") runs until it meets a barrier or a warp operation; only then does it
// need a stack of its own, so lanes are fibers that are created lazily and a kernel without
// barriers is a plain loop. Lanes are taken in forward, reverse or random order: code that
// depends on the order (a missing __syncthreads) gives different results in the three.
//
// Found and reported, with block and thread: barriers that not all lanes reach, warp operations
// whose masks do not fit, shuffles from lanes that take no part, writes past the end of shared
// arrays, addresses that belong to no allocation. Shared memory starts as NaN.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

struct uint3 {
  unsigned x, y, z;
};
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}
};

inline constinit thread_local uint3 threadIdx{};
inline constinit thread_local uint3 blockIdx{};
inline constinit thread_local dim3 blockDim{};
inline constinit thread_local dim3 gridDim{};

namespace emulator {

enum class Order : uint8_t { forward, reverse, random };

// Process-wide settings, for tests. Initial values come from LONGSHOT_EMULATOR_ORDER (forward,
// reverse, random) and LONGSHOT_EMULATOR_SEED.
struct Options {
  Options();
  Order order = Order::forward;
  uint64_t seed = 1;
};
Options& options();

enum class WarpOperation : uint8_t { sync, shuffle, ballot, add, match };

class BlockScheduler {
 public:
  BlockScheduler();
  ~BlockScheduler();
  static BlockScheduler& current();  // of the calling OS thread

  // Runs `body(argument)` once a lane with threadIdx set. Empty result: all went well.
  std::string run(void (*body)(const void*), const void* argument, size_t dynamic_shared);

  // Called from inside a kernel.
  int block_barrier(bool predicate);  // number of lanes whose predicate holds
  uint64_t warp_exchange(WarpOperation operation, unsigned mask, uint64_t value, int source = 0);
  int lane_in_warp() const;
  void* dynamic_shared() { return dynamic_shared_.get(); }
  void* static_shared(const void* key, size_t bytes);
  [[noreturn]] void fail(const char* message);
  bool in_kernel() const { return running_kernel_; }

 private:
  struct Fiber;
  struct Lane;
  struct SharedArray {
    const void* key;
    std::unique_ptr<unsigned char[]> data;
    size_t bytes;
    uint64_t block;
  };

  static void fiber_main();
  void prepare_order(unsigned lanes);
  void enter(Lane& lane);
  void switch_to(Fiber& fiber);
  void run_next(bool may_reuse_stack);
  Fiber* take_fiber();
  void after_exit();
  void release_barrier();
  void try_complete(Lane& lane);
  [[noreturn]] void report_deadlock();
  void check_shared_ends();

  std::vector<Lane> lanes_;
  std::vector<unsigned> order_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> idle_;
  std::vector<SharedArray> static_shared_;
  std::unique_ptr<unsigned char[]> dynamic_shared_;
  size_t dynamic_bytes_ = 0, static_bytes_ = 0;
  std::unique_ptr<Fiber> main_;
  Fiber* running_ = nullptr;
  Lane* lane_ = nullptr;
  void (*body_)(const void*) = nullptr;
  const void* argument_ = nullptr;
  unsigned count_ = 0, position_ = 0, live_ = 0, at_barrier_ = 0, at_warp_ = 0;
  int votes_ = 0;
  // A bit a lane, by warp: who waits at a warp operation, who has not exited.
  std::vector<unsigned> warp_waiting_, warp_live_;
  uint64_t block_serial_ = 0;
  bool failed_ = false, running_kernel_ = false;
  char message_[400] = {};
};

}  // namespace emulator
