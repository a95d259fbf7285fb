#include "experiments/run_task.h"

#include <fmt/core.h>
#include <optional>

#include "core/error.h"
#include "core/files.h"
#include "core/log.h"
#include "data/task_record.h"

namespace longshot {
namespace {

std::string record_file(const std::string& folder) {
  return folder + "/task.json";
}

// Nothing for runs without one, for a damaged one (which is said), and for tasks that need none.
std::optional<TaskRecord> read_record(const std::string& folder) {
  const std::string path = record_file(folder);
  if (!file_exists(path)) return std::nullopt;
  try {
    TaskRecord record = parse_task_record(read_file(path), path);
    if (record.from_options) return std::nullopt;
    return record;
  } catch (const UsageError& error) {
    log::warn("{}; the task is made from its data", error.what());
    return std::nullopt;
  }
}

template <class Make>
std::unique_ptr<Task> with_way_out(const RunConfig& config, const char* way_out, Make make) {
  try {
    return make();
  } catch (const UsageError& error) {
    throw UsageError(
        fmt::format("{}: {}; {}", config.task.where.to_string(), error.what(), way_out));
  }
}

}  // namespace

void write_task_record(const std::string& folder, const Task& task) {
  write_file_atomically(record_file(folder), to_json(task.record()));
}

std::unique_ptr<Task> task_to_predict(const std::string& folder, const RunConfig& config) {
  if (std::optional<TaskRecord> record = read_record(folder))
    return std::make_unique<RecordedTask>(std::move(*record));
  return make_task(config.task.type, config.task.options);
}

std::unique_ptr<Task> task_to_evaluate(const std::string& folder, const RunConfig& config) {
  const std::optional<TaskRecord> record = read_record(folder);
  if (!record) {
    check_files(config);
    return make_task(config.task.type, config.task.options);
  }
  // The task names its file itself; where another is given is told by its options.
  const bool text = config.task.options.find("test_file") != nullptr;
  return with_way_out(config,
                      text ? "task.test_file=FILE on the command line evaluates on another file"
                           : "task.test=FILE on the command line evaluates on another file",
                      [&] { return make_task(config.task.type, config.task.options, &*record); });
}

}  // namespace longshot
