// Heap: alignment, coalescing, addresses that repeat, guards, limits.

#include "core/heap.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <set>
#include <string>

#include "core/context.h"
#include "core/random.h"
#include "tests/catch.h"
#include "tests/support/reference_backend.h"

namespace longshot::testing {
namespace {

constexpr size_t kMegabyte = size_t(1) << 20;

// Allocates and releases in an order that depends on `seed` alone; the addresses met.
std::vector<void*> exercise(Heap& heap, uint64_t seed, int requests, size_t largest) {
  RandomSequence random({seed, RandomPurpose::test, 5, 0});
  std::vector<Heap::Block> blocks;
  std::vector<void*> addresses;
  for (int i = 0; i < requests; ++i) {
    if (!blocks.empty() && random.below(3) == 0) {
      const size_t victim = size_t(random.below(blocks.size()));
      heap.release(blocks[victim]);
      blocks.erase(blocks.begin() + int64_t(victim));
    } else {
      blocks.push_back(heap.allocate(size_t(random.below(largest))));
      addresses.push_back(blocks.back().data);
    }
  }
  for (const Heap::Block& block : blocks) heap.release(block);
  return addresses;
}

TEST_CASE("heap: blocks are aligned, disjoint and accounted for") {
  ReferenceBackend backend;
  Heap heap(backend, "test");
  std::vector<std::pair<char*, size_t>> ranges;
  for (const size_t bytes : {size_t(0), size_t(1), size_t(255), size_t(257), size_t(100000)}) {
    const Heap::Block block = heap.allocate(bytes);
    CHECK(reinterpret_cast<uintptr_t>(block.data) % 256 == 0);
    for (const auto& [data, size] : ranges) {
      char* begin = static_cast<char*>(block.data);
      CHECK((begin + bytes <= data || data + size <= begin));
    }
    ranges.emplace_back(static_cast<char*>(block.data), std::max<size_t>(bytes, 1));
  }
  CHECK(heap.used() == 256 + 256 + 256 + 512 + 100096);
  CHECK(heap.peak() == heap.used());
  CHECK(heap.slabs_taken() == 1);
}

TEST_CASE("heap: the same requests get the same addresses, and after the first round no new slab") {
  ReferenceBackend backend;
  Heap heap(backend, "test");
  exercise(heap, 1, 400, 200000);
  CHECK(heap.used() == 0);
  heap.release_all();  // several slabs become one
  const std::vector<void*> second = exercise(heap, 1, 400, 200000);
  heap.release_all();
  const int64_t taken = heap.slabs_taken();
  const std::vector<void*> third = exercise(heap, 1, 400, 200000);
  CHECK(second == third);
  CHECK(heap.slabs_taken() == taken);
  CHECK(backend.allocations() == taken);
}

TEST_CASE("heap: freed neighbours join, so a full-size block fits again") {
  ReferenceBackend backend;
  Heap heap(backend, "test");
  heap.reserve(4 * kMegabyte);
  std::vector<Heap::Block> blocks;
  for (int i = 0; i < 16; ++i) blocks.push_back(heap.allocate(kMegabyte / 4));
  for (int i = 0; i < 16; i += 2) heap.release(blocks[size_t(i)]);  // holes
  for (int i = 1; i < 16; i += 2) heap.release(blocks[size_t(i)]);  // joined from both sides
  CHECK(heap.allocate(4 * kMegabyte).data == blocks[0].data);
  CHECK(heap.slabs_taken() == 1);
}

TEST_CASE("heap: the smallest hole that fits is taken, the lowest of equals") {
  ReferenceBackend backend;
  Heap heap(backend, "test");
  heap.reserve(kMegabyte);
  std::vector<Heap::Block> blocks;
  for (const size_t bytes : {4096, 256, 1024, 256, 2048, 256, 1024, 256})
    blocks.push_back(heap.allocate(bytes));
  heap.release(blocks[6]);
  heap.release(blocks[0]);
  heap.release(blocks[4]);
  heap.release(blocks[2]);
  CHECK(heap.allocate(1000).data == blocks[2].data);
  CHECK(heap.allocate(1000).data == blocks[6].data);
  CHECK(heap.allocate(1000).data == blocks[4].data);
}

TEST_CASE("heap: overwritten guards are found, on either side, in use or released") {
  ReferenceBackend backend;
  for (const bool before : {true, false}) {
    for (const bool released : {true, false}) {
      Heap heap(backend, "guarded", {.guard_bytes = 64});
      const Heap::Block block = heap.allocate(100);
      std::memset(block.data, 0, 100);  // the whole block may be written
      heap.check_guards();
      static_cast<char*>(block.data)[before ? -1 : 100] = 1;
      if (released) heap.release(block);
      const std::string where = before ? "before a block of 100" : "after a block of 100";
      CHECK_THROWS_WITH(heap.check_guards(),
                        ContainsSubstring("guarded") && ContainsSubstring(where));
    }
  }
}

TEST_CASE("heap: poison makes reading before writing show") {
  ReferenceBackend backend;
  Heap heap(backend, "test", {.poison = true});
  const Heap::Block block = heap.allocate(16);
  CHECK(std::isnan(static_cast<float*>(block.data)[3]));
  CHECK(std::isnan(static_cast<double*>(block.data)[1]));
}

TEST_CASE("heap: misuse is an error") {
  ReferenceBackend backend;
  Heap heap(backend, "small", {.limit = 2 * kMegabyte});
  CHECK_THROWS_WITH(heap.allocate(3 * kMegabyte),
                    ContainsSubstring("small") && ContainsSubstring("limit"));
  const Heap::Block block = heap.allocate(10);
  CHECK_THROWS_WITH(heap.reserve(kMegabyte * 2), ContainsSubstring("in use"));
  heap.release(block);
  CHECK_THROWS_WITH(heap.release(block), ContainsSubstring("not in use"));
  CHECK_THROWS_WITH(heap.release({}), ContainsSubstring("not in use"));
}

// Gives out no block above a size, as a device whose free memory lies in pieces.
struct Fragmented : ReferenceBackend {
  void* allocate(size_t bytes) override {
    if (bytes > largest) throw Error("no block of " + std::to_string(bytes) + " bytes");
    return ReferenceBackend::allocate(bytes);
  }
  size_t largest = SIZE_MAX;
};

TEST_CASE("heap: memory that the system has in pieces only is used in pieces") {
  Fragmented backend;
  Heap heap(backend, "step");
  for (int i = 0; i < 3; ++i) heap.allocate(kMegabyte);
  CHECK(heap.slabs_taken() == 3);
  backend.largest = kMegabyte;
  heap.release_all();  // asks for nothing
  CHECK(heap.slabs_taken() == 3);
  CHECK(heap.used() == 0);
  for (int i = 0; i < 4; ++i) heap.allocate(kMegabyte);  // one slab of 3 MiB is refused
  CHECK(heap.capacity() == 4 * kMegabyte);
  CHECK(heap.slabs_taken() == 7);
}

TEST_CASE("heap: refused memory says how much, by whom and for what; what was there stays") {
  Fragmented backend;
  Context context(backend, ContextOptions{DType::f32, {}});
  const StepScope step(context);
  const Tensor kept = context.from_host<float>(std::vector<float>{1, 2}, {2});
  backend.largest = 1000;
  CHECK_THROWS_WITH(context.make({1000, 1000}, DType::f32, Lifetime::step, "hidden layer"),
                    ContainsSubstring("no block of 4000000 bytes") &&
                        ContainsSubstring("heap step (256 bytes in use)") &&
                        ContainsSubstring("tensor hidden layer (1000, 1000)"));
  CHECK(kept.to_host<float>() == std::vector<float>{1, 2});
  CHECK(context.from_host<float>(std::vector<float>{3}, {1}).to_host<float>()[0] == 3);
}

}  // namespace
}  // namespace longshot::testing
