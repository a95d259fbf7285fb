#include "scheduler.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <utility>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace emulator {
namespace {

constexpr size_t kStackBytes = 128 << 10;
constexpr size_t kCanaryBytes = 64;
constexpr unsigned char kCanary = 0xC5;
constexpr size_t kMaxStaticShared = 48 << 10;

#if defined(__x86_64__)
// Saves the callee-saved registers on this stack, stores its pointer in *save and continues on
// the stack `load`. System V calling convention: rdi = save, rsi = load.
__attribute__((naked, noinline)) void swap_stacks(void** /*save*/, void* /*load*/) {
  asm volatile(
      "pushq %rbp\n\tpushq %rbx\n\tpushq %r12\n\tpushq %r13\n\tpushq %r14\n\tpushq %r15\n\t"
      "movq %rsp, (%rdi)\n\tmovq %rsi, %rsp\n\t"
      "popq %r15\n\tpopq %r14\n\tpopq %r13\n\tpopq %r12\n\tpopq %rbx\n\tpopq %rbp\n\tret");
}
class Context {
 public:
  void prepare(char* stack, size_t bytes, void (*entry)()) {
    void** top = reinterpret_cast<void**>((reinterpret_cast<uintptr_t>(stack) + bytes) & ~15ull);
    *--top = nullptr;  // the return address of `entry`: it never returns; keeps rsp = 8 mod 16
    *--top = reinterpret_cast<void*>(entry);
    for (int i = 0; i < 6; ++i) *--top = nullptr;
    pointer_ = top;
  }
  static void jump(Context& from, Context& to) { swap_stacks(&from.pointer_, to.pointer_); }

 private:
  void* pointer_ = nullptr;
};
#else
class Context {
 public:
  void prepare(char* stack, size_t bytes, void (*entry)()) {
    getcontext(&context_);
    context_.uc_stack.ss_sp = stack;
    context_.uc_stack.ss_size = bytes;
    context_.uc_link = nullptr;
    makecontext(&context_, entry, 0);
  }
  static void jump(Context& from, Context& to) { swapcontext(&from.context_, &to.context_); }

 private:
  ucontext_t context_{};
};
#endif

uint64_t mix(uint64_t x) {  // splitmix64
  x += 0x9E3779B97F4A7C15ull;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

}  // namespace

Options::Options() {
  if (const char* text = std::getenv("LONGSHOT_EMULATOR_ORDER")) {
    const std::string name = text;
    if (name == "reverse") order = Order::reverse;
    if (name == "random") order = Order::random;
  }
  if (const char* text = std::getenv("LONGSHOT_EMULATOR_SEED")) {
    seed = std::strtoull(text, nullptr, 10);
  }
}
Options& options() {
  static Options instance;
  return instance;
}

struct BlockScheduler::Fiber {
  Context context;
  std::unique_ptr<char[]> stack;
  const void* bottom = nullptr;
  size_t bytes = 0;
  void* sanitizer_stack = nullptr;
};

struct BlockScheduler::Lane {
  enum State : uint8_t { fresh, ready, at_barrier, at_warp, exited };
  State state = fresh;
  WarpOperation operation = WarpOperation::sync;
  int source = 0;
  unsigned mask = 0, linear = 0;
  uint64_t value = 0, result = 0;
  uint3 index{};
  Fiber* fiber = nullptr;
};

BlockScheduler::BlockScheduler() : main_(std::make_unique<Fiber>()) {}
BlockScheduler::~BlockScheduler() = default;

BlockScheduler& BlockScheduler::current() {
  static thread_local BlockScheduler scheduler;
  return scheduler;
}

int BlockScheduler::lane_in_warp() const {
  return int(lane_->linear & 31);
}

void BlockScheduler::enter(Lane& lane) {
  lane_ = &lane;
  threadIdx = lane.index;
}

void BlockScheduler::switch_to(Fiber& fiber) {
  Fiber& from = *running_;
  running_ = &fiber;
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&from.sanitizer_stack, fiber.bottom, fiber.bytes);
  Context::jump(from.context, fiber.context);
  __sanitizer_finish_switch_fiber(from.sanitizer_stack, nullptr, nullptr);
#else
  Context::jump(from.context, fiber.context);
#endif
}

