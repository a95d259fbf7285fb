// Batches from examples, as pure functions of (seed, step) or (seed, sample index).
#pragma once

#include <cstdint>
#include <vector>

#include "data/batch.h"
#include "data/length_options.h"
#include "data/task.h"

namespace longshot {

// Makes batches of one task. Holds scratch memory: use one Batcher per thread.
class Batcher {
 public:
  // `task` must outlive the batcher.
  explicit Batcher(const Task& task);

  // Rows first_row .. first_row + rows - 1 of optimizer step `step`, whose batch has `step_rows`
  // rows in all (batch * accumulate). Cutting a step into micro-batches changes no example, and
  // with draw = "batch" all of them have the step's one length. `lengths` must be resolved. Row r
  // is example step * step_rows + r of the training split.
  void training(uint64_t seed, uint64_t step, const LengthOptions& lengths, int64_t step_rows,
                int64_t first_row, int64_t rows, Batch& out);

  // Examples first .. first + rows - 1 of one length; the stride is for windowed tasks (0: segments
  // without overlap). For finite data first + rows must not go beyond Task::count(split, length,
  // stride).
  void evaluation(uint64_t seed, Split split, int64_t length, int64_t stride, uint64_t first,
                  int64_t rows, Batch& out);

 private:
  void assemble(int64_t rows, Batch& out);

  const Task& task_;
  TaskSpec spec_;
  std::vector<Example> examples_;
};

}  // namespace longshot
