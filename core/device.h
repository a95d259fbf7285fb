// Which device a run uses: "cpu", "cuda", "cuda:N", or "auto", which takes CUDA where it works and else the CPU.
//
// CUDA is a module loaded at run time (liblongshot_cuda.so), and only after a driver has answered: a program on a
// machine without a GPU pays nothing for it.
#pragma once

#include <memory>
#include <string>

#include "core/backend.h"

namespace longshot {

// `reason` (may be null) becomes one sentence: what was chosen, and for "auto" why not CUDA. UsageError for a name that
// is no device and for a CUDA device that cannot be had, with what is wrong.
std::unique_ptr<Backend> make_backend(const std::string& device, std::string* reason = nullptr);

// What "auto" means on this machine: "cpu" or "cuda". Asked once, then remembered.
const std::string& automatic_device();

}  // namespace longshot
