// The backends that tests of operations run on. One instance each, for the whole test program.
#pragma once

#include <vector>

#include "core/backend.h"

namespace longshot::testing {

Backend& reference_backend();
Backend& cpu_backend();
// Both: the reference shows that an operation's own arithmetic is right, the CPU that its kernels
// are.
std::vector<Backend*> f64_backends();

}  // namespace longshot::testing
