// What a config asks of data that has lengths of its own (jsonl) and does not get: said by
// --dry-run, and by a run before it trains.
#pragma once

#include <string>
#include <vector>

#include "data/task.h"
#include "experiments/schema.h"

namespace longshot {

// Sentences: training lengths that the training file lacks, evaluation lengths without test
// samples, and where "in range" is measured when the test file lacks training lengths. Empty: all
// is there.
std::vector<std::string> data_notes(const RunConfig& config, const Task& task);

}  // namespace longshot
