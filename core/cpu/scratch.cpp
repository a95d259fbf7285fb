#include "core/cpu/scratch.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <memory>
#include <omp.h>
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
  if (memory == nullptr)
    throw Error(
        fmt::format("cpu: out of memory: {} bytes ({:.1f} MiB) asked for as scratch memory of "
                    "a kernel",
                    bytes, double(bytes) / 1048576.0));
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
// Pieces of parallel work have one of their own, so that what a piece needs does not depend on what
// the thread that runs it holds outside.
thread_local Allocator outside, in_pieces;
std::atomic<int64_t> most_in_pieces{0};  // what some thread's holds

Allocator& allocator() {
  return omp_in_parallel() ? in_pieces : outside;
}

// Failing to get it only means to ask again.
void hold_one_block(Allocator& a, int64_t bytes) {
  a.blocks.clear();
  try {
    a.blocks.push_back(make_block(bytes));
  } catch (const std::exception&) {
  }
}

}  // namespace

ScratchScope::ScratchScope() {
  Allocator& a = allocator();
  block_ = a.current;
  used_ = a.used;
  ++a.open_scopes;
}

ScratchScope::~ScratchScope() {
  Allocator& a = allocator();
  a.current = block_;
  a.used = used_;
  if (--a.open_scopes > 0) return;
  // One block as large as all of them: the next time nothing is wasted at block ends.
  if (a.blocks.size() > 1) hold_one_block(a, a.total());
  if (&a == &in_pieces) {
    const int64_t total = a.total();
    int64_t most = most_in_pieces;
    while (most < total && !most_in_pieces.compare_exchange_weak(most, total)) {
    }
  }
}

void* ScratchScope::allocate_bytes(int64_t bytes) {
  LONGSHOT_CHECK(bytes >= 0, "scratch: {} bytes asked for", bytes);
  const int64_t size = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  Allocator& a = allocator();
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
  return outside.total() + in_pieces.total();
}

void release_scratch() {
  const int open = outside.open_scopes + in_pieces.open_scopes;
  LONGSHOT_CHECK(open == 0, "scratch: released while {} scope(s) are open", open);
  outside = {};
  in_pieces = {};
  most_in_pieces = 0;
}

void even_out_scratch() {
  const int64_t most = most_in_pieces;
  if (in_pieces.total() < most) hold_one_block(in_pieces, most);
}

}  // namespace longshot::cpu
