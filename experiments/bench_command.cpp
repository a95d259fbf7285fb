// `longshot bench CONFIG`: the time of a training step, and what share of the machine's limit that is.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "core/cpu/peak.h"
#include "core/parallel.h"
#include "data/batcher.h"
#include "experiments/commands.h"
#include "experiments/load.h"
#include "experiments/run_cell.h"
#include "experiments/sweep_plan.h"
#include "train/json_lines.h"
#include "train/trainer.h"

namespace longshot {
namespace {

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

int bench_command(const BenchArguments& arguments) {
  set_threads(int(arguments.threads));
  std::vector<std::string> overrides = arguments.overrides;
  if (!arguments.device.empty()) overrides.push_back("device.type=" + arguments.device);
  const RunConfig config = load_run(arguments.config, overrides);
  BuiltModel built = build_model(config, false);
  const LengthOptions lengths = config.train.lengths.resolve(config.train.steps, *built.task);
  const int64_t classes = built.task->spec().output_classes;
  Optimizer optimizer(built.encoder->parameters(), config.train);
  TrainingStep step(*built.encoder, optimizer, config.train, uint64_t(config.seed));
  const Tensor losses = built.context->make({config.train.accumulate}, built.context->dtype(),
                                            Lifetime::persistent, "losses");
  Batcher batcher(*built.task);
  std::vector<Batch> batches(static_cast<size_t>(config.train.accumulate));

  constexpr int64_t kWarmUp = 5;
  constexpr double kSeconds = 3;
  std::vector<double> seconds;
  double operations = 0, total = 0;
  int64_t tokens = 0;
  const int64_t limit = arguments.steps > 0 ? arguments.steps + kWarmUp : 100000;
  for (int64_t i = 0; i < limit && (arguments.steps > 0 || total < kSeconds || i < kWarmUp + 20); ++i) {
    double step_cost = 0;
    int64_t step_tokens = 0;
    for (int64_t m = 0; m < config.train.accumulate; ++m) {
      Batch& batch = batches[size_t(m)];
      batcher.training(uint64_t(config.seed), uint64_t(i), lengths,
                       config.train.batch * config.train.accumulate, m * config.train.batch,
                       config.train.batch, batch);
      step_cost += step_operations(config.model, classes, batch.rows, batch.length);
      step_tokens += batch.rows * batch.length;
    }
    const double begin = now_seconds();
    step.run(i, batches, losses.data());
    built.backend->synchronize();
    const double took = now_seconds() - begin;
    if (i < kWarmUp) continue;
    seconds.push_back(took);
    total += took;
    operations += step_cost;
    tokens += step_tokens;
  }
  std::vector<double> sorted = seconds;
  std::sort(sorted.begin(), sorted.end());
  const double median = sorted[sorted.size() / 2];
  const double low = sorted[sorted.size() / 10], high = sorted[sorted.size() * 9 / 10];
  const double rate = operations / total;
  const double peak = cpu::measure_fma_peak(threads());
  const double memory = double(built.context->step_heap().capacity() +
                               built.context->persistent_heap().capacity());
  if (arguments.json) {
    fmt::print("{}\n", JsonObject()
                           .add("config", std::string_view(arguments.config))
                           .add("device", std::string_view(built.backend->name()))
                           .add("threads", int64_t(threads()))
                           .add("steps", int64_t(seconds.size()))
                           .add("median_ms", 1e3 * median)
                           .add("p10_ms", 1e3 * low)
                           .add("p90_ms", 1e3 * high)
                           .add("steps_per_second", double(seconds.size()) / total)
                           .add("tokens_per_second", double(tokens) / total)
                           .add("gflop_per_second", 1e-9 * rate)
                           .add("peak_gflop_per_second", 1e-9 * peak)
                           .add("share_of_peak", rate / peak)
                           .add("memory_mb", memory / 1048576)
                           .text());
    return 0;
  }
  fmt::print("{} on {}, {} thread(s): {} steps\n", arguments.config, built.backend->description(), threads(),
             seconds.size());
  fmt::print("  step      {:.3f} ms (10 % to 90 %: {:.3f} to {:.3f})\n", 1e3 * median, 1e3 * low, 1e3 * high);
  fmt::print("  rate      {:.2f} steps/s, {:.0f} tokens/s\n", double(seconds.size()) / total, double(tokens) / total);
  fmt::print("  compute   {:.1f} GFLOP/s, {:.1f} % of the FMA peak measured now ({:.1f} GFLOP/s)\n", 1e-9 * rate,
             100 * rate / peak, 1e-9 * peak);
  fmt::print("  memory    {:.1f} MB\n", memory / 1048576);
  return 0;
}

}  // namespace longshot
