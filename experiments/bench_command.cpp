// `longshot bench CONFIG`: the time of a training step, what share of the machine's limit that is,
// and with
// --profile where the time goes.
//
// A step is forward, loss, backward, clip and update on the config's own batches; making a batch is
// timed apart (in a run it happens beside the step, in one thread). The operations of a step are
// counted by step_operations (sweep_plan.h), not by what was executed, so that recomputing
// something does not look like speed.
#include <algorithm>
#include <cmath>
#include <fmt/core.h>
#include <fstream>
#include <utility>

#include "core/clock.h"
#include "core/cpu/cpu_backend.h"
#include "core/cpu/peak.h"
#include "core/parallel.h"
#include "core/streams.h"
#include "data/batcher.h"
#include "experiments/check_run.h"
#include "experiments/commands.h"
#include "experiments/load.h"
#include "experiments/profile_table.h"
#include "experiments/run_cell.h"
#include "experiments/sweep_plan.h"
#include "train/json_lines.h"
#include "train/trainer.h"

namespace longshot {
namespace {

constexpr int64_t kWarmUp = 5;       // steps
constexpr int64_t kLeastSteps = 20;  // timed, when their number is not given
constexpr double kSeconds = 3;
constexpr size_t kFewestUndisturbed = 5;  // steps

// A line of /proc/self/status in bytes: VmHWM is the most memory this process ever had, VmRSS what
// it has now. 0 where there is no such file.
double process_memory(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.rfind(name + ":", 0) == 0) return 1024 * std::stod(line.substr(name.size() + 1));
  return 0;
}

struct Timing {
  std::vector<double> seconds;   // of each step
  std::vector<int64_t> lengths;  // the model's, of each step's first micro-batch
  std::vector<double> rates;     // FLOP/s of each step
  std::vector<double> beside;    // FMA peak before and after it, the lower; empty on devices
  double total = 0, operations = 0;
  double batches = 0;  // seconds to make the steps' batches, not in total
  int64_t tokens = 0;

  static double quantile(std::vector<double> sorted, double q) {
    std::sort(sorted.begin(), sorted.end());
    return sorted[std::min(sorted.size() - 1, size_t(q * double(sorted.size())))];
  }
  double quantile(double q) const { return quantile(seconds, q); }

  // Where neighbours share the hardware, what the processors give can halve from one second to the
  // next. Undisturbed: the steps beside which they gave at least 95 % of their best.
  std::vector<size_t> undisturbed(double peak) const {
    std::vector<size_t> steps;
    for (size_t i = 0; i < beside.size(); ++i)
      if (beside[i] >= 0.95 * peak) steps.push_back(i);
    return steps;
  }
  // Median share of the peak over undisturbed steps; over all where there are too few of them to
  // tell.
  double share_of(double peak) const {
    if (beside.empty()) return operations / total / peak;
    std::vector<double> shares;
    for (const size_t i : undisturbed(peak)) shares.push_back(rates[i] / peak);
    if (shares.size() < kFewestUndisturbed) {
      shares.clear();
      for (const double rate : rates) shares.push_back(rate / peak);
    }
    return quantile(shares, 0.5);
  }
};

class StepBench {
 public:
  StepBench(const RunConfig& config, BuiltModel& built)
      : config_(config),
        built_(built),
        lengths_(config.train.lengths.resolve(config.train.steps, *built.task)),
        classes_(built.task->spec().output_classes),
        optimizer_(built.encoder->parameters(), config.train),
        step_(*built.encoder, optimizer_, config.train, uint64_t(config.seed),
              config.device.capture),
        losses_(built.context->make({config.train.accumulate}, built.context->dtype(),
                                    Lifetime::persistent, "losses")),
        batcher_(*built.task),
        batches_(static_cast<size_t>(config.train.accumulate)) {}

  const LengthOptions& lengths() const { return lengths_; }
  // Of all steps, the warm-up's too: how many were recorded ones played again.
  int64_t replayed_steps() const { return step_.capture().replayed_steps(); }

