// Evaluator: a model's loss and accuracy on lengths it was and was not trained on.
//
// In range: on the training lengths' own distribution. Beyond: on each length asked for. Every
// sample is a pure function of (seed, split, length, index) and is scored by itself, so results do
// not depend on how samples are grouped into batches; batches are cut to keep within a memory
// limit.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "data/batcher.h"
#include "data/task.h"
#include "nn/encoder.h"
#include "train/evaluate_options.h"
#include "train/sampling.h"

namespace longshot {

// Scores of a set of samples; NaN where there was nothing to score. Errors are standard errors over
// independent draws: samples, or groups of samples that shared a draw of positions
// (train/sampling.h). They say nothing of the spread over seeds.
struct Score {
  int64_t samples = 0;
  int64_t targets = 0;                                     // predictions with a loss
  double loss = std::numeric_limits<double>::quiet_NaN();  // mean over targets, natural logarithm
  double loss_error = std::numeric_limits<double>::quiet_NaN();
  Share accuracy;           // of the scored predictions, those that are right
  Share sequence_accuracy;  // of the samples with scored predictions, those with all of them right
  // The share of scored predictions that the best constant answer gets right on these very samples,
  // and which class that is (-1: there were none).
  double constant = std::numeric_limits<double>::quiet_NaN();
  int64_t constant_class = -1;
  // The share of samples whose whole answer is the most frequent one; 0 where none occurs twice.
  double constant_sequence = std::numeric_limits<double>::quiet_NaN();
  // Of the samples that the plan asked for, the share whose lengths there are; below 1 only for
  // data from files.
  double coverage = 1;
  std::vector<double> position_accuracy, position_loss;  // by prediction index, when asked for
};

// Below this share of the training lengths' distribution an in-range score is of other lengths, and
// no verdict rests on it.
constexpr double kEnoughCoverage = 0.95;

// The share of the training lengths' distribution (as a plan of so many samples) whose lengths a
// split holds: 1 for generated tasks.
double coverage_of(const Task& task, Split split, int64_t min_length, int64_t max_length,
                   int64_t samples);

struct LengthScore {
  int64_t length = 0;    // the task's own measure; 0: in range
  bool sliding = false;  // text: a sliding window; else separate segments, or separate samples
  Score score;
};

struct Evaluation {
  std::vector<LengthScore> in_range;   // one a window
  Split in_range_split = Split::test;  // where its samples are from
  std::vector<LengthScore> lengths;    // by window, then ascending length
  bool stopped = false;                // a stop was requested before all was measured
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
  // The split that stands for "in range": test, unless it holds less than kEnoughCoverage of the
  // training lengths' distribution and validation holds more than it.
  Split in_range_split(int64_t min_length, int64_t max_length) const;
  // On the training lengths' own distribution. Where data from a file has fewer samples of a length
  // than the distribution asks for, those it has count for more; lengths that it lacks are left out
  // (Score::coverage).
  Score in_range(Split split, int64_t min_length, int64_t max_length, bool sliding = false);
  Score at_length(Split split, int64_t length, bool sliding = false);
  // In range on [min_length, max_length] (in_range_split says from where) and, on the test split,
  // at every length of options.lengths; for each window asked for.
  Evaluation all(int64_t min_length, int64_t max_length);

 private:
  struct Sums;
  struct Planned {
    int64_t length, samples;
    double weight;  // of each sample; 1 where every length has what is asked for
  };
  int64_t stride_of(int64_t length, bool sliding) const;
  std::vector<Planned> plan(Split split, int64_t min_length, int64_t max_length,
                            bool sliding) const;
  void measure(Split split, int64_t length, bool sliding, int64_t samples, double weight,
               Sums& sums);
  Encoder& encoder_;
  const Task& task_;
  EvaluateOptions options_;
  uint64_t seed_;
  Batcher batcher_;
  Batch batch_;
  int64_t largest_told_ = 0;  // length for which the memory limit's breach was last reported
};

}  // namespace longshot