void BlockScheduler::fiber_main() {
  BlockScheduler& self = current();
#if defined(__SANITIZE_ADDRESS__)
  const void* bottom;
  size_t bytes;
  __sanitizer_finish_switch_fiber(nullptr, &bottom, &bytes);
  if (!self.main_->bottom) self.main_->bottom = bottom, self.main_->bytes = bytes;
#endif
  for (;;) {
    self.lane_->fiber = self.running_;
    self.body_(self.argument_);
    self.lane_->state = Lane::exited;
    self.warp_live_[self.lane_->linear / 32] &= ~(1u << (self.lane_->linear & 31));
    --self.live_;
    self.after_exit();
    self.idle_.push_back(self.running_);
    self.run_next(true);  // returns with a fresh lane for this stack, or switches away
  }
}

BlockScheduler::Fiber* BlockScheduler::take_fiber() {
  if (idle_.empty()) {
    auto fiber = std::make_unique<Fiber>();
    fiber->bytes = kStackBytes;
    fiber->stack.reset(new char[kStackBytes]);
    fiber->bottom = fiber->stack.get();
    idle_.push_back(fiber.get());
    fibers_.push_back(std::move(fiber));
  }
  Fiber* fiber = idle_.back();
  idle_.pop_back();
#if defined(__SANITIZE_ADDRESS__)
  ASAN_UNPOISON_MEMORY_REGION(fiber->stack.get(), fiber->bytes);
#endif
  fiber->context.prepare(fiber->stack.get(), fiber->bytes, &fiber_main);
  return fiber;
}

// Continues with the next lane that can run. `may_reuse_stack`: the current fiber has finished
// its lane and may take a fresh one.
void BlockScheduler::run_next(bool may_reuse_stack) {
  for (unsigned tried = 0; tried < count_; ++tried) {
    position_ = position_ + 1 == count_ ? 0 : position_ + 1;
    Lane& lane = lanes_[order_[position_]];
    if (lane.state == Lane::fresh) {
      lane.state = Lane::ready;
      if (may_reuse_stack) {
        idle_.pop_back();
        enter(lane);
        return;
      }
      Fiber* fiber = take_fiber();
      enter(lane);
      switch_to(*fiber);
      return;
    }
    if (lane.state == Lane::ready) {
      enter(lane);
      if (lane.fiber != running_) switch_to(*lane.fiber);
      return;
    }
  }
  if (live_) report_deadlock();
  switch_to(*main_);  // the block is finished
}

void BlockScheduler::fail(const char* message) {
  // The stack of this lane is abandoned, so nothing here may own memory.
  std::snprintf(message_, sizeof message_, "%s [block (%u, %u, %u), thread (%u, %u, %u)]", message,
                blockIdx.x, blockIdx.y, blockIdx.z, threadIdx.x, threadIdx.y, threadIdx.z);
  failed_ = true;
  switch_to(*main_);
  std::abort();
}

void BlockScheduler::report_deadlock() {
  unsigned barrier = 0, warp = 0, exited = 0;
  for (const Lane& lane : lanes_) {
    barrier += lane.state == Lane::at_barrier;
    warp += lane.state == Lane::at_warp;
    exited += lane.state == Lane::exited;
  }
  char text[200];
  std::snprintf(text, sizeof text,
                "divergent barrier: %u lanes wait at __syncthreads, %u at a warp operation, %u "
                "have exited",
                barrier, warp, exited);
  fail(text);
}

void BlockScheduler::release_barrier() {
  for (Lane& lane : lanes_) {
    if (lane.state != Lane::at_barrier) continue;
    lane.state = Lane::ready;
    lane.result = uint64_t(votes_);
  }
  at_barrier_ = 0;
  votes_ = 0;
}