  // As a trainer does: room for the longest batch before the first step. Returns the loss of
  // untrained parameters.
  double warm_up() {
    const LengthOptions longest = lengths_.longest_only(*built_.task);
    const TrainOptions& train = config_.train;
    batcher_.training(uint64_t(config_.seed), 0, longest, train.batch * train.accumulate, 0,
                      train.batch, batches_.front());
    step_.rehearse(batches_.front());
    Timing ignored;
    one(ignored);
    double loss = 0;
    for (const float share : losses_.to_host<float>()) loss += double(share);
    for (int64_t i = 1; i < kWarmUp; ++i) one(ignored);
    return loss;
  }

  // `steps` steps, or as many as take kSeconds.
  Timing run(int64_t steps) {
    Timing timing;
    if (built_.backend->host_accessible()) peak_ = cpu::measure_fma_peak(threads(), 1);
    while (steps > 0 ? int64_t(timing.seconds.size()) < steps
                     : timing.total < kSeconds || int64_t(timing.seconds.size()) < kLeastSteps)
      one(timing);
    return timing;
  }

 private:
  void one(Timing& timing) {
    const TrainOptions& train = config_.train;
    double operations = 0;
    for (int64_t m = 0; m < train.accumulate; ++m) {
      Batch& batch = batches_[size_t(m)];
      const double begin = now_seconds();
      batcher_.training(uint64_t(config_.seed), uint64_t(next_), lengths_,
                        train.batch * train.accumulate, m * train.batch, train.batch, batch);
      timing.batches += now_seconds() - begin;
      operations += step_operations(config_.model, classes_, batch.rows, batch.length);
      timing.tokens += batch.rows * batch.length;
    }
    const double begin = now_seconds();
    step_.run(next_, batches_, losses_.data());
    built_.backend->synchronize();
    timing.seconds.push_back(now_seconds() - begin);
    timing.total += timing.seconds.back();
    timing.operations += operations;
    if (peak_ > 0) {
      const double before = std::exchange(peak_, cpu::measure_fma_peak(threads(), 1));
      timing.rates.push_back(operations / timing.seconds.back());
      timing.beside.push_back(std::min(before, peak_));
    }
    timing.lengths.push_back(batches_.front().length);
    ++next_;
  }

  const RunConfig& config_;
  BuiltModel& built_;
  LengthOptions lengths_;
  int64_t classes_;
  Optimizer optimizer_;
  TrainingStep step_;
  Tensor losses_;
  Batcher batcher_;
  std::vector<Batch> batches_;
  int64_t next_ = 0;
  double peak_ = 0;  // FLOP/s just before the next step; 0: nothing is compared with it
};

std::unique_ptr<Backend> with_profiler(std::unique_ptr<Backend> backend) {
  return std::make_unique<ProfilingBackend>(std::move(backend));
}

std::string json_list(const std::vector<int64_t>& values) {
  std::string text = "[";
  for (const int64_t value : values)
    text += fmt::format("{}{}", text.size() > 1 ? ", " : "", value);
  return text + "]";
}

}  // namespace

