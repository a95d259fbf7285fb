#include "train/evaluator.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/log.h"
#include "core/ops.h"
#include "train/signals.h"

namespace longshot {

// Running sums, added sample by sample in the order of their index.
struct Evaluator::Sums {
  int64_t samples = 0, targets = 0, scored = 0, correct = 0;
  int64_t sequences = 0, whole = 0;  // samples with scored predictions, and with all of them right
  double loss = 0;
  // Sums over groups of samples that share a draw, for the standard errors.
  struct Group {
    double accuracy = 0, sequence = 0;
    int64_t samples = 0;
  };
  std::vector<Group> groups;
  struct Position {
    int64_t targets = 0, scored = 0, correct = 0;
    double loss = 0;
  };
  std::vector<Position> positions;

  Score score() const;
};

namespace {

// Standard error of the mean over groups of (nearly) equal size.
template <class Value>
double standard_error(size_t count, const Value& value) {
  if (count < 2) return 0;
  double mean = 0;
  for (size_t i = 0; i < count; ++i) mean += value(i) / double(count);
  double squares = 0;
  for (size_t i = 0; i < count; ++i) squares += (value(i) - mean) * (value(i) - mean);
  return std::sqrt(squares / double(count - 1) / double(count));
}

}  // namespace

Score Evaluator::Sums::score() const {
  Score result;
  std::vector<Group> groups;  // those with something to score
  for (const Group& group : this->groups)
    if (group.samples > 0) groups.push_back(group);
  result.samples = samples;
  result.targets = targets;
  // A mean over nothing is no number: it must not look like a loss of 0.
  const auto share = [](double sum, int64_t count) {
    return count > 0 ? sum / double(count) : std::numeric_limits<double>::quiet_NaN();
  };
  result.loss = share(loss, targets);
  result.accuracy = share(double(correct), scored);
  result.sequence_accuracy = share(double(whole), sequences);
  result.accuracy_error = standard_error(
      groups.size(), [&](size_t i) { return groups[i].accuracy / double(groups[i].samples); });
  result.sequence_accuracy_error = standard_error(
      groups.size(), [&](size_t i) { return groups[i].sequence / double(groups[i].samples); });
  for (const Position& position : positions) {
    result.position_accuracy.push_back(share(double(position.correct), position.scored));
    result.position_loss.push_back(share(position.loss, position.targets));
  }
  return result;
}

Evaluator::Evaluator(Encoder& encoder, const Task& task, const EvaluateOptions& options,
                     uint64_t seed)
    : encoder_(encoder), task_(task), options_(options), seed_(seed), batcher_(task) {}

void Evaluator::measure(Split split, int64_t length, bool sliding, int64_t samples, Sums& sums) {
  const int64_t stride = stride_of(length, sliding);
  samples = std::min(samples, task_.count(split, length, stride));
  Context& context = encoder_.context();
  const int64_t per_sequence =
      std::max<int64_t>(1, encoder_.evaluation_bytes_per_sequence(task_.model_length(length)));
  const int64_t limit = options_.memory_mb * 1024 * 1024;
  if (per_sequence > limit && samples > 0 && length > largest_told_) {
    largest_told_ = length;
    log::warn(
        "length {}: one sequence may take {} MB, more than evaluate.memory_mb = {}; they are "
        "evaluated one at a time",
        length, (per_sequence + (1 << 20) - 1) >> 20, options_.memory_mb);
  }
  const int64_t rows_at_once = std::clamp<int64_t>(limit / per_sequence, 1, options_.batch);
  // Taken as one slab before the first batch: slabs that grow with the need leave holes. Estimates
  // are twice the measured peaks.
  Heap& heap = context.step_heap();
  if (heap.used() == 0 && samples > 0)
    heap.reserve(size_t(std::min(limit, std::min(rows_at_once, samples) * per_sequence / 2)));
  const int64_t per_draw = encoder_.positions().samples_per_draw();
  for (int64_t first = 0; first < samples && !stop_requested();) {
    int64_t rows = std::min(rows_at_once, samples - first);
    // Samples that share a draw of positions may share a batch, others not.
    if (per_draw > 0) rows = std::min(rows, per_draw - first % per_draw);
    batcher_.evaluation(seed_, split, length, stride, uint64_t(first), rows, batch_);

    StepScope step(context);
    NoRecordingScope no_recording(context);
    StepState state;
    state.seed = seed_;
    context.set_step_state(state);
    EncoderInput input;
    input.batch = batch_.rows;
    input.length = batch_.length;
    input.tokens = batch_.tokens;
    if (batch_.padded) input.lengths = batch_.lengths;
    input.output_begin = batch_.output_begin;
    input.outputs = batch_.outputs;
    input.seed = seed_;
    input.first_sample = first;
    const PreparedInput prepared = encoder_.prepare(input);
    const Tensor targets =
        context.from_host(std::span<const int32_t>(batch_.targets), {batch_.rows * batch_.outputs});
    Tensor logits = encoder_.forward(prepared);
    logits = logits.reshape({batch_.rows * batch_.outputs, logits.size(-1)});
    const std::vector<int32_t> predicted = ops::argmax(logits).to_host<int32_t>();
    const std::vector<double> losses = ops::cross_entropy(logits, targets).row_loss.to_doubles();

    for (int64_t row = 0; row < batch_.rows; ++row) {
      int64_t scored = 0, correct = 0, prediction = 0;
      for (int64_t k = 0; k < batch_.outputs; ++k) {
        const size_t index = size_t(row * batch_.outputs + k);
        if (batch_.targets[index] < 0) continue;
        const bool right = predicted[index] == batch_.targets[index];
        sums.loss += losses[index];
        ++sums.targets;
        if (batch_.scored[index]) ++scored, correct += right;
        if (options_.by_position) {
          // Counted from the sample's own first prediction, so that padding does not shift it.
          if (sums.positions.size() <= size_t(prediction))
            sums.positions.resize(size_t(prediction) + 1);
          Sums::Position& position = sums.positions[size_t(prediction)];
          position.loss += losses[index];
          ++position.targets;
          if (batch_.scored[index]) ++position.scored, position.correct += right;
        }
        ++prediction;
      }
      sums.scored += scored;
      sums.correct += correct;
      ++sums.samples;
      const bool new_group = per_draw == 0 || (first + row) % per_draw == 0;
      if (new_group || sums.groups.empty()) sums.groups.emplace_back();
      if (scored == 0) continue;
      const bool whole = correct == scored;
      ++sums.sequences;
      sums.whole += whole;
      sums.groups.back().accuracy += double(correct) / double(scored);
      sums.groups.back().sequence += whole;
      ++sums.groups.back().samples;
    }
    first += rows;
  }
}

int64_t Evaluator::stride_of(int64_t length, bool sliding) const {
  if (!sliding) return 0;
  return options_.stride > 0 ? std::min(options_.stride, length) : std::max<int64_t>(1, length / 2);
}

std::vector<bool> Evaluator::windows() const {
  if (task_.spec().windowed && options_.window == "sliding") return {true};
  if (task_.spec().windowed && options_.window == "both") return {false, true};
  return {false};
}

int64_t Evaluator::samples_at(Split split, int64_t length, bool sliding) const {
  return std::min(options_.samples, task_.count(split, length, stride_of(length, sliding)));
}

int64_t Evaluator::available(Split split, int64_t min_length, int64_t max_length,
                             bool sliding) const {
  int64_t samples = 0;
  for (const LengthShare& share :
       task_.in_range(split, min_length, max_length, options_.in_range_samples))
    samples +=
        std::min(share.samples, task_.count(split, share.length, stride_of(share.length, sliding)));
  return samples;
}

Score Evaluator::in_range(Split split, int64_t min_length, int64_t max_length, bool sliding) {
  Sums sums;
  for (const LengthShare& share :
       task_.in_range(split, min_length, max_length, options_.in_range_samples)) {
    measure(split, share.length, sliding, share.samples, sums);
  }
  return sums.score();
}

Score Evaluator::at_length(Split split, int64_t length, bool sliding) {
  Sums sums;
  measure(split, length, sliding, options_.samples, sums);
  return sums.score();
}

Evaluation Evaluator::all(Split split, int64_t min_length, int64_t max_length) {
  const std::vector<int64_t> lengths = expand_lengths(options_.lengths);
  Evaluation result;
  for (const bool sliding : windows()) {
    result.in_range.push_back({0, sliding, in_range(split, min_length, max_length, sliding)});
    for (const int64_t length : lengths)
      result.lengths.push_back({length, sliding, at_length(split, length, sliding)});
  }
  result.stopped = stop_requested();
  return result;
}

}  // namespace longshot
