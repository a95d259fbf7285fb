#include "train/trainer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "core/clock.h"
#include "core/files.h"
#include "core/log.h"
#include "core/ops.h"
#include "data/prefetch.h"
#include "train/evaluator.h"
#include "train/json_lines.h"
#include "train/progress.h"
#include "train/schedule.h"
#include "train/signals.h"

namespace longshot {
namespace {

// Steps whose losses may wait on the device before the host reads them.
constexpr int64_t kLossRing = 256;

// Steps without one update after which a log line ends the run as diverged. A batch without a
// counted target, or a gradient that overflows now and then, skips one update or a few; parameters
// that give no finite gradient any more skip all that follow.
constexpr int64_t kStepsWithoutUpdate = 100;

std::string score_json(const Score& score) {
  return JsonObject()
      .add("samples", score.samples)
      .add("loss", score.loss)
      .add("accuracy", score.accuracy.value)
      .add("accuracy_error", score.accuracy.error)
      .add("sequence_accuracy", score.sequence_accuracy.value)
      .add("sequence_accuracy_error", score.sequence_accuracy.error)
      .text();
}

}  // namespace

// ---- one step ----------------------------------------------------------------------------------

TrainingStep::TrainingStep(Encoder& encoder, Optimizer& optimizer, const TrainOptions& options,
                           uint64_t seed, bool capture)
    : encoder_(encoder),
      optimizer_(optimizer),
      options_(options),
      seed_(seed),
      loss_(encoder.context().make({}, encoder.context().dtype(), Lifetime::persistent, "loss")),
      capture_(encoder.context().backend(), capture) {}

TrainingStep::Prepared TrainingStep::prepare(const Batch& batch, int64_t step, int64_t first_row) {
  EncoderInput input;
  input.batch = batch.rows;
  input.length = batch.length;
  input.tokens = batch.tokens;
  if (batch.padded) input.lengths = batch.lengths;
  input.output_begin = batch.output_begin;
  input.outputs = batch.outputs;
  input.training = true;
  input.seed = seed_;
  input.step = uint32_t(step);
  input.first_sample = first_row;
  Prepared prepared;
  prepared.input = encoder_.prepare(input);
  prepared.targets = encoder_.context().from_host(std::span<const int32_t>(batch.targets),
                                                  {batch.rows * batch.outputs});
  return prepared;
}

void TrainingStep::pass(const Prepared& prepared, bool first) {
  Context& context = encoder_.context();
  context.tape().clear();  // what an attempt to record left behind
  if (first)
    encoder_.parameters().begin_gradients();
  else
    encoder_.parameters().continue_gradients();
  Tensor logits = encoder_.forward(prepared.input);
  logits = logits.reshape({prepared.targets.elements(), logits.size(-1)});
  ops::LossOptions options;
  options.smoothing = options_.label_smoothing;
  // Every micro-batch divides by the targets of the whole step, so that accumulated gradients are
  // those of the one large batch.
  options.count_override = &context.step_state()->target_count;
  const Tensor loss = ops::cross_entropy(logits, prepared.targets, options).loss;
  context.backend().copy_on_device(loss_.data(), loss.data(), size_t(size_of(loss.dtype())));
  context.tape().backward(loss);
  encoder_.parameters().finish_gradients();
}

// Everything that decides which kernels a step runs, with which sizes and on which addresses. The
// uploads come before any other step memory, so equal traces mean that a replay finds this batch
// where the recorded one lay.
std::string TrainingStep::signature(const Prepared& prepared, bool first, bool last) const {
  const SequenceContext& sequence = prepared.input.sequence;
  std::string text =
      fmt::format("{}x{} {}+{} {}{}{} {:x}", sequence.batch, sequence.length,
                  prepared.input.output_begin, prepared.input.outputs, int(first), int(last),
                  int(sequence.padded), encoder_.context().step_heap().trace());
  for (const DrawnPositions& drawn : sequence.positions)
    text += fmt::format(" {}/{}{}{}{}", drawn.batches, drawn.limit, int(drawn.contiguous),
                        int(drawn.fractional), int(!drawn.distances.empty()));
  return text;
}

// Changes when memory that a recorded step may use was moved or was given to someone else.
int64_t TrainingStep::generation() const {
  Context& context = encoder_.context();
  return context.step_heap().slabs_taken() + context.persistent_heap().allocations();
}

void TrainingStep::run(int64_t step, std::span<const Batch> batches, void* losses) {
  Context& context = encoder_.context();
  StepState state;
  state.seed = seed_;
  state.step = uint32_t(step);
  state.training = 1;
  state.learning_rate = float(learning_rate(options_, step));
  for (const Batch& batch : batches) state.target_count += double(batch.target_count);
  for (size_t i = 0; i < batches.size(); ++i) {
    StepScope scope(context);
    context.set_step_state(state);
    const Prepared prepared = prepare(batches[i], step, state.sample_offset);
    const bool first = i == 0, last = i + 1 == batches.size();
    const std::string shape = capture_.active() ? signature(prepared, first, last) : "";
    capture_.run(shape, generation(), [&] {
      pass(prepared, first);
      if (last) optimizer_.update();
    });
    const size_t bytes = size_t(size_of(loss_.dtype()));
    context.backend().copy_on_device(static_cast<char*>(losses) + i * bytes, loss_.data(), bytes);
    state.sample_offset += batches[i].rows;
  }
}

void TrainingStep::rehearse(const Batch& batch) {
  Context& context = encoder_.context();
  StepState state;
  state.seed = seed_;
  state.training = 1;
  state.target_count = double(std::max<int64_t>(batch.target_count, 1));
  StepScope scope(context);
  context.set_step_state(state);
  pass(prepare(batch, 0, 0), true);
}

// ---- the loop ----------------------------------------------------------------------------------

struct Trainer::Files {
  JsonLines metrics, timing;
  Files(const std::string& folder, const TrainingProgress& progress)
      : metrics(folder + "/metrics.jsonl", progress.metrics_bytes),
        timing(folder + "/timing.jsonl", progress.timing_bytes) {}
};

Trainer::Trainer(Encoder& encoder, const Task& task, TrainerOptions options)
    : encoder_(encoder),
      task_(task),
      options_(std::move(options)),
      optimizer_(encoder.parameters(), options_.train),
      step_(encoder, optimizer_, options_.train, options_.seed, options_.capture) {
  options_.train.lengths = options_.train.lengths.resolve(options_.train.steps, task);
}

Trainer::~Trainer() = default;

void Trainer::read_losses(int64_t step) {
  if (losses_written_ == 0) return;
  const std::vector<double> values = losses_.to_doubles();
  const int64_t micro = options_.train.accumulate;
  for (int64_t i = 0; i < losses_written_; ++i) {
    double loss = 0;
    for (int64_t m = 0; m < micro; ++m) loss += values[size_t(i * micro + m)];
    progress_.pending_losses.push_back(loss);
    progress_.last_loss = loss;
    if (!std::isfinite(loss) && !diverged_) {
      diverged_ = true;
      divergence_ = fmt::format("the loss was not finite at or before step {}", step);
      log::error("step {}: the loss is {}; the run has diverged", step - losses_written_ + i + 1,
                 loss);
    }
  }
  losses_written_ = 0;
}

// For display only: looks at the ring without taking anything out, so that when a line is shown
// does not decide when a divergence is noticed.
double Trainer::latest_loss() const {
  if (losses_written_ == 0) return progress_.last_loss;
  const std::vector<double> values = losses_.to_doubles();
  double loss = 0;
  for (int64_t m = 0; m < options_.train.accumulate; ++m)
    loss += values[size_t((losses_written_ - 1) * options_.train.accumulate + m)];
  return loss;
}

// A run whose updates are all skipped would train nothing to its end.
void Trainer::check_updates(int64_t step, int64_t updates) {
  if (updates > progress_.updates) {
    progress_.updates = updates;
    progress_.updated_step = step;
  }
  const bool last = step == options_.train.steps;
  const int64_t without = step - progress_.updated_step;
  if (diverged_ || (without < kStepsWithoutUpdate && !(last && updates == 0))) return;
  diverged_ = true;
  divergence_ = fmt::format(
      "no update in {} steps up to step {}: in each of them no target counted, or the gradient was "
      "not finite",
      without, step);
  log::error("{}; the run has diverged", divergence_);
}

void Trainer::log_step(int64_t step) {
  const UpdateState update = optimizer_.state();
  if (update.skipped_steps > skipped_seen_) {
    log::warn(
        "step {}: {} update(s) skipped since the last line: no counted target, or a gradient norm "
        "that is not finite",
        step, update.skipped_steps - skipped_seen_);
    skipped_seen_ = update.skipped_steps;
  }
  check_updates(step, step - int64_t(update.skipped_steps));
  double mean = 0;
  for (const double loss : progress_.pending_losses) mean += loss;
  if (!progress_.pending_losses.empty()) mean /= double(progress_.pending_losses.size());
  if (files_) {
    JsonObject line;
    line.add("step", step)
        .add("loss", mean)
        .add("learning_rate", double(float(learning_rate(options_.train, step - 1))))
        .add("gradient_norm", std::sqrt(update.squared_norm))
        .add("tokens", progress_.tokens);
    if (update.skipped_steps > 0) line.add("skipped_steps", int64_t(update.skipped_steps));
    if (diverged_ || !std::isfinite(mean)) line.add("diverged", true);
    files_->metrics.write(line.text());
  }
  progress_.pending_losses.clear();
  progress_.pending_tokens = 0;
}

void Trainer::evaluate(int64_t step) {
  Evaluator evaluator(encoder_, task_, options_.evaluate, options_.seed);
  const Score score = evaluator.in_range(Split::validation, options_.train.lengths.low(),
                                         options_.train.lengths.high());
  if (stop_requested()) return;  // cut short: it is done again after resuming
  progress_.evaluation_due = false;
  if (files_) {
    files_->metrics.write(JsonObject()
                              .add("step", step)
                              .add("split", std::string_view("validation"))
                              .add_raw("in_range", score_json(score))
                              .text());
  }
  log::info("{}{}step {}: in range loss {:.4g}, accuracy {:.2f} %", options_.label,
            options_.label.empty() ? "" : ": ", step, score.loss, 100 * score.accuracy.value);
  // The best is the lowest loss; min_delta is for patience alone. A loss that is not finite is
  // neither.
  const bool first = progress_.best_step < 0, measured = std::isfinite(score.loss);
  const bool patient =
      measured && (first || score.loss < progress_.patience_loss - options_.train.min_delta);
  if (measured && (first || score.loss < progress_.best_loss)) {
    progress_.best_loss = score.loss;
    progress_.best_step = step;
    if (options_.train.keep == "best") optimizer_.save_best();
  }
  if (patient) {
    progress_.patience_loss = score.loss;
    progress_.evaluations_since_best = 0;
  } else {
    ++progress_.evaluations_since_best;
  }
  if (options_.train.patience > 0 && progress_.evaluations_since_best >= options_.train.patience) {
    progress_.stopped_early = true;
    log::info("step {}: no improvement in {} evaluations; stopping early", step,
              options_.train.patience);
  }
}

void Trainer::checkpoint(int64_t step) {
  if (!files_) return;
  progress_.step = step;
  files_->metrics.sync();
  files_->timing.sync();
  progress_.metrics_bytes = files_->metrics.bytes();
  progress_.timing_bytes = files_->timing.bytes();
  // In this order: a kill between the two leaves an older state, which comes to these parameters
  // again. The other way round a finished run could keep the parameters of an earlier step.
  save_parameters(options_.folder + "/checkpoint.safetensors", encoder_);
  save_training_state(options_.folder + "/training_state.safetensors", encoder_.parameters(),
                      optimizer_, progress_, options_.identity);
}

TrainResult Trainer::run() {
  const TrainOptions& train = options_.train;
  const std::string state_path = options_.folder + "/training_state.safetensors";
  if (!options_.folder.empty() && file_exists(state_path)) {
    progress_ =
        load_training_state(state_path, encoder_.parameters(), optimizer_, options_.identity);
    if (progress_.step > 0 && !progress_.finished && !progress_.diverged)
      log::info("resuming at step {} of {}", progress_.step, train.steps);
  } else if (!train.init_from.empty()) {
    load_parameters(train.init_from, encoder_);
  }
  if (!options_.folder.empty()) remove_abandoned_files(options_.folder);
  if (!options_.folder.empty()) files_ = std::make_unique<Files>(options_.folder, progress_);
  TrainResult result;
  const auto finish = [&](Outcome outcome, std::string message) {
    result.outcome = outcome;
    result.progress = progress_;
    result.last_loss = progress_.last_loss;
    result.skipped_steps = optimizer_.state().skipped_steps;
    result.message = std::move(message);
    return result;
  };
  if (progress_.diverged) return finish(Outcome::diverged, "the run had diverged before");
  if (progress_.finished) {
    const std::string path = options_.folder + "/checkpoint.safetensors";
    if (files_ && !checkpoint_is_whole(path)) {
      log::warn("{}: missing or damaged; written anew from the training state", path);
      save_parameters(path, encoder_);
    }
    return finish(Outcome::done, "");
  }

  skipped_seen_ = optimizer_.state().skipped_steps;
  const int64_t ring = std::min(kLossRing, std::max<int64_t>(train.log_every, 1));
  losses_ = encoder_.context().make({ring, train.accumulate}, encoder_.context().dtype(),
                                    Lifetime::persistent, "losses");
  const bool training_left = progress_.step < train.steps && !progress_.stopped_early;
  const bool can_validate =
      !training_left ||
      Evaluator(encoder_, task_, options_.evaluate, options_.seed)
              .available(Split::validation, train.lengths.low(), train.lengths.high()) > 0;
  if (!can_validate) {
    if (train.patience > 0 || train.keep == "best")
      throw UsageError(fmt::format(
          "train.{} needs validation data, and the validation part holds nothing of lengths {} to "
          "{}",
          train.patience > 0 ? "patience" : "keep", train.lengths.low(), train.lengths.high()));
    if (train.evaluate_every > 0)
      log::warn(
          "the validation part holds nothing of lengths {} to {}: no evaluation during training",
          train.lengths.low(), train.lengths.high());
  }
  std::vector<Batch> batches(static_cast<size_t>(train.accumulate));
  std::unique_ptr<Prefetcher> prefetcher;
  if (training_left) {
    // The longest batch first, without an update: memory is reserved before the first step.
    const LengthOptions longest = train.lengths.longest_only(task_);
    Batcher batcher(task_);
    batcher.training(options_.seed, 0, longest, train.batch, 0, train.batch, batches[0]);
    step_.rehearse(batches[0]);

    PrefetchPlan plan;
    plan.seed = options_.seed;
    plan.lengths = train.lengths;
    plan.batch = train.batch;
    plan.accumulate = train.accumulate;
    plan.first_step = uint64_t(progress_.step);
    plan.end_step = uint64_t(train.steps);
    prefetcher = std::make_unique<Prefetcher>(task_, plan);
  }

  // Said once, and only where it could be otherwise; the CPU has nothing to record.
  if (training_left && !step_.capture().active() && !encoder_.context().backend().host_accessible())
    log::info("training steps run operation by operation: {}", step_.capture().reason());

  Progress bar(progress_.step, train.steps, options_.label);
  double started = now_seconds();
  int64_t timed_step = progress_.step, timed_tokens = progress_.tokens;
  double timed_from = started;
  if (progress_.evaluation_due) {
    evaluate(progress_.step);
    if (progress_.evaluation_due)
      return finish(Outcome::interrupted,
                    fmt::format("stopped by a signal at step {}", progress_.step));
  }
  const size_t loss_bytes = size_t(size_of(encoder_.context().dtype()));
  for (int64_t step = progress_.step; step < train.steps && !progress_.stopped_early;) {
    for (int64_t m = 0; m < train.accumulate; ++m) {
      batches[size_t(m)] = prefetcher->next();
      progress_.tokens += batches[size_t(m)].rows * batches[size_t(m)].length;
    }
    step_.run(step, batches,
              static_cast<char*>(losses_.data()) +
                  size_t(losses_written_ * train.accumulate) * loss_bytes);
    ++losses_written_;
    ++step;
    progress_.step = step;

    const bool last = step == train.steps;
    const bool log_now = step % train.log_every == 0 || last;
    const bool evaluate_now =
        can_validate && ((train.evaluate_every > 0 && step % train.evaluate_every == 0) ||
                         (last && train.keep == "best"));
    const bool checkpoint_now = train.checkpoint_every > 0 && step % train.checkpoint_every == 0;
    const bool stop_now = stop_requested();
    if (log_now || evaluate_now || checkpoint_now || stop_now || losses_written_ == ring)
      read_losses(step);
    if (log_now || diverged_) {
      bar.clear();  // a warning must not be written into the line
      log_step(step);
      const double now = now_seconds();
      if (files_ && now > timed_from) {
        files_->timing.write(
            JsonObject()
                .add("step", step)
                .add("seconds", progress_.seconds + now - started)
                .add("steps_per_second", double(step - timed_step) / (now - timed_from))
                .add("tokens_per_second",
                     double(progress_.tokens - timed_tokens) / (now - timed_from))
                .text());
      }
      timed_step = step, timed_tokens = progress_.tokens, timed_from = now;
    }
    if (options_.show_progress && bar.due()) bar.update(step, latest_loss());
    if (diverged_) {
      progress_.diverged = true;
      progress_.seconds += now_seconds() - started;
      checkpoint(step);
      return finish(Outcome::diverged, divergence_);
    }
    if (evaluate_now) {
      progress_.evaluation_due = true;
      bar.clear();
      if (!stop_now) evaluate(step);
    }
    if (stop_now || progress_.evaluation_due) {
      progress_.seconds += now_seconds() - started;
      checkpoint(step);
      return finish(Outcome::interrupted, fmt::format("stopped by a signal at step {}", step));
    }
    if (checkpoint_now) {
      progress_.seconds += now_seconds() - started;
      started = now_seconds();
      checkpoint(step);
    }
  }
  bar.clear();
  if (train.keep == "best") {
    if (progress_.best_step < 0)
      log::warn("keep = \"best\": no evaluation gave a finite loss; the last parameters remain");
    optimizer_.restore_best();
  }
  progress_.finished = true;
  progress_.seconds += now_seconds() - started;
  checkpoint(progress_.step);
  return finish(Outcome::done, "");
}

}  // namespace longshot
