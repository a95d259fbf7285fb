// Scratch: temporary memory inside one CPU kernel call, from a thread's own bump allocator.
//
//   ScratchScope scratch;                      // on the thread that uses the memory
//   float* row = scratch.allocate<float>(n);   // 64-byte aligned, not cleared
//                                              // released at the end of the scope
//
// Scopes nest like a stack. Blocks are kept and only grow, so the same work asks the system for
// nothing the second time: whichever thread will run a piece of a parallel_for, all hold what any
// of them has needed. Memory of one thread's scope may be used by others while it is open.
#pragma once

#include <cstddef>
#include <cstdint>

namespace longshot::cpu {

class ScratchScope {
 public:
  ScratchScope();
  ~ScratchScope();
  ScratchScope(const ScratchScope&) = delete;
  ScratchScope& operator=(const ScratchScope&) = delete;

  template <class T>
  T* allocate(int64_t count) {
    return static_cast<T*>(allocate_bytes(count * int64_t(sizeof(T))));
  }
  void* allocate_bytes(int64_t bytes);

 private:
  size_t block_ = 0;  // where the thread's allocator stood when the scope opened
  int64_t used_ = 0;
};

int64_t scratch_bytes();  // held by this thread, used or not
void release_scratch();   // gives this thread's blocks back; no scope may be open
void even_out_scratch();  // parallel_for: each thread, before its first piece

}  // namespace longshot::cpu
