// Trainer: the loop. Batch -> forward -> loss -> backward -> clip -> AdamW, with checkpoints,
// metrics and evaluations on the way.
//
// Everything random is a pure function of (seed, step), everything that is not lies in the training
// state: a run that was stopped anywhere goes on to the same bits. Losses stay on the device and
// are read every few steps.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "core/capture.h"
#include "data/batch.h"
#include "data/task.h"
#include "nn/encoder.h"
#include "train/checkpoint.h"
#include "train/evaluate_options.h"
#include "train/optimizer.h"
#include "train/train_options.h"

namespace longshot {

enum class Outcome { done, interrupted, diverged };

struct TrainerOptions {
  TrainOptions train;
  EvaluateOptions evaluate;
  uint64_t seed = 1;
  std::string folder;    // exists; "" writes no files (benchmarks, tests)
  std::string identity;  // names the run in its training state
  bool show_progress = true;
  std::string label;    // opens progress lines and messages: which cell of a sweep this is
  bool capture = true;  // record the step once and replay it, where the backend can
};

struct TrainResult {
  Outcome outcome = Outcome::done;
  TrainingProgress progress;
  double last_loss = 0;
  uint64_t skipped_steps = 0;
  std::string message;  // why it stopped, when not done
};

// One optimizer step, without the loop around it: what the trainer repeats and the benchmark times.
class TrainingStep {
 public:
  TrainingStep(Encoder& encoder, Optimizer& optimizer, const TrainOptions& options, uint64_t seed,
               bool capture = true);
  // `batches`: the micro-batches of this step, all of them. Leaves each micro-batch's share of the
  // loss in `losses` (device, f32 or f64 as the context), one after another. No host read of the
  // device.
  void run(int64_t step, std::span<const Batch> batches, void* losses);
  // Forward and backward without an update: reserves memory for a batch of this shape.
  void rehearse(const Batch& batch);
  const StepCapture& capture() const { return capture_; }

 private:
  struct Prepared {
    PreparedInput input;
    Tensor targets;
  };
  // All host work and all uploads of a micro-batch; what follows is operations only.
  Prepared prepare(const Batch& batch, int64_t step, int64_t first_row);
  // Forward and backward; the loss goes to loss_.
  void pass(const Prepared& prepared, bool first);
  std::string signature(const Prepared& prepared, bool first, bool last) const;
  int64_t generation() const;

  Encoder& encoder_;
  Optimizer& optimizer_;
  TrainOptions options_;
  uint64_t seed_;
  Tensor loss_;  // one number that outlives the step, so that a replay leaves its loss in a known
                 // place
  StepCapture capture_;
};

class Trainer {
 public:
  Trainer(Encoder& encoder, const Task& task, TrainerOptions options);
  ~Trainer();

  // From the training state in the folder when there is one, else from the beginning (or
  // train.init_from).
  TrainResult run();
  Optimizer& optimizer() { return optimizer_; }
  const TrainingStep& step() const { return step_; }

 private:
  struct Files;
  void read_losses(int64_t step);
  double latest_loss() const;
  void check_updates(int64_t step, int64_t updates);
  void log_step(int64_t step);
  void evaluate(
      int64_t step);  // leaves progress_.evaluation_due set when a stop request cut it short
  void checkpoint(int64_t step);

  Encoder& encoder_;
  const Task& task_;
  TrainerOptions options_;
  Optimizer optimizer_;
  TrainingStep step_;
  TrainingProgress progress_;
  std::unique_ptr<Files> files_;
  Tensor losses_;               // device ring: (steps between reads, micro-batches)
  int64_t losses_written_ = 0;  // steps in the ring
  bool diverged_ = false;
  std::string divergence_;  // why, when it is
  uint64_t skipped_seen_ = 0;
};

}  // namespace longshot