int bench_command(const BenchArguments& arguments) {
  set_threads(int(arguments.threads));
  std::vector<std::string> overrides = arguments.overrides;
  if (!arguments.device.empty()) overrides.push_back("device.type=" + arguments.device);
  const RunConfig config = load_run(arguments.config, overrides);
  {
    const std::unique_ptr<Backend> backend = make_cpu_backend();
    Context context(*backend);
    check_run(config, context);
  }
  const double memory_before = process_memory("VmRSS");
  BuiltModel built = build_model(config, false, arguments.profile ? &with_profiler : nullptr);
  StepBench bench(config, built);
  const double first_loss = bench.warm_up();
  const Timing timing = bench.run(arguments.steps);
  const double steps_per_second = double(timing.seconds.size()) / timing.total;
  const double rate = timing.operations / timing.total;
  // Before the limits are measured, which takes memory of its own.
  const double memory_peak = process_memory("VmHWM");
  const double heaps =
      double(built.context->step_heap().capacity() + built.context->persistent_heap().capacity());

  StepProfile profile;
  if (arguments.profile) {
    auto& profiler = static_cast<ProfilingBackend&>(*built.backend);
    profiler.start();
    const Timing profiled = bench.run(arguments.steps);
    profiler.stop();
    profile.operations = profiler.times();
    profile.steps = int64_t(profiled.seconds.size());
    profile.seconds = profiled.total;
    profile.bandwidth = cpu::measure_bandwidth(threads());
  }
  double peak = cpu::measure_fma_peak(threads());
  for (const double rate_beside : timing.beside) peak = std::max(peak, rate_beside);
  profile.operation_peak = peak;
  const double share = timing.share_of(peak);
  const int64_t undisturbed = int64_t(timing.undisturbed(peak).size());

  if (arguments.json) {
    JsonObject object;
    object.add("config", std::string_view(arguments.config))
        .add("version", std::string_view(LONGSHOT_VERSION))
        .add("device", std::string_view(built.backend->name()))
        .add("device_description", std::string_view(built.backend->description()))
        .add("threads", int64_t(threads()))
        .add("encoding", std::string_view(config.encoding.type))
        .add("parameters", built.encoder->parameters().parameter_count())
        .add("first_loss", first_loss)
        .add("steps", int64_t(timing.seconds.size()))
        .add("replayed_steps", bench.replayed_steps())
        .add("median_ms", 1e3 * timing.quantile(0.5))
        .add("mean_ms", 1e3 / steps_per_second)
        .add("p10_ms", 1e3 * timing.quantile(0.1))
        .add("p90_ms", 1e3 * timing.quantile(0.9))
        .add("batch_ms", 1e3 * timing.batches / double(timing.seconds.size()))
        .add("batch_share", timing.batches / timing.total)
        .add("steps_per_second", steps_per_second)
        .add("tokens_per_second", double(timing.tokens) / timing.total)
        .add("gflop_per_second", 1e-9 * rate)
        .add("peak_gflop_per_second", 1e-9 * peak)
        .add("share_of_peak", share)
        .add("undisturbed_steps", undisturbed)
        .add("memory_mb", heaps / 1048576)
        .add("process_mb_before", memory_before / 1048576)
        .add("process_mb_peak", memory_peak / 1048576);
    std::string milliseconds;
    for (const double seconds : timing.seconds)
      milliseconds += fmt::format("{}{:.4f}", milliseconds.empty() ? "" : ", ", 1e3 * seconds);
    object.add_raw("ms", "[" + milliseconds + "]");
    // What a peer needs to do the same steps.
    if (bench.lengths().low() != bench.lengths().high())
      object.add_raw("lengths", json_list(timing.lengths));
    if (arguments.profile) object.add_raw("profile", profile_json(profile));
    print("{}\n", object.text());
    return 0;
  }
  print("{} on {}: {} steps, {} parameters\n", arguments.config, built.backend->description(),
        timing.seconds.size(), built.encoder->parameters().parameter_count());
  print("  step      {:.3f} ms (10 % to 90 %: {:.3f} to {:.3f})\n", 1e3 * timing.quantile(0.5),
        1e3 * timing.quantile(0.1), 1e3 * timing.quantile(0.9));
  print("  batch     {:.3f} ms to make, {:.2f} % of a step\n",
        1e3 * timing.batches / double(timing.seconds.size()), 100 * timing.batches / timing.total);
  print("  rate      {:.2f} steps/s, {:.0f} tokens/s\n", steps_per_second,
        double(timing.tokens) / timing.total);
  print("  compute   {:.1f} GFLOP/s", 1e-9 * rate);
  if (timing.beside.empty())
    print("\n");
  else
    print("; {:.1f} % of the FMA peak ({:.1f} GFLOP/s measured now) in {}\n", 100 * share,
          1e-9 * peak,
          undisturbed < int64_t(kFewestUndisturbed)
              ? std::string("all steps, few undisturbed")
              : fmt::format("the {} steps nothing disturbed", undisturbed));
  print(
      "  memory    {:.1f} MB in heaps; the process at most {:.1f} MB, {:.1f} MB before the model\n",
      heaps / 1048576, memory_peak / 1048576, memory_before / 1048576);
  if (arguments.profile) print("\n{}", profile_table(profile));
  return 0;
}

}  // namespace longshot
