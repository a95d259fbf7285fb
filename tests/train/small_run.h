// A training small enough for tests: a model of 2 blocks of width 16 on short strings, built anew
// for each Run as a new process would.
#pragma once

#include <atomic>
#include <filesystem>
#include <memory>
#include <string>
#include <unistd.h>
#include <vector>

#include "core/config_toml.h"
#include "core/files.h"
#include "tests/catch.h"
#include "tests/support/operation_devices.h"
#include "train/signals.h"
#include "train/trainer.h"

namespace longshot::test {

inline std::string fresh_folder(const std::string& name) {
  const std::string path =
      (std::filesystem::temp_directory_path() / fmt::format("longshot-train-{}-{}", getpid(), name))
          .string();
  std::filesystem::remove_all(path);
  std::filesystem::create_directories(path);
  return path;
}

struct Setup {
  TrainerOptions options;
  ModelOptions model;
  std::string task = "reverse_string";
  std::string task_options;
  std::string encoding = "type = \"sinusoidal\"";
  std::string positions = "type = \"randomized\"\nmax = 64\n";
  DType dtype = DType::f32;
  Setup() {
    model.dim = 16;
    model.layers = 2;
    model.heads = 2;
    model.ffn = 32;
    model.dropout = 0.1;
    options.train.steps = 12;
    options.train.batch = 8;
    options.train.lengths.max = 10;
    options.train.log_every = 3;
    options.train.evaluate_every = 0;
    options.train.checkpoint_every = 0;
    options.evaluate.in_range_samples = 40;
    options.evaluate.samples = 20;
    options.seed = 5;
    options.identity = "test";
    options.show_progress = false;
  }
};

// A model and everything round it, built anew each time as a new process would.
struct Run {
  std::unique_ptr<Context> context;
  std::unique_ptr<Task> task;
  std::unique_ptr<Encoder> encoder;
  std::unique_ptr<Trainer> trainer;
  explicit Run(const Setup& setup) {
    context = std::make_unique<Context>(testing::backend_for(setup.dtype),
                                        ContextOptions{.dtype = setup.dtype, .heap = {}});
    task = make_task(setup.task, parse_toml(setup.task_options, "task"));
    const TaskSpec spec = task->spec();
    EncoderInterface interface;
    interface.input_vocabulary = spec.input_vocabulary;
    interface.output_classes = spec.output_classes;
    interface.mean_pool = spec.output == Output::mean;
    encoder = std::make_unique<Encoder>(
        *context, setup.model, parse_toml(setup.encoding, "encoding"),
        parse_toml(setup.positions, "positions"), interface, setup.options.seed);
    trainer = std::make_unique<Trainer>(*encoder, *task, setup.options);
  }
  std::vector<float> parameters() const {
    return encoder->parameters().parameters().to_host<float>();
  }
  std::vector<float> moments() const {
    std::vector<float> all = encoder->parameters().first_moments().to_host<float>();
    const std::vector<float> second = encoder->parameters().second_moments().to_host<float>();
    all.insert(all.end(), second.begin(), second.end());
    return all;
  }
};

inline std::vector<float> trained(const Setup& setup) {
  Run run(setup);
  REQUIRE(run.trainer->run().outcome == Outcome::done);
  return run.parameters();
}

// A task whose data cannot be read any more after so many training examples.
class FailingTask : public Task {
 public:
  FailingTask(const Task& task, int64_t examples) : task_(task), left_(examples) {}
  TaskSpec spec() const override { return task_.spec(); }
  void example(const ExampleKey& key, Example& out) const override {
    if (key.split == Split::train && left_-- <= 0) throw Error("the disk is gone");
    task_.example(key, out);
  }
  int64_t output_length(int64_t length) const override { return task_.output_length(length); }
  int64_t min_length() const override { return task_.min_length(); }
  int64_t max_length() const override { return task_.max_length(); }

 private:
  const Task& task_;
  mutable std::atomic<int64_t> left_;
};

// A run that evaluates every 2 steps, saves itself after 4 and fails before its 7th: what is left
// has evaluations behind it, which step_by_step cannot have.
inline void fail_after_checkpoint(Setup setup) {
  setup.options.train.checkpoint_every = 4;
  const Run run(setup);
  // One batch is for the rehearsal.
  const FailingTask task(*run.task, setup.options.train.batch * (1 + 6));
  Trainer trainer(*run.encoder, task, setup.options);
  REQUIRE_THROWS_WITH(trainer.run(), ContainsSubstring("the disk is gone"));
}

// Takes `steps` single steps, each in a new "process" that is told to stop before it begins.
inline void step_by_step(const Setup& setup, int64_t steps) {
  for (int64_t i = 0; i < steps; ++i) {
    Run piece(setup);
    request_stop();
    const TrainResult result = piece.trainer->run();
    clear_stop_request();
    REQUIRE(result.outcome == Outcome::interrupted);
    REQUIRE(result.progress.step == i + 1);
  }
}

}  // namespace longshot::test
