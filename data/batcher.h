// Batches from examples, as pure functions of (seed, step) or (seed, sample index).
#pragma once

#include <cstdint>
#include <optional>
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
  // rows in all (batch * accumulate), laid out as in that whole batch: the same examples, the same
  // padded length, the same span of predictions. So an element has the same place in its sample
  // however a step is cut, and with it the same dropout. `lengths` must be resolved. Row r is
  // example step * step_rows + r of the training split. Micro-batches asked for in turn share one
  // making of the step's examples.
  void training(uint64_t seed, uint64_t step, const LengthOptions& lengths, int64_t step_rows,
                int64_t first_row, int64_t rows, Batch& out);

  // Examples first .. first + rows - 1 of one length; the stride is for windowed tasks (0: segments
  // without overlap). For finite data first + rows must not go beyond Task::count(split, length,
  // stride). `spread`: they are numbered among so many, which lie evenly over all that a split
  // holds; 0: the split's own first ones.
  void evaluation(uint64_t seed, Split split, int64_t length, int64_t stride, uint64_t first,
                  int64_t rows, Batch& out, int64_t spread = 0);

 private:
  // The step that examples_ holds.
  struct Step {
    uint64_t seed = 0, step = 0;
    int64_t rows = 0;
    LengthOptions lengths;
    bool operator==(const Step&) const = default;
  };
  void make_step(const Step& wanted);
  void assemble(int64_t held, int64_t first_row, int64_t rows, Batch& out);

  const Task& task_;
  TaskSpec spec_;
  std::vector<Example> examples_;
  std::vector<int64_t> task_lengths_;  // of examples_
  std::optional<Step> made_;
};

}  // namespace longshot
