#include "train/evaluator.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <unordered_map>
#include <vector>

#include "core/log.h"
#include "core/ops.h"
#include "train/signals.h"

namespace longshot {

// Running sums, added sample by sample in the order of their index. A sample counts with its
// weight.
struct Evaluator::Sums {
  int64_t samples = 0, targets = 0, scored = 0;
  // One entry a sample, or a group of samples that share a draw of positions.
  std::vector<Draw> predictions, sequences, losses;
  Draw loss;                                           // all of `losses`, added target by target
  std::unordered_map<int32_t, double> answers;         // how often each class is wanted
  std::map<std::vector<int32_t>, Draw> whole_answers;  // by weight; how many samples
  struct Position {
    Draw right, loss;
  };
  std::vector<Position> positions;

  Score score() const;
};

Score Evaluator::Sums::score() const {
  Score result;
  result.samples = samples;
  result.targets = targets;
  result.loss = ratio_of({&loss, 1});
  result.loss_error = ratio_error(losses);
  result.accuracy = share_of(predictions, double(scored));
  result.sequence_accuracy = share_of(sequences, double(samples));
  double most = 0, all = 0;
  for (const auto& [answer, count] : answers) {
    all += count;
    if (count > most || (count == most && answer < result.constant_class))
      most = count, result.constant_class = answer;
  }
  if (all > 0) result.constant = most / all;
  Draw common, every;
  for (const auto& [answer, count] : whole_answers) {
    every.part += count.part;
    if (count.whole > 1 && count.part > common.part) common = count;
  }
  if (every.part > 0) result.constant_sequence = common.part / every.part;
  for (const Position& position : positions) {
    result.position_accuracy.push_back(ratio_of({&position.right, 1}));
    result.position_loss.push_back(ratio_of({&position.loss, 1}));
  }
  return result;
}

Evaluator::Evaluator(Encoder& encoder, const Task& task, const EvaluateOptions& options,
                     uint64_t seed)
    : encoder_(encoder), task_(task), options_(options), seed_(seed), batcher_(task) {}

void Evaluator::measure(Split split, int64_t length, bool sliding, int64_t samples, double weight,
                        Sums& sums) {
  const int64_t stride = stride_of(length, sliding);
  samples = std::min(samples, task_.count(split, length, stride));
  Context& context = encoder_.context();
  const int64_t per_sequence =
      std::max<int64_t>(1, encoder_.evaluation_bytes_per_sequence(task_.model_length(length)));
  const int64_t limit = std::min(options_.memory_mb, int64_t(1) << 40) * 1024 * 1024;
  if (per_sequence > limit && samples > 0 && length > largest_told_) {
    largest_told_ = length;
    log::warn(
        "length {}: one sequence may take {} MB, more than evaluate.memory_mb = {}; they are "
        "evaluated one at a time",
        length, (per_sequence + (1 << 20) - 1) >> 20, options_.memory_mb);
  }
  // A stop request is looked for between batches, so none is to take minutes: at most some 1e11
  // operations, attention's part of which is 8 T^2 dim a layer and the rest's 8 T dim (dim + ffn).
  const ModelOptions& model = encoder_.options();
  const double tokens = double(task_.model_length(length)), dim = double(model.dim);
  const double operations =
      8 * double(model.layers) * tokens * dim * (tokens + dim + double(model.ffn));
  const int64_t at_most = std::min(limit / per_sequence, int64_t(std::max(1.0, 1e11 / operations)));
  const int64_t rows_at_once = std::clamp<int64_t>(at_most, 1, options_.batch);
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
    batcher_.evaluation(seed_, split, length, stride, uint64_t(first), rows, batch_, samples);

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
      if (per_draw == 0 || (first + row) % per_draw == 0) {
        sums.predictions.emplace_back();
        sums.sequences.emplace_back();
        sums.losses.emplace_back();
      }
      Draw& loss = sums.losses.back();
      int64_t scored = 0, correct = 0, prediction = 0;
      std::vector<int32_t> answer;
      for (int64_t k = 0; k < batch_.outputs; ++k) {
        const size_t index = size_t(row * batch_.outputs + k);
        const int32_t wanted = batch_.targets[index];
        if (wanted < 0) continue;
        const bool right = predicted[index] == wanted, counts = batch_.scored[index] != 0;
        for (Draw* each : {&loss, &sums.loss})
          each->part += weight * losses[index], each->whole += weight;
        ++sums.targets;
        if (counts) {
          ++scored, correct += right;
          sums.answers[wanted] += weight;
          answer.push_back(wanted);
        }
        if (options_.by_position) {
          // Counted from the sample's own first prediction, so that padding does not shift it.
          if (sums.positions.size() <= size_t(prediction))
            sums.positions.resize(size_t(prediction) + 1);
          Sums::Position& position = sums.positions[size_t(prediction)];
          position.loss.part += weight * losses[index];
          position.loss.whole += weight;
          if (counts) position.right.part += right ? weight : 0, position.right.whole += weight;
        }
        ++prediction;
      }
      ++sums.samples;
      sums.scored += scored;
      if (scored == 0) continue;
      if (!task_.spec().windowed) {
        Draw& same = sums.whole_answers[answer];
        same.part += weight, same.whole += 1;
      }
      sums.predictions.back().part += weight * double(correct);
      sums.predictions.back().whole += weight * double(scored);
      sums.sequences.back().part += correct == scored ? weight : 0;
      sums.sequences.back().whole += weight;
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

std::vector<Evaluator::Planned> Evaluator::plan(Split split, int64_t min_length, int64_t max_length,
                                                bool sliding) const {
  std::vector<Planned> result;
  for (const LengthShare& share :
       task_.in_range(split, min_length, max_length, options_.in_range_samples)) {
    const int64_t samples =
        std::min(share.samples, task_.count(split, share.length, stride_of(share.length, sliding)));
    result.push_back({share.length, samples, double(share.samples)});
  }
  // weight = asked for / there; as a multiple of the smallest, so that equal weights are exactly 1.
  double least = std::numeric_limits<double>::infinity();
  for (Planned& each : result)
    if (each.samples > 0) least = std::min(least, each.weight / double(each.samples));
  for (Planned& each : result)
    if (each.samples > 0) each.weight = each.weight / double(each.samples) / least;
  return result;
}

int64_t Evaluator::available(Split split, int64_t min_length, int64_t max_length,
                             bool sliding) const {
  int64_t samples = 0;
  for (const Planned& each : plan(split, min_length, max_length, sliding)) samples += each.samples;
  return samples;
}

double coverage_of(const Task& task, Split split, int64_t min_length, int64_t max_length,
                   int64_t samples) {
  int64_t wanted = 0, present = 0;
  for (const LengthShare& share : task.in_range(split, min_length, max_length, samples)) {
    wanted += share.samples;
    if (task.count(split, share.length) > 0) present += share.samples;
  }
  return wanted > 0 ? double(present) / double(wanted) : 0;
}

Split Evaluator::in_range_split(int64_t min_length, int64_t max_length) const {
  const auto coverage = [&](Split split) {
    return coverage_of(task_, split, min_length, max_length, options_.in_range_samples);
  };
  const double test = coverage(Split::test);
  return test >= kEnoughCoverage || coverage(Split::validation) <= test ? Split::test
                                                                        : Split::validation;
}

Score Evaluator::in_range(Split split, int64_t min_length, int64_t max_length, bool sliding) {
  Sums sums;
  for (const Planned& each : plan(split, min_length, max_length, sliding))
    measure(split, each.length, sliding, each.samples, each.weight, sums);
  Score score = sums.score();
  // Windows of several lengths are of one and the same text: they tell no more than one length's.
  const std::vector<Planned> lengths = plan(split, min_length, max_length, sliding);
  if (const double times = double(lengths.size()); task_.spec().windowed && times > 1) {
    score.loss_error *= std::sqrt(times);
    for (Share* share : {&score.accuracy, &score.sequence_accuracy})
      share->error *= std::sqrt(times), share->independent /= times;
  }
  score.coverage = coverage_of(task_, split, min_length, max_length, options_.in_range_samples);
  return score;
}

Score Evaluator::at_length(Split split, int64_t length, bool sliding) {
  Sums sums;
  measure(split, length, sliding, options_.samples, 1, sums);
  return sums.score();
}

Evaluation Evaluator::all(int64_t min_length, int64_t max_length) {
  const std::vector<int64_t> lengths = expand_lengths(options_.lengths);
  Evaluation result;
  result.in_range_split = in_range_split(min_length, max_length);
  for (const bool sliding : windows()) {
    result.in_range.push_back(
        {0, sliding, in_range(result.in_range_split, min_length, max_length, sliding)});
    for (const int64_t length : lengths)
      result.lengths.push_back({length, sliding, at_length(Split::test, length, sliding)});
  }
  result.stopped = stop_requested();
  return result;
}

}  // namespace longshot
