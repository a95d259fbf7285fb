// Heap: memory of one lifetime, taken from a Backend in slabs and handed out in blocks.
//
// Longshot knows three lifetimes (docs/architecture.md, "Memory"):
//   persistent  parameters, gradients, moments, tables: live until their owner dies
//   step        activations, gradients, tape: recycled within a step, all gone at its end
//   scratch     inside one kernel: the backend's own business (core/cpu/scratch.h)
// A Heap serves the first two. Allocation is best fit with the lowest address on ties, so the same
// sequence of requests always gets the same addresses; nothing is given back to the system until
// the heap dies or is consolidated, so that after the first step the same shapes cost no system
// call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/backend.h"

namespace longshot {

struct HeapOptions {
  size_t guard_bytes = 0;  // > 0: a known pattern on both sides of every block, checked on release
  bool poison = false;     // fill new blocks with NaN, so that reading before writing shows
  size_t limit = 0;        // > 0: most bytes that may be taken from the backend
};

class Heap {
 public:
  Heap(Backend& backend, std::string name, HeapOptions options = {});
  ~Heap();
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  struct Block {
    void* data = nullptr;
    int32_t index = -1;  // identifies the block to release()
  };

  Block allocate(size_t bytes);  // alignment 256 bytes; zero bytes get a valid block too
  // Neither of the two asks for memory, so both may run while an exception is on its way.
  void release(Block block);   // overwritten guards are remembered for check_guards()
  void release_all();          // forgets every block; before the next, several slabs become one
  void reserve(size_t bytes);  // one slab of at least this capacity, if nothing is in use
  void check_guards() const;   // Error when a guard was overwritten, in this step or before

  size_t used() const { return used_; }                 // bytes in use now
  size_t peak() const { return peak_; }                 // most ever in use
  size_t capacity() const { return capacity_; }         // bytes taken from the backend
  int64_t slabs_taken() const { return slabs_taken_; }  // how often the backend was asked
  int64_t allocations() const { return allocations_; }  // how often a block was handed out
  // Tells apart sequences of blocks: a mix of the sizes and addresses handed out since the heap was
  // last emptied. Equal for equal requests to a heap of equal capacity.
  uint64_t trace() const { return trace_; }

 private:
  struct Slab {
    void* data;
    size_t bytes;
  };
  struct Chunk {  // a block in address order within its slab, free or in use
    char* data = nullptr;
    size_t bytes = 0;
    size_t requested = 0;
    int32_t previous = -1, next = -1;
    bool in_use = false;
    bool exists = false;
  };
  struct Damage {  // an overwritten guard
    size_t requested = 0;
    bool before = false;  // before the block, or after it
  };
  void make_room();
  int32_t new_chunk();
  void add_slab(size_t bytes);
  void join_slabs();
  void forget_blocks();
  void make_free(int32_t index);
  void remove_free(int32_t index);
  std::optional<Damage> guard_damage(const Chunk& chunk) const;  // none when intact

  Backend& backend_;
  std::string name_;
  HeapOptions options_;
  std::vector<Slab> slabs_;
  std::vector<Chunk> chunks_;
  std::vector<int32_t> unused_chunks_;  // records free for reuse
  std::vector<int32_t> free_;           // free chunks, in no particular order
  std::optional<Damage> damage_;        // the first overwritten guard seen
  bool join_slabs_ = false;             // release_all met several
  size_t used_ = 0, peak_ = 0, capacity_ = 0;
  int64_t slabs_taken_ = 0, allocations_ = 0;
  uint64_t trace_ = 0;
};

}  // namespace longshot
