// Memory from the system for the CPU: heaps' slabs, kernels' scratch.
//
// Blocks of at least kHugePage bytes begin on a huge page and ask for such pages. A core's table of
// addresses holds some hundred 4 KiB pages, fewer than the rows of one weight; on a virtual machine
// a miss costs two walks (docs/performance.md has what that was worth). Where the system gives no
// huge pages the same memory comes in small ones.
#pragma once

#include <cstddef>

namespace longshot::cpu {

inline constexpr size_t kHugePage = size_t(2) << 20;

// At least 64-byte aligned, not cleared; null when there is no such memory.
void* allocate_pages(size_t bytes);
void release_pages(void* block);  // null is allowed

}  // namespace longshot::cpu
