#include "core/cpu/scratch.h"

#include <algorithm>
#include <memory>
#include <new>
#include <vector>

#include "core/cpu/pages.h"
#include "core/error.h"

namespace longshot::cpu {
namespace {

constexpr int64_t kAlignment = 64;
constexpr int64_t kSmallestBlock = int64_t(kHugePage);

struct Release {
  void operator()(std::byte* p) const { release_pages(p); }
};
struct Block {
  std::unique_ptr<std::byte, Release> memory;
  int64_t size = 0;
};
Block make_block(int64_t bytes) {
  void* memory = allocate_pages(size_t(bytes));
  if (memory == nullptr) throw std::bad_alloc();
  return Block{std::unique_ptr<std::byte, Release>(static_cast<std::byte*>(memory)), bytes};
}

struct Allocator {
  std::vector<Block> blocks;
  size_t current = 0;  // block being filled
  int64_t used = 0;    // bytes used of it
  int open_scopes = 0;

  int64_t total() const {
    int64_t sum = 0;
    for (const Block& block : blocks) sum += block.size;
    return sum;
  }
};
thread_local Allocator allocator;

}  // namespace

ScratchScope::ScratchScope() : block_(allocator.current), used_(allocator.used) {
  ++allocator.open_scopes;
}

ScratchScope::~ScratchScope() {
  allocator.current = block_;
  allocator.used = used_;
  if (--allocator.open_scopes == 0 && allocator.blocks.size() > 1) {
    // One block as large as all of them: the next time nothing is wasted at block ends. Failing
    // to get it only means to ask again.
    const int64_t total = allocator.total();
    allocator.blocks.clear();
    try {
      allocator.blocks.push_back(make_block(total));
    } catch (const std::bad_alloc&) {
      allocator.blocks.clear();
    }
  }
}

void* ScratchScope::allocate_bytes(int64_t bytes) {
  LONGSHOT_CHECK(bytes >= 0, "scratch: {} bytes asked for", bytes);
  const int64_t size = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  Allocator& a = allocator;
  while (a.current < a.blocks.size() && a.used + size > a.blocks[a.current].size) {
    ++a.current;
    a.used = 0;
  }
  if (a.current == a.blocks.size()) {
    a.blocks.push_back(make_block(std::max({size, kSmallestBlock, a.total()})));
    a.used = 0;
  }
  void* result = a.blocks[a.current].memory.get() + a.used;
  a.used += size;
  return result;
}

int64_t scratch_bytes() {
  return allocator.total();
}

void release_scratch() {
  LONGSHOT_CHECK(allocator.open_scopes == 0, "scratch: released while {} scope(s) are open",
                 allocator.open_scopes);
  allocator.blocks.clear();
  allocator.current = 0;
  allocator.used = 0;
}

}  // namespace longshot::cpu
