#include "experiments/memory_need.h"

#include <algorithm>
#include <fmt/core.h>
#include <iterator>

#include "core/device.h"
#include "data/batch.h"

namespace longshot {
namespace {

constexpr double kNumber = 4;  // bytes; f32, and i32

std::string in_words(double bytes) {
  constexpr const char* kUnits[] = {"MiB", "GiB", "TiB", "PiB"};
  size_t unit = 0;
  double value = bytes / 1048576;
  for (; value >= 1024 && unit + 1 < std::size(kUnits); ++unit) value /= 1024;
  return fmt::format("{:.{}f} {}", value, value < 100 ? 1 : 0, kUnits[unit]);
}

struct Written {
  SourceLocation where;
  double value = 0;
  double times = 1;  // of its default: how unusual it is
};

Written written(const RunConfig& config, const std::string& key) {
  const RunConfig usual;
  const auto number = [&](double value, double plain) {
    const size_t dot = key.find('.');
    return Written{place_of(config.written, key.substr(0, dot), key.substr(dot + 1)), value,
                   value / plain};
  };
  if (key == "model.dim") return number(double(config.model.dim), double(usual.model.dim));
  if (key == "model.layers") return number(double(config.model.layers), double(usual.model.layers));
  if (key == "model.ffn") return number(double(config.model.ffn), double(usual.model.ffn));
  if (key == "train.batch") return number(double(config.train.batch), double(usual.train.batch));
  if (key == "train.accumulate") return number(double(config.train.accumulate), 1);
  if (key == "train.log_every") return number(double(config.train.log_every), 100);
  if (key == "train.lengths")
    return number(double(config.train.lengths.high()), double(usual.train.lengths.high()));
  if (key == "evaluate.samples") return number(double(config.evaluate.samples), 512);
  if (key == "evaluate.in_range_samples")
    return number(double(config.evaluate.in_range_samples), 512);
  if (key == "evaluate.lengths") {
    const std::vector<int64_t> lengths = config.evaluate_lengths();
    return number(lengths.empty() ? 0 : double(lengths.back()), 500);
  }
  return {key == "task" ? config.task.where : config.encoding.where, 0, 1};
}

}  // namespace

std::vector<MemoryPart> least_memory(const RunConfig& config, const Task& task,
                                     double encoding_parameters, int64_t samples_per_draw) {
  const TaskSpec spec = task.spec();
  const ModelOptions& model = config.model;
  const TrainOptions& train = config.train;
  const double dim = double(model.dim), layers = double(model.layers);
  const bool on_host =
      config.device.type == "cpu" || (config.device.type == "auto" && automatic_device() == "cpu");
  // Values, gradients and both moments; the best parameters.
  const double copies = (4 + (train.keep == "best")) * kNumber;
  std::vector<MemoryPart> parts;
  parts.push_back({"the blocks' objects", layers * 1000, true, {"model.layers"}});
  parts.push_back({"the blocks' parameters, with gradients and moments",
                   layers * (4 * dim * dim + 2 * dim * double(model.ffn)) * copies,
                   on_host,
                   {"model.layers", "model.dim", "model.ffn"}});
  const double tables =
      double(spec.input_vocabulary) + (model.tied_head ? 0.0 : double(spec.output_classes));
  parts.push_back({fmt::format("the parameters of {} input tokens and {} classes",
                               spec.input_vocabulary, spec.output_classes),
                   tables * dim * copies,
                   on_host,
                   {"model.dim", "task"}});
  parts.push_back({"the encoding's parameters",
                   encoding_parameters * copies,
                   on_host,
                   {"encoding", "model.dim"}});
  if (train.steps > 0) {
    const int64_t longest = train.lengths.longest_only(task).high();
    const double rows = double(train.batch), tokens = rows * double(task.model_length(longest));
    const double shortest = double(task.input_length(train.lengths.low()));
    // Query, key, value and result of each layer's attention, the embedding, the logits.
    parts.push_back(
        {"the activations of a training batch",
         (tokens * dim * (4 * layers + 1) + rows * double(spec.output_classes)) * kNumber,
         on_host,
         {"train.batch", "train.lengths", "model.dim", "model.layers"}});
    parts.push_back(
        {"the batches of an optimizer step",
         double(train.accumulate) *
             (rows * (shortest * kNumber + double(sizeof(Example))) + double(sizeof(Batch))),
         true,
         {"train.accumulate", "train.batch", "train.lengths"}});
    parts.push_back(
        {"losses not yet read",
         double(std::min<int64_t>(train.log_every, 256)) * double(train.accumulate) * kNumber,
         true,
         {"train.accumulate"}});
  }
  double longest = 0;
  for (const int64_t length : config.evaluate_lengths())
    longest = std::max(longest, double(task.input_length(length)));
  parts.push_back({"the longest sequence of the evaluation",
                   longest * 4 * dim * kNumber,
                   on_host,
                   {"evaluate.lengths", "model.dim"}});
  // Sums over the samples that share a draw; data from files may hold fewer.
  const std::vector<int64_t> lengths = config.evaluate_lengths();
  const double groups = 24.0 / double(std::max<int64_t>(1, samples_per_draw));
  const int64_t asked = lengths.empty() ? 0 : config.evaluate.samples;
  const int64_t here =
      lengths.empty() ? 0 : std::min(asked, task.count(Split::test, lengths.front()));
  parts.push_back({"the evaluation's sums", double(here) * groups, true, {"evaluate.samples"}});
  if (task.count(Split::test, train.lengths.low()) == Task::kUnlimited)
    parts.push_back({"the evaluation's sums in range",
                     double(config.evaluate.in_range_samples) * groups,
                     true,
                     {"evaluate.in_range_samples"}});
  return parts;
}

void check_memory(const RunConfig& config, const std::vector<MemoryPart>& parts,
                  const MemoryLimit& limit) {
  std::vector<MemoryPart> counted;
  double total = 0;
  for (const MemoryPart& part : parts) {
    if (!part.host) continue;
    total += part.bytes;
    counted.push_back(part);
  }
  if (total <= limit.bytes) return;
  std::stable_sort(counted.begin(), counted.end(),
                   [](const MemoryPart& a, const MemoryPart& b) { return a.bytes > b.bytes; });
  std::string key, figures;
  Written most{{}, 0, -1};
  for (const std::string& each : counted.front().keys) {
    const Written found = written(config, each);
    if (found.times <= most.times) continue;
    key = each;
    most = found;
  }
  for (const MemoryPart& part : counted) {
    if (part.bytes < total / 100) break;
    figures +=
        fmt::format("{}{} for {}", figures.empty() ? "" : ", ", in_words(part.bytes), part.what);
  }
  throw UsageError(fmt::format("{}: {}: this run needs at least {} of memory, and {} is {}: {}",
                               most.where.to_string(),
                               most.value > 0 ? fmt::format("{} = {:.0f}", key, most.value) : key,
                               in_words(total), limit.reason, in_words(limit.bytes), figures));
}

}  // namespace longshot
