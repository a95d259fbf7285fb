// The registries as lists of types. Registration happens before main, so the first call sees all.
#include "experiments/installed_types.h"

#include "data/task.h"
#include "nn/position_sampler.h"
#include "nn/positional_encoding.h"

namespace longshot {

SectionTypes installed_tasks() {
  return section_types<Task>("task", "task", "");
}

SectionTypes installed_encodings() {
  return section_types<PositionalEncoding>("encoding", "encoding", "none");
}

SectionTypes installed_positions() {
  return section_types<PositionSampler>("positions", "position sampler", "contiguous");
}

}  // namespace longshot
