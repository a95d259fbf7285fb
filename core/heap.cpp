#include "core/heap.h"

#include <algorithm>
#include <cstring>

#include "core/error.h"

namespace longshot {
namespace {

constexpr size_t kAlignment = 256;
constexpr size_t kSmallestSlab = size_t(1) << 20;
constexpr unsigned char kGuardPattern = 0xA5;

size_t round_up(size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

Heap::Heap(Backend& backend, std::string name, HeapOptions options)
    : backend_(backend), name_(std::move(name)), options_(options) {
  options_.guard_bytes = round_up(options_.guard_bytes);
  LONGSHOT_CHECK((options_.guard_bytes == 0 && !options_.poison) || backend_.host_accessible(),
                 "heap {}: guards and poison need memory that the host can write", name_);
}

Heap::~Heap() {
  for (const Slab& slab : slabs_) backend_.release(slab.data, slab.bytes);
}

// Room for the two records that an allocation may add, and for putting every record there is into
// either list: a release then asks for nothing.
void Heap::make_room() {
  if (chunks_.size() + 2 <= chunks_.capacity()) return;
  const size_t room = std::max<size_t>(64, 2 * chunks_.capacity());
  free_.reserve(room);
  unused_chunks_.reserve(room);
  chunks_.reserve(room);
}

int32_t Heap::new_chunk() {
  if (!unused_chunks_.empty()) {
    const int32_t index = unused_chunks_.back();
    unused_chunks_.pop_back();
    chunks_[index] = Chunk{};
    chunks_[index].exists = true;
    return index;
  }
  chunks_.emplace_back();
  chunks_.back().exists = true;
  return int32_t(chunks_.size()) - 1;
}

void Heap::add_slab(size_t bytes) {
  LONGSHOT_CHECK(options_.limit == 0 || capacity_ + bytes <= options_.limit,
                 "heap {}: {} bytes more would pass the limit of {} bytes ({} in use)", name_,
                 bytes, options_.limit, used_);
  make_room();
  slabs_.reserve(slabs_.size() + 1);
  void* data = nullptr;
  try {
    data = backend_.allocate(bytes);
  } catch (const Error& error) {
    throw Error(fmt::format("{}, by heap {} ({} bytes in use)", error.what(), name_, used_));
  }
  ++slabs_taken_;
  slabs_.push_back({data, bytes});
  capacity_ += bytes;
  const int32_t index = new_chunk();
  chunks_[index].data = static_cast<char*>(data);
  chunks_[index].bytes = bytes;
  free_.push_back(index);
}

void Heap::remove_free(int32_t index) {
  const auto found = std::find(free_.begin(), free_.end(), index);
  *found = free_.back();
  free_.pop_back();
}

Heap::Block Heap::allocate(size_t bytes) {
  if (join_slabs_) join_slabs();
  make_room();
  const size_t needed = std::max(round_up(bytes), kAlignment) + 2 * options_.guard_bytes;
  const auto best_fit = [&] {
    int32_t best = -1;
    for (const int32_t index : free_) {
      const Chunk& chunk = chunks_[index];
      if (chunk.bytes < needed) continue;
      if (best < 0 || chunk.bytes < chunks_[best].bytes ||
          (chunk.bytes == chunks_[best].bytes && chunk.data < chunks_[best].data)) {
        best = index;
      }
    }
    return best;
  };
  int32_t index = best_fit();
  if (index < 0) {
    // Growing by half of what there is keeps the number of slabs logarithmic.
    const size_t wanted = std::max({needed, kSmallestSlab, round_up(capacity_ / 2)});
    try {
      add_slab(wanted);
    } catch (const Error&) {
      if (wanted == needed) throw;
      add_slab(needed);
    }
    index = best_fit();
  }
  remove_free(index);
  if (chunks_[index].bytes - needed >= kAlignment) {
    const int32_t rest = new_chunk();
    Chunk& chunk = chunks_[index];
    chunks_[rest].data = chunk.data + needed;
    chunks_[rest].bytes = chunk.bytes - needed;
    chunks_[rest].previous = index;
    chunks_[rest].next = chunk.next;
    if (chunk.next >= 0) chunks_[chunk.next].previous = rest;
    chunk.next = rest;
    chunk.bytes = needed;
    free_.push_back(rest);
  }
  Chunk& chunk = chunks_[index];
  chunk.in_use = true;
  chunk.requested = bytes;
  ++allocations_;
  trace_ =
      (trace_ ^ (uint64_t(reinterpret_cast<uintptr_t>(chunk.data)) + bytes)) * 0x9E3779B97F4A7C15u;
  trace_ ^= trace_ >> 29;  // so that the order of the blocks matters
  used_ += chunk.bytes;
  peak_ = std::max(peak_, used_);
  if (options_.guard_bytes > 0) {
    std::memset(chunk.data, kGuardPattern, options_.guard_bytes);
    const size_t begin = options_.guard_bytes + bytes;
    std::memset(chunk.data + begin, kGuardPattern, chunk.bytes - begin);
  }
  if (options_.poison) std::memset(chunk.data + options_.guard_bytes, 0xFF, bytes);
  return {chunk.data + options_.guard_bytes, index};
}

std::optional<Heap::Damage> Heap::guard_damage(const Chunk& chunk) const {
  if (options_.guard_bytes == 0) return std::nullopt;
  const auto intact = [](const char* begin, const char* end) {
    return std::all_of(begin, end,
                       [](char byte) { return static_cast<unsigned char>(byte) == kGuardPattern; });
  };
  const char* data = chunk.data + options_.guard_bytes;
  const bool before = intact(chunk.data, data);
  const bool after = intact(data + chunk.requested, chunk.data + chunk.bytes);
  if (before && after) return std::nullopt;
  return Damage{chunk.requested, !before};
}

void Heap::check_guards() const {
  std::optional<Damage> damage = damage_;
  for (const Chunk& chunk : chunks_)
    if (!damage && chunk.exists && chunk.in_use) damage = guard_damage(chunk);
  if (damage)
    throw Error(fmt::format("heap {}: the bytes {} a block of {} bytes were overwritten", name_,
                            damage->before ? "before" : "after", damage->requested));
}

void Heap::release(Block block) {
  LONGSHOT_CHECK(block.index >= 0 && size_t(block.index) < chunks_.size() &&
                     chunks_[block.index].exists && chunks_[block.index].in_use,
                 "heap {}: released a block that is not in use", name_);
  if (!damage_) damage_ = guard_damage(chunks_[block.index]);
  used_ -= chunks_[block.index].bytes;
  make_free(block.index);
}

// Marks a chunk free and joins it with free neighbours of the same slab.
void Heap::make_free(int32_t index) {
  chunks_[index].in_use = false;
  const int32_t next = chunks_[index].next;
  if (next >= 0 && !chunks_[next].in_use) {
    remove_free(next);
    chunks_[index].bytes += chunks_[next].bytes;
    chunks_[index].next = chunks_[next].next;
    if (chunks_[next].next >= 0) chunks_[chunks_[next].next].previous = index;
    chunks_[next].exists = false;
    unused_chunks_.push_back(next);
  }
  const int32_t previous = chunks_[index].previous;
  if (previous >= 0 && !chunks_[previous].in_use) {
    chunks_[previous].bytes += chunks_[index].bytes;
    chunks_[previous].next = chunks_[index].next;
    if (chunks_[index].next >= 0) chunks_[chunks_[index].next].previous = previous;
    chunks_[index].exists = false;
    unused_chunks_.push_back(index);
    return;  // `previous` is in the free list already
  }
  free_.push_back(index);
}

void Heap::reserve(size_t bytes) {
  if (capacity_ >= bytes && slabs_.size() <= 1) return;
  LONGSHOT_CHECK(used_ == 0, "heap {}: reserve while {} bytes are in use", name_, used_);
  for (const Slab& slab : slabs_) backend_.release(slab.data, slab.bytes);
  const size_t target = std::max(round_up(bytes), capacity_);
  slabs_.clear();
  forget_blocks();
  capacity_ = 0;
  if (target > 0) add_slab(target);
}

// A system may have the memory in pieces only: then the heap grows again, slab by slab.
void Heap::join_slabs() {
  join_slabs_ = false;
  try {
    reserve(capacity_);
  } catch (const Error&) {
  }
}

void Heap::forget_blocks() {
  chunks_.clear();
  unused_chunks_.clear();
  free_.clear();
  join_slabs_ = false;
}

void Heap::release_all() {
  for (const Chunk& chunk : chunks_)
    if (!damage_ && chunk.exists && chunk.in_use) damage_ = guard_damage(chunk);
  used_ = 0;
  trace_ = 0;
  forget_blocks();
  for (const Slab& slab : slabs_) {
    const int32_t index = new_chunk();
    chunks_[index].data = static_cast<char*>(slab.data);
    chunks_[index].bytes = slab.bytes;
    free_.push_back(index);
  }
  join_slabs_ = slabs_.size() > 1;
}

}  // namespace longshot
