#include "experiments/run_cell.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "core/clock.h"
#include "core/device.h"
#include "core/files.h"
#include "core/log.h"
#include "core/parallel.h"
#include "experiments/load.h"
#include "experiments/run_folder.h"
#include "experiments/run_task.h"
#include "train/json_text.h"
#include "train/sha256.h"
#include "train/signals.h"
#include "train/trainer.h"

namespace longshot {
namespace {

std::string sha256_of(const std::string& text) {
  Sha256 hash;
  hash.add(std::as_bytes(std::span(text)));
  return hash.hex();
}

void log_parameters(const Encoder& encoder) {
  // Blocks have the same parameters: one name for all of them, "block.*.attention.qkv.weight".
  const auto list = [](const std::vector<std::string>& names) {
    std::vector<std::string> patterns;
    for (std::string name : names) {
      if (name.starts_with("block.")) name = "block.*" + name.substr(name.find('.', 6));
      if (std::find(patterns.begin(), patterns.end(), name) == patterns.end())
        patterns.push_back(name);
    }
    std::string text;
    for (const std::string& name : patterns) text += (text.empty() ? "" : ", ") + name;
    return text.empty() ? std::string("none") : text;
  };
  log::note("{} parameters", encoder.parameters().parameter_count());
  log::note("with weight decay: {}", list(encoder.parameters().names(true)));
  log::note("without weight decay: {}", list(encoder.parameters().names(false)));
}

const char* metric_name(const TaskSpec& spec) {
  return spec.bytes ? "loss" : spec.exact_match ? "sequence_accuracy" : "accuracy";
}

// Own data, and tasks with one answer a sequence at every length that is measured.
bool constant_is_chance(const RunConfig& config, const Task& task) {
  if (task.spec().fixed_samples) return true;
  std::vector<int64_t> lengths = config.evaluate_lengths();
  const LengthOptions trained = config.train.lengths.resolve(config.train.steps, task);
  lengths.insert(lengths.end(), {trained.low(), trained.high()});
  return std::all_of(lengths.begin(), lengths.end(),
                     [&](int64_t length) { return task.output_length(length) == 1; });
}

// `message`: why it ended so, where it was not finished.
int train_and_evaluate(const CellRun& run, const CellDisplay& display, std::string& message) {
  const RunConfig& config = run.config;
  BuiltModel built = build_model(config);
  write_task_record(run.folder, *built.task);
  log::note("threads {} ({})", threads(), threads_reason());
  log_parameters(*built.encoder);

  TrainerOptions options;
  options.train = config.train;
  options.evaluate = config.evaluate;
  options.seed = uint64_t(config.seed);
  options.folder = run.folder;
  options.identity = run.identity;
  options.show_progress = display.progress;
  options.capture = config.device.capture;
  options.label = display.label;
  Trainer trainer(*built.encoder, *built.task, options);
  const TrainResult trained = while_doing("training", [&] { return trainer.run(); });
  if (trained.outcome != Outcome::done) {
    message = trained.message;
    log::note("{}", message);
    return trained.outcome == Outcome::interrupted ? kExitStopped : kExitDiverged;
  }

  const LengthOptions lengths = config.train.lengths.resolve(config.train.steps, *built.task);
  const double begin = now_seconds();
  Evaluator evaluator(*built.encoder, *built.task, config.evaluate, uint64_t(config.seed));
  StoredEvaluation evaluation;
  evaluation.scores = while_doing("evaluating the trained model",
                                  [&] { return evaluator.all(lengths.low(), lengths.high()); });
  evaluation.seconds = now_seconds() - begin;
  if (evaluation.scores.stopped) {
    log::note("stopped by a signal while evaluating");
    return kExitStopped;
  }

  const TaskSpec spec = built.task->spec();
  Summary summary;
  summary.version = LONGSHOT_VERSION;
  summary.study = run.study;
  summary.cell = run.cell;
  summary.identity = run.identity;
  summary.task = config.task.type;
  summary.encoding = config.encoding.type;
  summary.positions = config.positions.type;
  summary.encoding_label = encoding_label(config);
  summary.axes = run.axes;
  summary.seed = config.seed;
  summary.device = built.backend->name();
  summary.device_description = built.backend->description();
  summary.threads = threads();
  summary.parameters = built.encoder->parameters().parameter_count();
  summary.parameters_sha256 = parameters_sha256(*built.encoder);
  summary.chance = spec.chance;
  summary.constant_is_chance = constant_is_chance(config, *built.task);
  summary.fixed_samples = spec.fixed_samples;
  summary.metric = metric_name(spec);
  summary.bytes = spec.bytes;
  summary.train_min = lengths.low();
  summary.train_max = lengths.high();
  summary.steps = trained.progress.step;
  summary.best_step = trained.progress.best_step;
  summary.stopped_early = trained.progress.stopped_early;
  summary.skipped_steps = trained.skipped_steps;
  summary.last_loss = trained.last_loss;
  summary.train_seconds = trained.progress.seconds;
  if (summary.train_seconds > 0) {
    summary.steps_per_second = double(trained.progress.step) / summary.train_seconds;
    summary.tokens_per_second = double(trained.progress.tokens) / summary.train_seconds;
  }
  summary.memory_bytes =
      int64_t(built.context->step_heap().capacity() + built.context->persistent_heap().capacity());
  summary.evaluations.push_back(std::move(evaluation));
  write_summary(run.folder, summary);
  const Score* inside = in_range(summary.evaluations.front(),
                                 summary.evaluations.front().scores.in_range.front().sliding);
  log::note("in range: loss {:.4g}, accuracy {:.2f} %", inside->loss, 100 * inside->accuracy.value);
  return kExitDone;
}

}  // namespace

EncoderInterface interface_of(const Task& task, const RunConfig& config) {
  const TaskSpec spec = task.spec();
  EncoderInterface interface;
  interface.input_vocabulary = spec.input_vocabulary;
  interface.output_classes = spec.output_classes;
  interface.mean_pool = spec.output == Output::mean;
  interface.train_length =
      task.model_length(config.train.lengths.resolve(config.train.steps, task).high());
  return interface;
}

BuiltModel build_model(const RunConfig& config, bool log_choice, BackendWrapper wrap,
                       std::unique_ptr<Task> task) {
  BuiltModel built;
  built.task = task != nullptr ? std::move(task) : while_doing("loading the task's data", [&] {
    return make_task(config.task.type, config.task.options);
  });
  if (built.task->spec().causal && !config.model.causal) {
    throw UsageError(
        fmt::format("{}: task {} predicts later inputs; it needs model.causal = true, or every "
                    "token would see its own "
                    "answer",
                    config.task.where.to_string(), config.task.type));
  }
  std::string reason;
  built.backend = make_backend(config.device.type, &reason, config.device.tf32);
  if (log_choice) log::note("device {}: {}", built.backend->name(), reason);
  if (wrap != nullptr) built.backend = wrap(std::move(built.backend));
  built.context = std::make_unique<Context>(*built.backend);
  built.encoder = while_doing("building the model", [&] {
    return std::make_unique<Encoder>(*built.context, config.model, config.encoding.with_type(),
                                     config.positions.with_type(),
                                     interface_of(*built.task, config), uint64_t(config.seed));
  });
  return built;
}

std::string encoding_label(const RunConfig& config) {
  const bool plain = config.positions.type == Schema::installed().positions().default_type;
  return plain ? config.encoding.type : config.encoding.type + " " + config.positions.type;
}

void write_cell(const CellRun& run) {
  make_folder(run.folder);
  const std::string config = to_toml(run.config) + "\n";
  write_file_atomically(run.folder + "/config.toml", config);
  nlohmann::ordered_json axes = nlohmann::ordered_json::array();
  for (const auto& [key, value] : run.axes) axes.push_back({key, value});
  const nlohmann::ordered_json json = {{"identity", run.identity},
                                       {"study", run.study},
                                       {"cell", run.cell},
                                       {"axes", axes},
                                       {"config_sha256", sha256_of(config)}};
  write_file_atomically(run.folder + "/cell.json", json_text(json, 1));
}

CellRun read_cell(const std::string& folder) {
  CellRun run;
  run.folder = folder;
  check_config(folder);
  run.config = load_run(folder + "/config.toml");
  const std::string path = folder + "/cell.json";
  try {
    const auto json = nlohmann::json::parse(read_file(path));
    run.identity = json.at("identity");
    run.study = json.at("study");
    run.cell = json.at("cell");
    for (const auto& axis : json.at("axes")) run.axes.emplace_back(axis.at(0), axis.at(1));
  } catch (const nlohmann::json::exception& error) {
    throw UsageError(fmt::format("{}: cannot be read ({}); delete the folder and run again", path,
                                 error.what()));
  }
  return run;
}

void check_config(const std::string& folder) {
  std::string stored;
  try {
    stored = nlohmann::json::parse(read_file(folder + "/cell.json")).value("config_sha256", "");
  } catch (const std::exception&) {
    return;  // no readable cell.json: nothing to hold it against
  }
  if (!stored.empty() && stored != sha256_of(read_file(folder + "/config.toml")))
    throw UsageError(fmt::format(
        "{}/config.toml: it was changed after the run was made, which would make its results "
        "those of another run; put it back (`longshot run` of its study writes it anew and "
        "evaluates again), and give other values as key=value",
        folder));
}

void load_trained(const std::string& folder, Encoder& encoder) {
  const std::string path = folder + "/checkpoint.safetensors";
  load_parameters(path, encoder);
  if (!file_exists(folder + "/summary.json")) return;  // not finished
  const Summary summary = read_summary(folder);
  if (parameters_sha256(encoder) != summary.parameters_sha256)
    throw UsageError(
        fmt::format("{}: these are not the parameters that the run ended with: {}/summary.json has "
                    "another SHA-256 for them; put the run's own file back, or delete summary.json "
                    "and run again",
                    path, folder));
}

bool can_resume(const CellRun& run) {
  const std::string path = run.folder + "/training_state.safetensors";
  if (!file_exists(path)) return true;  // from the beginning
  try {
    BuiltModel built = build_model(run.config, false);
    Optimizer optimizer(built.encoder->parameters(), run.config.train);
    load_training_state(path, built.encoder->parameters(), optimizer, run.identity);
    return true;
  } catch (const std::exception& error) {
    log::warn("{}: starts over, its checkpoint is of no use: {}", run.cell, error.what());
    return false;
  }
}

int run_cell(const CellRun& run, const CellDisplay& display) {
  FolderLock lock(run.folder);
  if (!lock.held()) return kExitBusy;
  log::FileSink file(run.folder + "/log.txt");
  RunStatus status;
  status.identity = run.identity;
  status.process = getpid();
  status.started = time_now();
  const auto finish = [&](RunState state, int code, const std::string& message) {
    status.state = state;
    status.exit_code = code;
    status.message = message;
    try {
      write_status(run.folder, status);
    } catch (const std::exception& error) {  // a full disk: the reason is on its way already
      if (state == RunState::finished) throw;
      log::error("{}", error.what());
    }
    return code;
  };
  try {
    status.state = RunState::running;
    write_status(run.folder, status);
    std::string message;
    const int code = train_and_evaluate(run, display, message);
    if (code == kExitStopped) return finish(RunState::interrupted, code, "stopped by a signal");
    if (code == kExitDiverged) return finish(RunState::diverged, code, message);
    return finish(RunState::finished, code, "");
  } catch (const FileError& error) {
    log::note("{}", error.what());
    if (!error.of_the_disk()) return finish(RunState::failed, kExitFailed, error.what());
    finish(RunState::interrupted, kExitFailed, error.what());
    throw;
  } catch (const UsageError& error) {
    log::note("{}", error.what());
    return finish(RunState::failed, kExitUsage, error.what());
  } catch (const std::exception& error) {
    log::note("{}", error.what());
    return finish(RunState::failed, kExitFailed, error.what());
  }
}

}  // namespace longshot
