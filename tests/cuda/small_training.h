// A small model with everything a training step needs, on any backend, stepped by hand.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/config_toml.h"
#include "data/batcher.h"
#include "nn/encoder.h"
#include "tests/catch.h"
#include "train/trainer.h"

namespace longshot::test {

struct TrainingCase {
  std::string task = "reverse_string";
  std::string encoding = "type = 'sinusoidal'";
  std::string positions = "type = 'contiguous'";
  ModelOptions model;
  TrainOptions train;
  bool capture = true;
  TrainingCase() {
    model.dim = 8;
    model.layers = 1;
    model.heads = 2;
    model.ffn = 8;
    model.dropout = 0;
    train.batch = 3;
    train.lr = 1e-2;
    train.steps = 24;
    train.lengths.max = 3;
  }
};

class SmallTraining {
 public:
  SmallTraining(Backend& backend, const TrainingCase& options)
      : options_(options),
        context(backend),
        task(make_task(options.task, ConfigTable())),
        encoder(context, options.model, parse_toml(options.encoding, "encoding"),
                parse_toml(options.positions, "positions"), interface(), kSeed),
        optimizer(encoder.parameters(), options.train),
        step(encoder, optimizer, options.train, kSeed, options.capture),
        losses(
            context.make({options.train.accumulate}, DType::f32, Lifetime::persistent, "losses")),
        batcher_(*task) {}

  // Step `index` on the batch of step `data`; the loss, after waiting.
  double run(int64_t index, int64_t data) {
    const TrainOptions& train = options_.train;
    std::vector<Batch> batches(static_cast<size_t>(train.accumulate));
    for (int64_t m = 0; m < train.accumulate; ++m)
      batcher_.training(kSeed, uint64_t(data), train.lengths, train.batch * train.accumulate,
                        m * train.batch, train.batch, batches[size_t(m)]);
    step.run(index, batches, losses.data());
    double sum = 0;
    for (const double loss : losses.to_doubles()) sum += loss;
    return sum;
  }
  std::vector<double> run_all() {
    std::vector<double> result;
    for (int64_t i = 0; i < options_.train.steps; ++i) result.push_back(run(i, i));
    return result;
  }
  std::vector<float> parameters() const {
    return encoder.parameters().parameters().to_host<float>();
  }

 private:
  static constexpr uint64_t kSeed = 5;
  EncoderInterface interface() const {
    const TaskSpec spec = task->spec();
    EncoderInterface result;
    result.input_vocabulary = spec.input_vocabulary;
    result.output_classes = spec.output_classes;
    result.mean_pool = spec.output == Output::mean;
    result.train_length = task->model_length(options_.train.lengths.high());
    return result;
  }
  TrainingCase options_;

 public:
  Context context;
  std::unique_ptr<Task> task;
  Encoder encoder;
  Optimizer optimizer;
  TrainingStep step;
  Tensor losses;

 private:
  Batcher batcher_;
};

}  // namespace longshot::test
