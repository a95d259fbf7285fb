// Keys that contradict each other, or that have no effect beside the others: said by --dry-run, and
// by a run before it trains. A key at its default says nothing.
#pragma once

#include <string>
#include <vector>

#include "data/task.h"
#include "experiments/schema.h"

namespace longshot {

// What can only be a mistake. UsageError at the key's place.
void check_idle_keys(const RunConfig& config, const TaskSpec& spec);
// What may be meant (a long run's config, tried for a few steps), each a sentence with its place.
std::vector<std::string> idle_keys(const RunConfig& config);

}  // namespace longshot
