// The task of a trained run, for those that come later and may not find its data: task.json in the
// run folder (data/task_record.h).
#pragma once

#include <memory>
#include <string>

#include "data/task.h"
#include "experiments/schema.h"

namespace longshot {

// When a run starts.
void write_task_record(const std::string& folder, const Task& task);

// For predict: needs no data where the run has a record. Runs of earlier versions have none: their
// task is made as for training.
std::unique_ptr<Task> task_to_predict(const std::string& folder, const RunConfig& config);
// For eval: needs the files of the test split alone where the run has a record.
std::unique_ptr<Task> task_to_evaluate(const std::string& folder, const RunConfig& config);

}  // namespace longshot
