// Batches from examples, as pure functions of (seed, step) or (seed, sample index).
//
// Length protocols for training ([train] lengths = {...}):
//   draw = "batch"     one length a batch, uniform in min..max: no padding (Ruoss et al. 2023)
//   draw = "sequence"  a length for each row; rows padded to the longest
//   min = max          fixed
//   curriculum_steps   the largest length grows linearly from curriculum_start to max over these
//                      first steps, then stays
#pragma once

#include <cstdint>
#include <string>

#include "core/config.h"
#include "data/batch.h"
#include "data/task.h"

namespace longshot {

struct LengthOptions {
  int64_t min = 1;
  int64_t max = 40;
  std::string draw = "batch";
  int64_t curriculum_start = 0;  // 0: min
  int64_t curriculum_steps = 0;  // 0: no curriculum
  void fields(FieldVisitor& visit);
  // Throws UsageError (min > max, curriculum_start outside min..max, lengths the task cannot make).
  void check(const Task& task) const;
  // The largest length allowed at an optimizer step: max without a curriculum.
  int64_t largest_at(uint64_t step) const;
};

// Makes batches of one task. Holds scratch memory: use one Batcher per thread.
class Batcher {
 public:
  // `task` must outlive the batcher.
  explicit Batcher(const Task& task);

  // Rows first_row .. first_row + rows - 1 of optimizer step `step`, whose batch has `step_rows`
  // rows in all (batch * accumulate). Cutting a step into micro-batches changes no example, and
  // with draw = "batch" all of them have the step's one length. Row r is example
  // step * step_rows + r of the training split.
  void training(uint64_t seed, uint64_t step, const LengthOptions& lengths, int64_t step_rows,
                int64_t first_row, int64_t rows, Batch& out);

  // Examples first .. first + rows - 1 of one length. For finite data (Task::count) first + rows
  // must not go beyond the count.
  void evaluation(uint64_t seed, Split split, int64_t length, int64_t view, uint64_t first,
                  int64_t rows, Batch& out);

 private:
  void assemble(int64_t rows, Batch& out);

  const Task& task_;
  TaskSpec spec_;
  std::vector<Example> examples_;
};

}  // namespace longshot
