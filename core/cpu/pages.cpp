#include "core/cpu/pages.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <sys/mman.h>

namespace longshot::cpu {

void* allocate_pages(size_t bytes) {
  constexpr size_t kAlignment = 64;
  const size_t alignment = bytes >= kHugePage ? kHugePage : kAlignment;
  if (bytes > SIZE_MAX - alignment) return nullptr;  // the rounding below would wrap round
  const size_t size = (std::max<size_t>(bytes, 1) + alignment - 1) / alignment * alignment;
  void* block = std::aligned_alloc(alignment, size);
#if defined(MADV_HUGEPAGE)
  // Only advice: an error means that the system has no huge pages to give.
  if (block != nullptr && alignment == kHugePage) madvise(block, size, MADV_HUGEPAGE);
#endif
  return block;
}

void release_pages(void* block) {
  std::free(block);
}

}  // namespace longshot::cpu
