// What no field list can see: whether task, model, encoding, positions and lengths go together.
// Called for every cell before the first one trains, so that a night is not lost to the last cell's
// mistake.
#pragma once

#include <string>
#include <vector>

#include "core/context.h"
#include "data/task.h"
#include "experiments/schema.h"
#include "nn/position_sampler.h"
#include "nn/positional_encoding.h"

namespace longshot {

// Builds the task (which opens its files), the encoding and the sampler, and checks everything
// below, and that the machine has the memory (experiments/memory_need.h). The context is only what
// modules are constructed with: no parameter gets storage. `given`: the task, where it is made
// already. Returns what a careful reader should know before it trains (data_notes).
std::vector<std::string> check_run(const RunConfig& config, Context& context,
                                   const Task* given = nullptr);

// Training and evaluation lengths are ones that the task makes; a causal task has a causal model.
void check_task(const RunConfig& config, const Task& task);

// Every evaluation length, and every position that training may draw, is within what a bounded
// encoding and the sampler can represent, unless the config says what to do beyond
// (`encoding.beyond`). Placeholders count.
void check_reach(const RunConfig& config, const Task& task, const EncodingTraits& traits,
                 const PositionSampler& sampler);

}  // namespace longshot
