#include "tests/support/kernel_call.h"

#include <algorithm>

namespace longshot::testing {

StagedArrays::~StagedArrays() {
  for (auto& [host, array] : arrays_)
    if (array.block != nullptr) backend_.release(array.block, array.bytes + 2 * kGuard);
}

void StagedArrays::want(const void* host, size_t bytes, bool written) {
  if (host == nullptr) return;
  Array& array = arrays_[host];
  array.bytes = std::max(array.bytes, bytes);
  array.written = array.written || written;
}

void StagedArrays::upload() {
  for (auto& [host, array] : arrays_) {
    std::vector<unsigned char> content(array.bytes + 2 * kGuard, 0xA5);
    std::memcpy(content.data() + kGuard, host, array.bytes);
    array.block = static_cast<char*>(backend_.allocate(content.size()));
    backend_.copy_to_device(array.block, content.data(), content.size());
  }
}

void StagedArrays::download() const {
  for (const auto& [host, array] : arrays_) {
    std::vector<unsigned char> content(array.bytes + 2 * kGuard);
    backend_.copy_to_host(content.data(), array.block, content.size());
    const auto intact = [](unsigned char byte) { return byte == 0xA5; };
    if (!std::all_of(content.begin(), content.begin() + kGuard, intact) ||
        !std::all_of(content.end() - kGuard, content.end(), intact))
      FAIL("a kernel wrote before or after an array of " << array.bytes << " bytes");
    if (array.written) std::memcpy(const_cast<void*>(host), content.data() + kGuard, array.bytes);
  }
}

}  // namespace longshot::testing
