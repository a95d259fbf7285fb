// `longshot eval RUN [key=value...]`: a finished run's checkpoint, evaluated again: other lengths,
// other RoPE scaling, other positions. The result goes beside the first, never over it.
#include <cmath>
#include <fmt/core.h>
#include <optional>

#include "core/clock.h"
#include "core/files.h"
#include "core/log.h"
#include "core/parallel.h"
#include "core/streams.h"
#include "experiments/cell_identity.h"
#include "experiments/check_run.h"
#include "experiments/commands.h"
#include "experiments/load.h"
#include "experiments/run_cell.h"
#include "experiments/run_folder.h"
#include "experiments/run_task.h"
#include "experiments/sweep.h"
#include "train/checkpoint.h"
#include "train/signals.h"

namespace longshot {
namespace {

// "task.test=FILE": a key whose value is a path.
bool names_a_file(const std::string& override_text) {
  const std::string key = override_text.substr(5, override_text.find('=') - 5);
  for (const SectionType& type : Schema::installed().task().types)
    for (const FieldInfo& field : type.describe())
      if (field.key == key && (field.type == "file" || key == "evaluate_bytes")) return true;
  return false;
}

// Whether the files that the run was made from still hold what they held. Where they changed, lines
// that were trained on may now stand among those that measure. Files that are gone say nothing
// here.
void check_data(const std::string& folder, const std::vector<std::string>& overrides) {
  if (!file_exists(folder + "/cell.json")) return;
  CellRun run;
  try {
    run = read_cell(folder);
  } catch (const UsageError& error) {
    return log::warn("{}; whether the data is that of the training is not known", error.what());
  }
  if (!missing_files(run.config).empty()) return;
  for (const char* device : {"cpu", "cuda"})
    for (const std::optional<int64_t> version :
         {std::optional<int64_t>(), std::optional<int64_t>(1)})
      if (identity_of(run.config, device, Schema::installed(), version) == run.identity) return;
  const std::string what = fmt::format(
      "{}: the data files of this run have changed since it was trained: what was held out then "
      "need "
      "not be now",
      folder);
  for (const std::string& each : overrides)
    if (each.starts_with("task.")) return log::warn("{}", what);
  throw UsageError(what + "; put them back, or name the file to evaluate on (task.test=FILE)");
}

}  // namespace

int eval_command(const EvalArguments& arguments) {
  set_threads(int(arguments.threads));
  const std::string& folder = arguments.run;
  check_trained(folder);
  if (arguments.no_locks) FolderLock::turn_off();
  // Several may evaluate a run at once, none while it trains.
  const FolderLock lock(folder, FolderLock::Kind::read);
  if (!lock.held())
    throw Error(
        fmt::format("{}: another process works on this run; evaluate it after that", folder));
  if (!arguments.forget.empty()) {
    const int64_t removed = remove_evaluations(folder, arguments.forget);
    if (removed == 0) {
      std::string labels;
      for (const StoredEvaluation& each : read_summary(folder).evaluations)
        if (!each.label.empty()) labels += (labels.empty() ? "" : ", ") + each.label;
      throw UsageError(fmt::format("{}: no later evaluation is called \"{}\"; there are: {}",
                                   folder, arguments.forget, labels.empty() ? "none" : labels));
    }
    print("{}: {} later evaluation{} removed\n", folder, removed, removed == 1 ? "" : "s");
    return kExitDone;
  }
  for (const std::string& override_text : arguments.overrides) {
    for (const char* fixed :
         {"train.", "model.dim", "model.layers", "model.heads", "model.ffn", "name"}) {
      if (override_text.rfind(fixed, 0) == 0 && override_text.rfind("train.lengths", 0) != 0) {
        throw UsageError(
            fmt::format("command line: {}: training is over; eval takes [evaluate], [encoding], "
                        "[positions] and seed",
                        override_text));
      }
    }
    if (override_text.starts_with("task.") && !names_a_file(override_text))
      throw UsageError(fmt::format(
          "command line: {}: the task's options are what was trained; eval takes other files of it",
          override_text));
  }
  std::vector<std::string> overrides = arguments.overrides;
  if (!arguments.device.empty()) overrides.push_back("device.type=" + arguments.device);
  check_config(folder);
  const RunConfig config = load_run(folder + "/config.toml", overrides);
  check_data(folder, arguments.overrides);
  BuiltModel built = build_model(config, true, nullptr, task_to_evaluate(folder, config));
  for (const std::string& note : check_run(config, *built.context, built.task.get()))
    log::warn("{}", note);
  load_trained(folder, *built.encoder);

  const Summary summary = read_summary(folder);
  SignalScope signals;
  const LengthOptions lengths = config.train.lengths.resolve(config.train.steps, *built.task);
  const double begin = now_seconds();
  Evaluator evaluator(*built.encoder, *built.task, config.evaluate, uint64_t(config.seed));
  StoredEvaluation evaluation;
  evaluation.overrides = arguments.overrides;
  for (const std::string& each : arguments.overrides)
    evaluation.label += (evaluation.label.empty() ? "" : " ") + each;
  if (evaluation.label.empty()) evaluation.label = "again";
  evaluation.scores = evaluator.all(lengths.low(), lengths.high());
  evaluation.seconds = now_seconds() - begin;
  if (evaluation.scores.stopped) {
    log::warn("stopped by a signal; nothing was written");
    return kExitStopped;
  }

  const auto show = [&](const Score& score) {
    if (!std::isfinite(metric_of(summary, score).value))
      return std::string(score.samples == 0 ? "no samples" : "no predictions that count");
    if (summary.metric == "loss")
      return fmt::format(
          "loss {:.4f}  perplexity {:.3f}{}  ({} samples)", score.loss, std::exp(score.loss),
          summary.bytes ? fmt::format("  {:.4f} bits per byte", score.loss / std::log(2.0)) : "",
          score.samples);
    const Measure share = metric_of(summary, score);
    return fmt::format("{} {:.2f} %  [{:.2f}, {:.2f}]  ({} samples)", summary.metric,
                       100 * share.value, 100 * share.interval().low, 100 * share.interval().high,
                       score.samples);
  };
  print("{} ({}){}\n", folder, evaluation.label,
        summary.metric == "loss" ? "" : "; in brackets: 95 % interval of finite samples");
  const bool validation = evaluation.scores.in_range_split == Split::validation;
  for (const LengthScore& each : evaluation.scores.in_range) {
    print("  {:>10}{}  {}{}\n", "in range", each.sliding ? " (sliding)" : "", show(each.score),
          validation ? ", of the validation part" : "");
    if (each.score.coverage < 1)
      print("  {:>10}  they hold the lengths of {:.1f} % of the training sequences\n", "",
            100 * each.score.coverage);
  }
  for (const LengthScore& each : evaluation.scores.lengths)
    print("  {:>10}{}  {}\n", each.length, each.sliding ? " (sliding)" : "", show(each.score));
  // Shown before it is kept: a disk that does not take it must not cost the numbers.
  try {
    write_evaluation(folder, evaluation);
  } catch (const FileError& error) {
    if (!error.of_permission()) throw;
    log::warn("these numbers are not kept: {}", error.what());
  }
  return kExitDone;
}

}  // namespace longshot
