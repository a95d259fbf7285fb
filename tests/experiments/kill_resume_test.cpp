// The real program, killed at random moments of a training with dropout, drawn positions,
// evaluations and frequent checkpoints: the same command again ends in the bits of a run that was
// left alone, at another thread count.
//
// Kills: 5, or LONGSHOT_KILLS (50 once before a release: LONGSHOT_KILLS=50
// build/tests/test_experiments "*killed*").
#include <chrono>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <random>

#include "tests/catch.h"
#include "tests/experiments/program.h"
#include "train/safetensors.h"

using namespace longshot_test;
using longshot::read_file;

namespace {

const char* kConfig = R"(name = "kill"
[task]
type = "reverse_string"
[model]
dim = 16
layers = 2
heads = 2
ffn = 32
dropout = 0.1
[encoding]
type = "rope"
[positions]
type = "randomized"
max = 64
[train]
steps = 300
batch = 8
accumulate = 2
keep = "best"
log_every = 7
evaluate_every = 20
checkpoint_every = 5
lengths = { min = 1, max = 12, draw = "sequence" }
[evaluate]
lengths = [16, 24]
samples = 32
in_range_samples = 32
)";

std::vector<std::string> words(const Folder& folder, const std::string& out, int threads) {
  return {program_path(), "run",       folder / "a.toml",      "--device", "cpu", "--out",
          folder / out,   "--threads", std::to_string(threads)};
}

// Everything that must not depend on how often a run was killed.
void check_equal(const std::string& a, const std::string& b) {
  CHECK(read_file(a + "/metrics.jsonl") == read_file(b + "/metrics.jsonl"));
  CHECK(read_file(a + "/checkpoint.safetensors") == read_file(b + "/checkpoint.safetensors"));
  // The training state holds wall-clock figures too: its tensors, not its bytes.
  const auto first = longshot::SafetensorsFile::open(a + "/training_state.safetensors");
  const auto second = longshot::SafetensorsFile::open(b + "/training_state.safetensors");
  // Parameters, both moments, the best parameters.
  const auto parameters = longshot::SafetensorsFile::open(a + "/checkpoint.safetensors");
  REQUIRE(first.entries().size() == 4 * parameters.entries().size());
  REQUIRE(second.entries().size() == first.entries().size());
  for (const longshot::SafetensorsEntry& entry : first.entries()) {
    INFO(entry.name);
    REQUIRE(second.find(entry.name) != nullptr);
    const auto x = first.bytes(entry), y = second.bytes(*second.find(entry.name));
    CHECK(std::equal(x.begin(), x.end(), y.begin(), y.end()));
  }
  const auto x = nlohmann::json::parse(read_file(a + "/summary.json"));
  const auto y = nlohmann::json::parse(read_file(b + "/summary.json"));
  for (const char* key :
       {"parameters_sha256", "steps", "best_step", "last_loss", "skipped_steps"}) {
    INFO(key);
    CHECK(x.at(key) == y.at(key));
  }
  CHECK(x.at("evaluation").at("in_range") == y.at("evaluation").at("in_range"));
  CHECK(x.at("evaluation").at("lengths") == y.at("evaluation").at("lengths"));
  for (const auto& entry : fs::directory_iterator(a)) {
    INFO(entry.path().string());
    CHECK(entry.path().extension() != ".partial");  // nothing half written is left behind
  }
}

}  // namespace

TEST_CASE("killed at random moments, a run ends in the uninterrupted run's bits") {
  const char* asked = std::getenv("LONGSHOT_KILLS");
  const int kills = asked != nullptr ? std::atoi(asked) : 5;
  const Folder folder;
  folder.write("a.toml", kConfig);
  const auto begin = std::chrono::steady_clock::now();
  const Outcome reference = Running(words(folder, "whole", 2)).wait();
  INFO(reference.all());
  REQUIRE(reference.code == 0);
  const std::chrono::duration<double> whole = std::chrono::steady_clock::now() - begin;
  const std::string wanted = run_folders(folder / "whole/kill").at(0);

  std::mt19937 random(std::random_device{}());
  int killed = 0, finished = 0, attempt = 0;
  double longest = 0.3 * whole.count();  // shortened when runs end before their kill
  const auto out = [&] { return fmt::format("killed-{}", finished); };
  const auto compare = [&] {
    INFO("after " << killed << " kills");
    check_equal(run_folders(folder / (out() + "/kill")).at(0), wanted);
    ++finished;
  };
  while (killed < kills) {
    REQUIRE(++attempt < 20 * kills);
    Running running(words(folder, out(), 1));
    const double delay = std::uniform_real_distribution<double>(0.0, longest)(random);
    std::this_thread::sleep_for(std::chrono::duration<double>(delay));
    if (!running.ended()) {
      running.signal(SIGKILL);
      const Outcome outcome = running.wait();
      if (outcome.code == 1000 + SIGKILL) {
        ++killed;
        continue;
      }
    }
    const Outcome outcome = running.wait();
    INFO(outcome.all());
    REQUIRE(outcome.code == 0);
    longest *= 0.7;
    compare();  // it was done before the kill came: the next one starts anew
  }
  const Outcome outcome = Running(words(folder, out(), 1)).wait();
  INFO(outcome.all());
  REQUIRE(outcome.code == 0);
  compare();
  if (asked != nullptr) WARN(killed << " kills, " << finished << " runs ended with equal bits");
}
