// Finished runs made by hand: a folder with the files that a report reads.
#pragma once

#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "experiments/summary.h"
#include "tests/experiments/program.h"

namespace longshot_test {

struct Result {
  std::string encoding = "";
  int seed = 1;
  double in_range = 1;
  std::vector<std::pair<int64_t, double>> scores = {};  // length, accuracy
  std::string options = "";                             // of the encoding, as TOML lines
  std::string study = "made";
  std::string model = "dim = 64";
  int64_t train_max = 20;
  std::string positions = "";  // options of the sampler, as TOML lines
  std::optional<bool> fixed_samples = false;
  double constant = 0;  // above 0: chance is the best constant answer, and it is this
  double coverage = 1;
};

inline longshot::Score score_of(double accuracy) {
  longshot::Score score;
  score.samples = std::isfinite(accuracy) ? 100 : 0;
  score.targets = 1000;
  score.loss = 1 - accuracy;
  score.loss_error = 0.05;
  score.accuracy = {accuracy, 0.01, 100};
  score.sequence_accuracy = {accuracy * accuracy, 0.02, 100};
  score.constant = 0.5;
  score.constant_class = 0;
  return score;
}

// Writes the run into a new folder below `folder` and returns its path.
inline std::string write_result(const Folder& folder, const Result& result) {
  static int count = 0;
  const std::string name = fmt::format("{}-{}-{:08x}", result.encoding, result.seed, ++count);
  const std::string path = folder / name;
  fs::create_directory(path);
  folder.write(
      name + "/config.toml",
      fmt::format("name = \"made\"\nseed = {}\n[task]\ntype = \"reverse_string\"\n[model]\n{}\n"
                  "[encoding]\ntype = \"{}\"\n{}\n[positions]\ntype = \"contiguous\"\n{}\n"
                  "[train]\nlengths = {{ min = 1, max = {} }}\n[evaluate]\nsamples = {}\n",
                  result.seed, result.model, result.encoding, result.options, result.positions,
                  result.train_max, count));
  std::string metrics;
  for (int step = 100; step <= 1000; step += 100)
    metrics += fmt::format("{{\"step\": {}, \"loss\": {}}}\n", step, 70.0 / step);
  folder.write(name + "/metrics.jsonl", metrics);
  longshot::Summary summary;
  summary.version = "0";
  summary.study = result.study;
  summary.cell = name;
  summary.identity = fmt::format("{:016x}", count);
  summary.task = "reverse_string";
  summary.encoding = summary.encoding_label = result.encoding;
  summary.positions = "contiguous";
  summary.seed = result.seed;
  summary.device = "cpu";
  summary.threads = 1;
  summary.parameters = 1000;
  summary.chance = 0.5;
  summary.constant_is_chance = result.constant > 0;
  summary.fixed_samples = result.fixed_samples;
  summary.metric = "accuracy";
  summary.train_min = 1;
  summary.train_max = result.train_max;
  summary.steps = 1000;
  summary.train_seconds = 12;
  summary.steps_per_second = 80;
  longshot::StoredEvaluation evaluation;
  const auto score = [&](double accuracy) {
    longshot::Score made = score_of(accuracy);
    if (result.constant > 0) made.constant = result.constant;
    return made;
  };
  evaluation.scores.in_range.push_back({0, false, score(result.in_range)});
  evaluation.scores.in_range[0].score.coverage = result.coverage;
  for (const auto& [length, accuracy] : result.scores)
    evaluation.scores.lengths.push_back({length, false, score(accuracy)});
  summary.evaluations.push_back(evaluation);
  longshot::write_summary(path, summary);
  return path;
}

}  // namespace longshot_test
