// The least memory that a run can do with, from its numbers alone: before a model is built that no
// machine could hold. Every part is a lower bound (what is sure to be held at the same time), so a
// run that is refused could not have run; one that is not may still be too large.
#pragma once

#include <string>
#include <vector>

#include "core/machine.h"
#include "data/task.h"
#include "experiments/schema.h"

namespace longshot {

struct MemoryPart {
  std::string what;
  double bytes = 0;
  bool host = true;               // else on the device, which may be the host
  std::vector<std::string> keys;  // of the config, that it grows with: "model.dim"
};

// `encoding_parameters`: how many numbers the encoding trains. `samples_per_draw`: of the sampler.
std::vector<MemoryPart> least_memory(const RunConfig& config, const Task& task,
                                     double encoding_parameters, int64_t samples_per_draw);

// UsageError with the figures when the parts sum up to more than the limit; it points to the key
// that contributes most. Parts of a device that is not the host do not count.
void check_memory(const RunConfig& config, const std::vector<MemoryPart>& parts,
                  const MemoryLimit& limit);

}  // namespace longshot
