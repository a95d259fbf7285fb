// The studies' own configs, cut to a minute: the contrasts that come out clean must come out here,
// too.
#include <cmath>
#include <map>

#include "experiments/report.h"
#include "tests/catch.h"
#include "tests/experiments/program.h"

using namespace longshot;
using namespace longshot_test;

namespace {

const std::string kStudies = LONGSHOT_SOURCE_DIR "/experiments/configs/studies/";

struct Result {
  double in_range = NAN;
  std::map<int64_t, double> accuracy;  // by length
};

// Runs the config with overrides and returns the runs by a name that `name` gives them.
template <class Name>
std::map<std::string, Result> results_of(const std::string& config,
                                         std::vector<std::string> overrides, Name name) {
  const Folder folder;
  std::vector<std::string> words = {"run", kStudies + config, "--jobs",
                                    "2",   "--out",           folder / "runs"};
  words.insert(words.begin() + 2, overrides.begin(), overrides.end());
  const Outcome run = run_longshot(words);
  INFO(run.all());
  REQUIRE(run.code == 0);
  const Report report = gather_report({folder / "runs"});
  std::map<std::string, Result> results;
  for (const Summary& summary : report.summaries) {
    Result& result = results[name(summary)];
    const Evaluation& scores = summary.evaluations.front().scores;
    result.in_range = scores.in_range.front().score.accuracy.value;
    for (const LengthScore& each : scores.lengths)
      result.accuracy[each.length] = each.score.accuracy.value;
  }
  return results;
}

}  // namespace

TEST_CASE("miniature of chiang2022: ln n on the logits carries FIRST from 10 to 1,000",
          "[miniature]") {
  auto results =
      results_of("chiang2022/first.toml",
                 {"sweep.grid.seed=[1]", "sweep.cells=[{train.lengths={min=10, max=10}}]",
                  "evaluate.lengths=[1000]", "evaluate.samples=500"},
                 [](const Summary& summary) { return value_of(summary, "model.log_n_scaling"); });
  REQUIRE(results.size() == 2);
  const Result with = results["true"], without = results["false"];
  CHECK(with.in_range >= 0.99);
  CHECK(without.in_range >= 0.99);
  CHECK(with.accuracy.at(1000) >= 0.99);
  CHECK(without.accuracy.at(1000) <= 0.9);
}

TEST_CASE("miniature of ruoss2023: randomised rope sorts strings of 20, sinusoidal does not",
          "[miniature]") {
  auto results = results_of("ruoss2023/mini.toml",
                            {"task=bucket_sort", "train.steps=3000", "train.lengths.max=10",
                             "evaluate.lengths=[20]", "evaluate.samples=512", "sweep.grid.seed=[1]",
                             "sweep.cells=[{encoding=\"sinusoidal\"}, {encoding=\"rope\", "
                             "positions={type=\"randomized\", "
                             "max=128, per_layer=true}}]"},
                            [](const Summary& summary) { return summary.encoding; });
  REQUIRE(results.size() == 2);
  const Result rope = results["rope"], sinusoidal = results["sinusoidal"];
  CHECK(rope.in_range >= 0.99);
  CHECK(sinusoidal.in_range >= 0.99);
  CHECK(rope.accuracy.at(20) >= sinusoidal.accuracy.at(20) + 0.3);
}
