// What a `longshot run` will do: every cell of the config with its folder and state, and how long
// it will take.
#pragma once

#include <string>
#include <vector>

#include "experiments/commands.h"
#include "experiments/run_cell.h"
#include "experiments/run_folder.h"

namespace longshot {

struct PlannedCell {
  CellRun run;
  RunStatus status;
  bool evaluate_again =
      false;         // finished, but [evaluate] has changed since, or the result is damaged
  int64_t step = 0;  // that the training state in the folder has reached
  bool needs_work(bool retry_failed) const;
};

struct SweepPlan {
  std::string study;
  std::string folder;  // <out>/<study>
  std::vector<PlannedCell> cells;
  std::string device;  // one sentence on what the cells run on; "" when there is nothing to do
  std::vector<std::string> notes;  // what a reader should know before it trains, each once
};

SweepPlan plan_sweep(const RunArguments& arguments);

// Seconds for each cell on this machine with `threads`: a few steps of each kind of cell are
// measured, the rest follows by its number of operations. Cells that need no work get 0.
std::vector<double> estimate_seconds(const SweepPlan& plan, bool retry_failed);

// Floating-point operations of one training step on (rows, length): 6 B T (L (4 d^2 + 2 d ffn) + d
// V) + 12 L B T^2 d.
double step_operations(const ModelOptions& model, int64_t classes, int64_t rows, int64_t length);

}  // namespace longshot
