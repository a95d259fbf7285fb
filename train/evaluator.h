// Evaluator: a model's loss and accuracy on lengths it was and was not trained on.
//
// In range: on the training lengths' own distribution. Beyond: on each length asked for. Every
// sample is a pure function of (seed, split, length, index) and is scored by itself, so results do
// not depend on how samples are grouped into batches; batches are cut to keep within a memory
// limit.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/batcher.h"
#include "data/task.h"
#include "nn/encoder.h"
#include "train/evaluate_options.h"

namespace longshot {

// Scores of a set of samples. Errors are standard errors of the mean over independent draws:
// samples, or groups of samples that shared a draw of positions. They say nothing of the spread
// over seeds.
struct Score {
  int64_t samples = 0;
  int64_t targets = 0;  // predictions with a loss
  double loss = 0;      // mean over targets, natural logarithm; NaN where there are none
  double accuracy = 0;  // share of scored predictions that are right
  double accuracy_error = 0;
  double sequence_accuracy =
      0;  // share of samples (with scored predictions) that have all of them right
  double sequence_accuracy_error = 0;
  std::vector<double> position_accuracy, position_loss;  // by prediction index, when asked for
};

struct LengthScore {
  int64_t length = 0;    // the task's own measure; 0: in range
  bool sliding = false;  // text: a sliding window; else separate segments, or separate samples
  Score score;
};

struct Evaluation {
  std::vector<LengthScore> in_range;  // one a window
  std::vector<LengthScore> lengths;   // by window, then ascending length
  bool stopped = false;               // a stop was requested before all was measured
};

class Evaluator {
 public:
  Evaluator(Encoder& encoder, const Task& task, const EvaluateOptions& options, uint64_t seed);

  // The windows asked for: separate segments (false), sliding (true).
  std::vector<bool> windows() const;
  // Samples that at_length would measure: fewer than asked for where there are no more.
  int64_t samples_at(Split split, int64_t length, bool sliding = false) const;
  // Samples that in_range would measure: 0 where a split has none of these lengths.
  int64_t available(Split split, int64_t min_length, int64_t max_length,
                    bool sliding = false) const;
  Score in_range(Split split, int64_t min_length, int64_t max_length, bool sliding = false);
  Score at_length(Split split, int64_t length, bool sliding = false);
  // In range on [min_length, max_length] and at every length of options.lengths, for each window
  // asked for.
  Evaluation all(Split split, int64_t min_length, int64_t max_length);

 private:
  struct Sums;
  int64_t stride_of(int64_t length, bool sliding) const;
  void measure(Split split, int64_t length, bool sliding, int64_t samples, Sums& sums);
  Encoder& encoder_;
  const Task& task_;
  EvaluateOptions options_;
  uint64_t seed_;
  Batcher batcher_;
  Batch batch_;
  int64_t largest_told_ = 0;  // length for which the memory limit's breach was last reported
};

}  // namespace longshot
