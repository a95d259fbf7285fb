// Summary: a finished run's result, summary.json, and the later evaluations beside it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "train/evaluator.h"

namespace longshot {

// One evaluation of a run: the first, made by `longshot run`, or one of `longshot eval`.
struct StoredEvaluation {
  std::string label;  // "" for the first; else what was changed: "encoding.scaling=yarn"
  std::vector<std::string> overrides;  // key=value
  Evaluation scores;
  double seconds = 0;
};

struct Summary {
  std::string version;
  std::string study, cell;      // folder names
  std::string folder;           // where it was read from; not stored
  bool outside_config = false;  // a cell that today's config does not describe; not stored
  std::string source;           // the CSV file it was read from; "" for a run folder; not stored
  std::string identity;
  std::string task, encoding, positions;
  std::string
      encoding_label;  // type with what tells it from its defaults: "rope", "rope randomized"
  std::vector<std::pair<std::string, std::string>>
      axes;  // sweep key and value, as text, seed included
  // Not stored: every key of config.toml that can change the result, dotted, with its value as
  // text.
  std::vector<std::pair<std::string, std::string>> settings;
  int64_t seed = 0;
  std::string device, device_description;
  int64_t threads = 0;
  int64_t parameters = 0;
  std::string parameters_sha256;
  double chance = 0;  // accuracy of guessing
  // Chance is what the best constant answer gets on the very samples (Score::constant), length by
  // length: own data, and tasks with one answer a sequence. Else `chance`.
  bool constant_is_chance = false;
  // Every seed is measured on the same samples (own data): a mean over seeds is no surer of them
  // than one run is. Not known of results of earlier versions.
  std::optional<bool> fixed_samples;
  std::string metric;  // "accuracy", "sequence_accuracy" or "loss": what a study compares
  bool bytes = false;  // targets are bytes: bits per byte has a meaning
  int64_t train_min = 0, train_max = 0;  // training lengths, the task's own measure
  int64_t steps = 0, best_step = -1;
  bool stopped_early = false;
  uint64_t skipped_steps = 0;
  double last_loss = 0;
  double train_seconds = 0, steps_per_second = 0, tokens_per_second = 0;
  int64_t memory_bytes = 0;                   // device memory at its peak
  std::vector<StoredEvaluation> evaluations;  // the first is the run's own
};

// Writes summary.json aside and renames it (the first evaluation only).
void write_summary(const std::string& folder, const Summary& summary);
// Adds evaluations/<name>.json; an equal one from before is replaced.
void write_evaluation(const std::string& folder, const StoredEvaluation& evaluation);
// Removes all later evaluations, or the one of this label; returns how many.
int64_t remove_evaluations(const std::string& folder, const std::string& label);
// summary.json with all of evaluations/. UsageError naming the file when it is damaged.
Summary read_summary(const std::string& folder);

// A number and what the finite test samples leave open of it: a Share, or a loss with its error.
using Measure = Share;
// The metric of a score, in [0, 1] for accuracies.
Measure metric_of(const Summary& summary, const Score& score);
// The mean of measures. `same_samples`: all were made on the same samples, so that their mean is no
// surer than one of them; else they are independent.
//   error        sqrt(sum e_i^2) / k, or sum e_i / k on the same samples
//   independent  k^2 / sum(1 / n_i), or k / sum(1 / n_i)
Measure mean_of(std::span<const Measure> measures, bool same_samples);
// What the finite test samples leave open, as a 95 % interval: Wilson's for shares, 1.96 standard
// errors to each side for a loss. NaN: not known.
Interval sampling_of(const Measure& measure, bool loss);

// The lengths beyond training of which there were test samples, ascending.
std::vector<int64_t> lengths_beyond(const Summary& summary, const StoredEvaluation& evaluation,
                                    bool sliding);
// The mean over these lengths; NaN when one is missing, or there are none.
Measure mean_over(const Summary& summary, const StoredEvaluation& evaluation, bool sliding,
                  const std::vector<int64_t>& lengths);
const Score* in_range(const StoredEvaluation& evaluation, bool sliding = false);

}  // namespace longshot
