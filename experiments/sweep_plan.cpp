#include "experiments/sweep_plan.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <map>
#include <set>

#include "core/clock.h"
#include "core/context.h"
#include "core/cpu/cpu_backend.h"
#include "core/device.h"
#include "core/files.h"
#include "core/log.h"
#include "experiments/cell_identity.h"
#include "experiments/check_run.h"
#include "experiments/idle_keys.h"
#include "experiments/load.h"
#include "experiments/run_cell.h"
#include "experiments/sweep.h"
#include "train/checkpoint.h"
#include "train/trainer.h"

namespace longshot {
namespace {

// The part of a config that evaluation depends on, as text: for telling whether a finished cell
// must be evaluated again.
std::string evaluation_text(const RunConfig& config) {
  ConfigTable table;
  write_options(table, config.evaluate);
  table.erase("batch");
  table.erase("memory_mb");
  return table.to_toml();
}

// A finished cell's result can be read and answers what [evaluate] asks now.
// `whole`: its checkpoint is looked through, too, not only for.
bool has_result(const std::string& folder, const RunConfig& config, bool whole) {
  const std::string checkpoint = folder + "/checkpoint.safetensors";
  if (!file_exists(folder + "/summary.json") || !file_exists(checkpoint)) return false;
  if (whole && !checkpoint_is_whole(checkpoint)) return false;
  try {
    check_config(folder);
    read_summary(folder);
    return evaluation_text(load_run(folder + "/config.toml")) == evaluation_text(config);
  } catch (const Error& error) {
    log::warn("{}; it is evaluated again", error.what());
    return false;
  }
}

// A cell whose data is gone has lost its identity, which the data's content is a part of. The run
// folder whose config says the same is that cell: what was trained from those files stands. Of
// several (the files had changed between them) the latest.
void recover_identity(Cell& cell, const std::string& study_folder, const std::string& auto_device) {
  const std::vector<std::string> missing = missing_files(cell.config);
  std::error_code error;
  if (missing.empty() || !std::filesystem::is_directory(study_folder, error)) return;
  const ConfigTable wanted = trained_part(cell.config, auto_device);
  std::string found, updated;
  for (const auto& entry : std::filesystem::directory_iterator(study_folder, error)) {
    const std::string folder = entry.path().string();
    const RunStatus status = read_status(folder);
    if (status.state == RunState::absent || (!found.empty() && status.updated <= updated)) continue;
    try {
      const CellRun run = read_cell(folder);
      if (trained_part(run.config, auto_device).to_toml() != wanted.to_toml()) continue;
      cell.identity = run.identity;
      found = folder;
      updated = status.updated;
    } catch (const Error&) {  // a damaged folder is nobody's
    }
  }
  if (!found.empty())
    log::warn("{} is gone; {} was made from it and is taken as it is", missing.front(), found);
}

// Cells with the same key take the same time: seeds and rates do not matter.
std::string cost_key(const RunConfig& config) {
  RunConfig plain = config;
  plain.name.clear();
  plain.seed = 0;
  plain.train.lr = 0;
  plain.train.steps = 1;
  return to_toml(plain);
}

struct Cost {
  double step = 0;        // seconds, at the mean training length
  double evaluation = 0;  // seconds, the final one, all lengths
  double in_range = 0;    // seconds, one evaluation during training
};

Cost measure(const RunConfig& config) {
  RunConfig quiet = config;
  BuiltModel built = build_model(quiet, false);
  const Task& task = *built.task;
  const LengthOptions lengths = config.train.lengths.resolve(config.train.steps, task);
  const double classes = double(task.spec().output_classes);
  Cost cost;

  Optimizer optimizer(built.encoder->parameters(), config.train);
  TrainingStep step(*built.encoder, optimizer, config.train, uint64_t(config.seed),
                    config.device.capture);
  const Tensor losses = built.context->make({config.train.accumulate}, built.context->dtype(),
                                            Lifetime::persistent, "losses");
  Batcher batcher(task);
  std::vector<Batch> batches(static_cast<size_t>(config.train.accumulate));
  double seconds = 0, mean_operations = 0;
  std::vector<double> rates;  // seconds for an operation, a step each
  // Warm up, then at least five steps or a tenth of a second.
  for (int64_t i = 0; i < 40 && (rates.size() < 5 || seconds < 0.1) && seconds < 3; ++i) {
    double step_cost = 0;
    for (int64_t m = 0; m < config.train.accumulate; ++m) {
      Batch& batch = batches[size_t(m)];
      batcher.training(uint64_t(config.seed), uint64_t(i), lengths,
                       config.train.batch * config.train.accumulate, m * config.train.batch,
                       config.train.batch, batch);
      step_cost += step_operations(config.model, int64_t(classes), batch.rows, batch.length);
    }
    const double begin = now_seconds();
    step.run(i, batches, losses.data());
    built.backend->synchronize();
    if (i == 0) continue;
    const double took = now_seconds() - begin;
    seconds += took;
    rates.push_back(took / step_cost);
  }
  int64_t counted = 0;
  for (int64_t n = lengths.low(); n <= lengths.high();
       n += std::max<int64_t>(1, (lengths.high() - lengths.low()) / 32)) {
    mean_operations +=
        step_operations(config.model, int64_t(classes),
                        config.train.batch * config.train.accumulate, task.model_length(n));
    ++counted;
  }
  // The median: one step that the machine held up must not stand for thousands.
  std::nth_element(rates.begin(), rates.begin() + std::ptrdiff_t(rates.size() / 2), rates.end());
  cost.step = rates[rates.size() / 2] * mean_operations / double(counted);

  // Evaluation: one batch in the middle of the lengths, the others by their operations.
  const std::vector<int64_t> asked = config.evaluate_lengths();
  // A length of the middle, or the longest that takes no more than seconds.
  const auto operations = [&](int64_t length) {
    return step_operations(config.model, int64_t(classes), 1, task.model_length(length));
  };
  constexpr double kAffordable = 5e9;
  int64_t probe = asked.empty() ? lengths.high() : asked[asked.size() / 2];
  for (const int64_t length : asked)
    if (operations(probe) > kAffordable && operations(length) < operations(probe)) probe = length;
  if (operations(probe) > kAffordable && operations(lengths.high()) < operations(probe))
    probe = lengths.high();
  EvaluateOptions few = config.evaluate;
  few.samples =
      std::min({few.samples, few.batch, int64_t(1 + 4 * kAffordable / operations(probe))});
  few.in_range_samples = few.samples;
  Evaluator evaluator(*built.encoder, task, few, uint64_t(config.seed));
  double took = std::numeric_limits<double>::infinity();
  int64_t samples = 1;
  for (int i = 0; i < 2; ++i) {
    const double begin = now_seconds();
    samples = std::max<int64_t>(evaluator.at_length(Split::test, probe).samples, 1);
    took = std::min(took, now_seconds() - begin);
  }
  const double one = step_operations(config.model, int64_t(classes), 1, task.model_length(probe));
  const double per_sample = took / double(samples) / one;
  // Of finite data no more than there is, and every window asked for.
  const Evaluator whole(*built.encoder, task, config.evaluate, uint64_t(config.seed));
  const double in_range_operations =
      mean_operations / double(counted) / double(config.train.batch * config.train.accumulate);
  for (const bool sliding : whole.windows()) {
    for (const int64_t length : asked) {
      cost.evaluation +=
          per_sample * double(whole.samples_at(Split::test, length, sliding)) *
          step_operations(config.model, int64_t(classes), 1, task.model_length(length));
    }
    cost.in_range += per_sample * in_range_operations *
                     double(whole.available(Split::test, lengths.low(), lengths.high(), sliding));
  }
  cost.evaluation += cost.in_range;
  return cost;
}

}  // namespace

double step_operations(const ModelOptions& model, int64_t classes, int64_t rows, int64_t length) {
  const double b = double(rows), t = double(length), d = double(model.dim),
               l = double(model.layers);
  return 6 * b * t * (l * (4 * d * d + 2 * d * double(model.ffn)) + d * double(classes)) +
         12 * l * b * t * t * d;
}

bool PlannedCell::needs_work(bool retry_failed) const {
  switch (status.state) {
    case RunState::finished:
      return evaluate_again;
    case RunState::failed:
    case RunState::diverged:
      return retry_failed;
    case RunState::running:
      return false;
    default:
      return true;
  }
}

SweepPlan plan_sweep(const RunArguments& arguments) {
  std::vector<std::string> overrides = arguments.overrides;
  if (!arguments.device.empty()) overrides.push_back("device.type=" + arguments.device);
  const LoadedConfig loaded = load_config(arguments.configs, overrides);
  std::vector<Cell> cells = expand_sweep(loaded, automatic_device());
  const std::unique_ptr<Backend> backend = make_cpu_backend();
  Context context(*backend);  // for building modules without parameters
  std::set<std::string> devices;
  SweepPlan plan;
  plan.notes = loaded.notes;
  plan.study = cells.front().config.name;
  plan.folder = (std::filesystem::path(arguments.out) / plan.study).string();
  for (Cell& cell : cells) {
    recover_identity(cell, plan.folder, automatic_device());
    PlannedCell planned;
    planned.run.config = cell.config;
    planned.run.identity = cell.identity;
    planned.run.study = plan.study;
    for (const auto& [key, value] : cell.overrides)
      planned.run.axes.emplace_back(key, value.is_string() ? value.as_string() : value.to_toml());
    const auto existing = find_cell_folder(plan.folder, cell);
    planned.run.folder =
        existing ? existing->string() : (std::filesystem::path(plan.folder) / cell.folder).string();
    planned.run.cell = std::filesystem::path(planned.run.folder).filename().string();
    planned.status = read_status(planned.run.folder);
    if (planned.status.state != RunState::absent) planned.step = trained_steps(planned.run.folder);
    if (planned.status.state == RunState::finished)
      planned.evaluate_again = !has_result(planned.run.folder, cell.config, arguments.retry_failed);
    // Every mistake is found before the first cell trains; a finished one needs its data no more.
    if (planned.status.state != RunState::finished || planned.evaluate_again) {
      if (planned.evaluate_again && !missing_files(cell.config).empty())
        throw UsageError(fmt::format(
            "{}: [evaluate] has changed, or the result is damaged, and {} is gone; `longshot eval "
            "{}` evaluates what is trained and needs only the data it evaluates on",
            planned.run.cell, missing_files(cell.config).front(), planned.run.folder));
      check_files(cell.config);
      std::vector<std::string> notes = check_run(cell.config, context);
      for (std::string& note : idle_keys(cell.config)) notes.push_back(std::move(note));
      for (std::string& note : notes)
        if (std::find(plan.notes.begin(), plan.notes.end(), note) == plan.notes.end())
          plan.notes.push_back(std::move(note));
      if (devices.insert(cell.config.device.type).second) {
        std::string reason;
        const std::unique_ptr<Backend> device =
            make_backend(cell.config.device.type, &reason, cell.config.device.tf32);
        plan.device +=
            fmt::format("{}{}: {}", plan.device.empty() ? "" : "; ", device->name(), reason);
      }
    }
    plan.cells.push_back(std::move(planned));
  }
  return plan;
}

std::vector<double> estimate_seconds(const SweepPlan& plan, bool retry_failed) {
  // At most this many kinds of cells are measured; the others are scaled from a measured cell with
  // the same encoding, or any.
  constexpr size_t kMeasured = 40;
  std::map<std::string, Cost> known;
  std::map<std::string, std::pair<double, Cost>> by_encoding;  // operations of one step, cost
  std::vector<double> result;
  for (const PlannedCell& cell : plan.cells) {
    if (!cell.needs_work(retry_failed)) {
      result.push_back(0);
      continue;
    }
    const RunConfig& config = cell.run.config;
    const std::string key = cost_key(config);
    auto found = known.find(key);
    if (found == known.end()) {
      const std::string encoding = encoding_label(config);
      const auto task = make_task(config.task.type, config.task.options);
      const double operations = step_operations(
          config.model, task->spec().output_classes, config.train.batch,
          task->model_length((config.train.lengths.min + config.train.lengths.max) / 2));
      const auto similar = by_encoding.find(encoding);
      Cost cost;
      if (known.size() < kMeasured || similar == by_encoding.end()) {
        cost = measure(config);
        by_encoding.emplace(encoding, std::make_pair(operations, cost));
      } else {
        const double ratio = operations / similar->second.first;
        cost = similar->second.second;
        cost.step *= ratio, cost.evaluation *= ratio, cost.in_range *= ratio;
      }
      found = known.emplace(key, cost).first;
    }
    const Cost& cost = found->second;
    const TrainOptions& train = config.train;
    double seconds = cost.evaluation;
    if (cell.status.state != RunState::finished) {
      // A failed or diverged cell may have to start over.
      const bool goes_on = cell.status.state == RunState::interrupted;
      const int64_t left = goes_on ? std::max<int64_t>(train.steps - cell.step, 0) : train.steps;
      seconds += cost.step * double(left);
      if (train.evaluate_every > 0) seconds += cost.in_range * double(left / train.evaluate_every);
    }
    result.push_back(seconds);
  }
  return result;
}

}  // namespace longshot
