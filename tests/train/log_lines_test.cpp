// metrics.jsonl and timing.jsonl hold what docs/formats.md says.
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "tests/train/small_run.h"

using namespace longshot;
using namespace longshot::test;

namespace {

using Json = nlohmann::json;

std::vector<Json> lines_of(const std::string& path) {
  std::vector<Json> lines;
  std::istringstream file(read_file(path));
  for (std::string line; std::getline(file, line);) lines.push_back(Json::parse(line));
  return lines;
}

std::set<std::string> keys_of(const Json& line) {
  std::set<std::string> keys;
  for (const auto& [key, value] : line.items()) keys.insert(key);
  return keys;
}

}  // namespace

TEST_CASE("lines of the logs have the documented keys", "[train][formats]") {
  Setup setup;
  setup.options.train.evaluate_every = 6;
  setup.options.train.lr = 0.5;
  setup.options.train.warmup = 6;
  setup.options.train.lengths.draw = "fixed";
  setup.options.folder = fresh_folder("log-lines");
  Run run(setup);
  REQUIRE(run.trainer->run().outcome == Outcome::done);
  int64_t training = 0, evaluations = 0;
  for (const Json& line : lines_of(setup.options.folder + "/metrics.jsonl")) {
    if (line.contains("split")) {
      CHECK(keys_of(line) == std::set<std::string>{"step", "split", "in_range"});
      CHECK(line["split"] == "validation");
      CHECK(line["step"] == 6 * ++evaluations);
      CHECK(line["in_range"]["samples"] == setup.options.evaluate.in_range_samples);
      continue;
    }
    CHECK(keys_of(line) ==
          std::set<std::string>{"step", "loss", "learning_rate", "gradient_norm", "tokens"});
    const int64_t step = 3 * ++training;  // log_every
    CHECK(line["step"] == step);
    // Strings of 10 with 10 placeholders, 8 a batch.
    CHECK(line["tokens"] == 8 * 20 * step);
    // Step s, from 0, has lr * (s + 1) / 6 while the rate rises.
    const float rate = line["learning_rate"];
    CHECK(rate == Approx(step >= 6 ? 0.5 : 0.5 * double(step) / 6).epsilon(1e-6));
  }
  CHECK(training == 4);
  CHECK(evaluations == 2);
  for (const Json& line : lines_of(setup.options.folder + "/timing.jsonl"))
    CHECK(keys_of(line) ==
          std::set<std::string>{"step", "seconds", "steps_per_second", "tokens_per_second"});
}
