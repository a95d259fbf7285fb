// The tasks, encodings and position samplers linked into this program.
#pragma once

#include "experiments/schema.h"

namespace longshot {

SectionTypes installed_tasks();
SectionTypes installed_encodings();
SectionTypes installed_positions();

}  // namespace longshot