// An exited lane no longer counts for barriers and warp operations.
void BlockScheduler::after_exit() {
  if (at_barrier_ && at_barrier_ == live_) release_barrier();
  if (!at_warp_) return;
  const unsigned begin = lane_->linear & ~31u;
  for (unsigned i = begin; i < std::min(begin + 32, count_); ++i) {
    if (lanes_[i].state == Lane::at_warp) try_complete(lanes_[i]);
  }
}

int BlockScheduler::block_barrier(bool predicate) {
  votes_ += predicate;
  Lane* me = lane_;
  me->state = Lane::at_barrier;
  if (++at_barrier_ == live_) {
    release_barrier();
    enter(*me);  // the last to arrive goes straight on
  } else {
    run_next(false);
  }
  return int(me->result);
}

// Completes the warp operation of `lane` if every live lane of its mask has arrived.
void BlockScheduler::try_complete(Lane& lane) {
  const unsigned begin = lane.linear & ~31u, warp = lane.linear / 32;
  if (lane.mask & warp_live_[warp] & ~warp_waiting_[warp]) return;
  Lane* group[32];
  int size = 0;
  for (unsigned i = 0; i < 32 && begin + i < count_; ++i) {
    Lane& other = lanes_[begin + i];
    if (!(lane.mask >> i & 1) || other.state == Lane::exited) continue;
    if (other.state != Lane::at_warp) return;
    if (other.mask != lane.mask || other.operation != lane.operation) return;
    group[size++] = &other;
  }
  uint64_t ballot = 0, sum = 0;
  for (int i = 0; i < size; ++i) {
    if (group[i]->value) ballot |= 1ull << (group[i]->linear & 31);
    sum += group[i]->value;
  }
  for (int i = 0; i < size; ++i) {
    Lane& other = *group[i];
    switch (other.operation) {
      case WarpOperation::sync:
      case WarpOperation::ballot:
        other.result = ballot;
        break;
      case WarpOperation::add:
        other.result = sum;
        break;
      case WarpOperation::match:
        other.result = 0;
        for (int k = 0; k < size; ++k) {
          if (group[k]->value == other.value) other.result |= 1ull << (group[k]->linear & 31);
        }
        break;
      case WarpOperation::shuffle: {
        const unsigned source = begin + unsigned(other.source);
        if (source >= count_ || lanes_[source].state == Lane::exited ||
            !(other.mask >> other.source & 1)) {
          enter(other);
          char text[100];
          std::snprintf(text, sizeof text, "shuffle reads lane %d, which takes no part in it",
                        other.source);
          fail(text);
        }
        other.result = lanes_[source].value;
        break;
      }
    }
  }
  for (int i = 0; i < size; ++i) {
    group[i]->state = Lane::ready;
    warp_waiting_[warp] &= ~(1u << (group[i]->linear & 31));
  }
  at_warp_ -= unsigned(size);
}

uint64_t BlockScheduler::warp_exchange(WarpOperation operation, unsigned mask, uint64_t value,
                                       int source) {
  Lane* me = lane_;
  if (!(mask >> (me->linear & 31) & 1)) fail("warp operation: the lane is not in its own mask");
  me->operation = operation;
  me->mask = mask;
  me->value = value;
  me->source = source;
  me->state = Lane::at_warp;
  ++at_warp_;
  warp_waiting_[me->linear / 32] |= 1u << (me->linear & 31);
  try_complete(*me);
  if (me->state == Lane::ready) {
    enter(*me);
  } else {
    run_next(false);
  }
  return me->result;
}

