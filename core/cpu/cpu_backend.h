// The CPU implementation of the backend interface. Pointers are host pointers, calls are done when
// they return. Each method picks the element type and calls the kernel in core/cpu/<concept>.h.
#pragma once

#include <memory>

#include "core/backend.h"

namespace longshot {

std::unique_ptr<Backend> make_cpu_backend();

}  // namespace longshot
