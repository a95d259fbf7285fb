#include "data/batcher.h"

#include <algorithm>

#include "core/error.h"

namespace longshot {

Batcher::Batcher(const Task& task) : task_(task), spec_(task.spec()) {}

void Batcher::training(uint64_t seed, uint64_t step, const LengthOptions& lengths,
                       int64_t step_rows, int64_t first_row, int64_t rows, Batch& out) {
  LONGSHOT_CHECK(rows >= 1 && first_row >= 0 && first_row + rows <= step_rows,
                 "training batch: rows {} to {} of a step of {} rows", first_row, first_row + rows,
                 step_rows);
  const Step wanted{seed, step, step_rows, lengths};
  if (made_ != wanted) make_step(wanted);
  out.first_index = step * uint64_t(step_rows) + uint64_t(first_row);
  assemble(step_rows, first_row, rows, out);
}

void Batcher::make_step(const Step& wanted) {
  made_.reset();  // an example may throw
  const int64_t low = wanted.lengths.low(), high = wanted.lengths.high_at(wanted.step);
  const bool per_sequence = wanted.lengths.draw == "sequence";
  examples_.resize(std::max(examples_.size(), size_t(wanted.rows)));
  task_lengths_.resize(size_t(wanted.rows));

  // Streams of the lengths purpose: 0 for one length a batch, 1 + row for one a sequence.
  ExampleKey key;
  key.seed = wanted.seed;
  key.split = Split::train;
  const auto draw = [&](uint32_t stream) {
    RandomSequence random({wanted.seed, RandomPurpose::lengths, stream, uint32_t(wanted.step)});
    return task_.draw_length(random, low, high);
  };
  if (!per_sequence) key.length = draw(0);
  for (int64_t row = 0; row < wanted.rows; ++row) {
    if (per_sequence) key.length = draw(uint32_t(1 + row));
    key.index = wanted.step * uint64_t(wanted.rows) + uint64_t(row);
    task_lengths_[size_t(row)] = key.length;
    task_.example(key, examples_[size_t(row)]);
  }
  made_ = wanted;
}

void Batcher::evaluation(uint64_t seed, Split split, int64_t length, int64_t stride, uint64_t first,
                         int64_t rows, Batch& out, int64_t spread) {
  LONGSHOT_CHECK(rows >= 1, "evaluation batch: {} rows", rows);
  const int64_t count = task_.count(split, length, stride);
  LONGSHOT_CHECK(first + uint64_t(rows) <= uint64_t(count),
                 "evaluation batch: examples {} to {}, but the {} split holds {} of length {}",
                 first, first + uint64_t(rows), name_of(split), count, length);
  const auto place_of = [&](uint64_t index) {
    const bool fewer = spread > 0 && count != Task::kUnlimited && spread < count;
    return fewer ? index * uint64_t(count) / uint64_t(spread) : index;
  };
  made_.reset();
  examples_.resize(std::max(examples_.size(), size_t(rows)));
  task_lengths_.assign(size_t(rows), length);
  out.first_index = first;
  for (int64_t row = 0; row < rows; ++row)
    task_.example({seed, split, length, place_of(first + uint64_t(row)), stride},
                  examples_[size_t(row)]);
  assemble(rows, 0, rows, out);
}

// Lays out rows first_row .. first_row + rows - 1 of the batch that examples_[0 .. held) make.
void Batcher::assemble(int64_t held, int64_t first_row, int64_t rows, Batch& out) {
  const bool placeholders = spec_.output == Output::placeholders;
  const bool pooled = spec_.output == Output::first_token || spec_.output == Output::mean;

  // Real lengths, and the span of positions that hold any prediction, over the whole batch.
  out.rows = rows;
  out.length = 0;
  out.lengths.resize(size_t(rows));
  int64_t begin = INT64_MAX, end = 0, shortest = INT64_MAX;
  for (int64_t row = 0; row < held; ++row) {
    const Example& example = examples_[size_t(row)];
    const int64_t predictions = int64_t(example.target.size());
    const int64_t real = int64_t(example.input.size()) + (placeholders ? predictions : 0);
    LONGSHOT_CHECK(real >= 1 && predictions >= 1 && example.scored.size() == example.target.size(),
                   "example of length {}: {} tokens, {} targets, {} score marks",
                   task_lengths_[size_t(row)], real, predictions, example.scored.size());
    LONGSHOT_CHECK(pooled ? predictions == 1 : predictions <= real,
                   "example of length {}: {} targets for {} tokens ({} output)",
                   task_lengths_[size_t(row)], predictions, real, name_of(spec_.output));
    out.length = std::max(out.length, real);
    if (row >= first_row && row < first_row + rows) {
      out.lengths[size_t(row - first_row)] = int32_t(real);
      shortest = std::min(shortest, real);
    }
    begin = std::min(begin, pooled ? 0 : real - predictions);
    end = std::max(end, pooled ? 1 : real);
  }
  out.padded = shortest < out.length;
  out.task_lengths.assign(task_lengths_.begin() + first_row,
                          task_lengths_.begin() + first_row + rows);
  out.output_begin = begin;
  out.outputs = end - begin;

  out.tokens.assign(size_t(rows * out.length), int32_t(spec_.padding_token));
  out.targets.assign(size_t(rows * out.outputs), -1);
  out.scored.assign(size_t(rows * out.outputs), 0);
  out.target_count = out.scored_count = 0;
  for (int64_t row = 0; row < rows; ++row) {
    const Example& example = examples_[size_t(first_row + row)];
    const int64_t predictions = int64_t(example.target.size());
    int32_t* tokens = out.tokens.data() + row * out.length;
    std::copy(example.input.begin(), example.input.end(), tokens);
    if (placeholders)
      std::fill_n(tokens + example.input.size(), predictions, int32_t(spec_.placeholder_token));
    const int64_t offset =
        row * out.outputs + (pooled ? 0 : out.lengths[size_t(row)] - predictions - begin);
    for (int64_t k = 0; k < predictions; ++k) {
      const int32_t target = example.target[size_t(k)];
      LONGSHOT_CHECK(target >= -1 && target < spec_.output_classes,
                     "example of length {}: target {} is {}, the task has classes 0 to {}",
                     out.task_lengths[size_t(row)], k, target, spec_.output_classes - 1);
      const bool scored = target >= 0 && example.scored[size_t(k)] != 0;
      out.targets[size_t(offset + k)] = target;
      out.scored[size_t(offset + k)] = scored;
      out.target_count += target >= 0;
      out.scored_count += scored;
    }
  }
}

}  // namespace longshot