void* BlockScheduler::static_shared(const void* key, size_t bytes) {
  SharedArray* found = nullptr;
  for (SharedArray& array : static_shared_) {
    if (array.key == key) found = &array;
  }
  if (!found) {
    static_shared_.push_back(
        {key, std::make_unique<unsigned char[]>(bytes + kCanaryBytes), bytes, 0});
    found = &static_shared_.back();
  }
  if (found->block != block_serial_) {
    found->block = block_serial_;
    std::memset(found->data.get(), 0xFF, bytes);
    std::memset(found->data.get() + bytes, kCanary, kCanaryBytes);
    static_bytes_ += bytes;
    if (static_bytes_ + dynamic_bytes_ > kMaxStaticShared && static_bytes_ > kMaxStaticShared) {
      fail("more than 48 KiB of static shared memory");
    }
  }
  return found->data.get();
}

void BlockScheduler::check_shared_ends() {
  const auto intact = [](const unsigned char* end) {
    return std::all_of(end, end + kCanaryBytes, [](unsigned char c) { return c == kCanary; });
  };
  bool good = intact(dynamic_shared_.get() + dynamic_bytes_);
  for (const SharedArray& array : static_shared_) {
    if (array.block == block_serial_) good = good && intact(array.data.get() + array.bytes);
  }
  if (!good) {
    failed_ = true;
    std::snprintf(message_, sizeof message_,
                  "write past the end of a shared array [block (%u, %u, %u)]", blockIdx.x,
                  blockIdx.y, blockIdx.z);
  }
}

void BlockScheduler::prepare_order(unsigned lanes) {
  if (order_.size() == lanes && options().order == Order::forward &&
      (lanes == 0 || (order_.front() == 0 && order_.back() == lanes - 1))) {
    if (std::is_sorted(order_.begin(), order_.end())) return;
  }
  order_.resize(lanes);
  std::iota(order_.begin(), order_.end(), 0u);
  if (options().order == Order::reverse) std::reverse(order_.begin(), order_.end());
  if (options().order == Order::random) {
    uint64_t state = mix(options().seed ^ mix(blockIdx.x + (uint64_t(blockIdx.y) << 32)) ^
                         mix(0x5bd1e995ull + blockIdx.z));
    for (unsigned i = lanes; i > 1; --i) {
      state = mix(state);
      std::swap(order_[i - 1], order_[state % i]);
    }
  }
}

std::string BlockScheduler::run(void (*body)(const void*), const void* argument,
                                size_t dynamic_shared) {
  count_ = blockDim.x * blockDim.y * blockDim.z;
  body_ = body;
  argument_ = argument;
  live_ = count_;
  at_barrier_ = at_warp_ = 0;
  votes_ = 0;
  failed_ = false;
  static_bytes_ = 0;
  ++block_serial_;
  lanes_.assign(count_, Lane{});
  warp_waiting_.assign((count_ + 31) / 32, 0u);
  warp_live_.assign((count_ + 31) / 32, ~0u);
  if (count_ % 32) warp_live_.back() = (1u << count_ % 32) - 1;
  prepare_order(count_);
  unsigned linear = 0;
  for (unsigned z = 0; z < blockDim.z; ++z) {
    for (unsigned y = 0; y < blockDim.y; ++y) {
      for (unsigned x = 0; x < blockDim.x; ++x, ++linear) {
        lanes_[linear].index = {x, y, z};
        lanes_[linear].linear = linear;
      }
    }
  }
  if (!dynamic_shared_ || dynamic_bytes_ != dynamic_shared) {
    // Exactly the size asked for, so that AddressSanitizer sees accesses beyond it too.
    dynamic_shared_ = std::make_unique<unsigned char[]>(dynamic_shared + kCanaryBytes);
    dynamic_bytes_ = dynamic_shared;
  }
  std::memset(dynamic_shared_.get(), 0xFF, dynamic_shared);
  std::memset(dynamic_shared_.get() + dynamic_shared, kCanary, kCanaryBytes);
  idle_.clear();
  for (auto& fiber : fibers_) idle_.push_back(fiber.get());
  running_ = main_.get();
  position_ = count_ - 1;
  running_kernel_ = true;
  run_next(false);
  running_kernel_ = false;
  if (!failed_) check_shared_ends();
  return failed_ ? std::string(message_) : std::string();
}

}  // namespace emulator
