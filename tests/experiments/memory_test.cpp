// Memory that the system refuses, and threads that the environment decides, through the program.
#include <nlohmann/json.hpp>

#include "tests/catch.h"
#include "tests/experiments/program.h"

using namespace longshot_test;
using nlohmann::json;

namespace {

// The program on one thread, with at most so many KiB of address space.
Outcome limited(int64_t kibibytes, const std::string& words) {
  return shell(
      fmt::format("ulimit -v {}; exec '{}' {} --threads 1", kibibytes, program_path(), words));
}

int64_t exit_code(const std::string& folder) {
  return json::parse(longshot::read_file(folder + "/status.json")).at("exit_code");
}
std::string text_of(const std::string& folder, const char* key) {
  return json::parse(longshot::read_file(folder + "/status.json")).at(key);
}

}  // namespace

TEST_CASE("a run whose memory is refused ends as failed, with what was refused", "[ulimit]") {
  const Folder folder;
  const std::string words =
      "run " + folder.write("a.toml", tiny_config()) +
      " device.type=cpu train.batch=600 train.lengths.max=100 model.dim=64 model.ffn=256 --out " +
      (folder / "runs");
  // More than the least that this run needs (120000 tokens of 64 numbers, five times: 147 MiB),
  // less than what it needs.
  const Outcome refused = limited(400 << 10, words);
  INFO(refused.all());
  CHECK(refused.code == 1);
  CHECK_THAT(refused.err, ContainsSubstring("out of memory"));
  const std::string run = run_folders(folder / "runs/tiny").at(0);
  CHECK(text_of(run, "state") == "failed");
  CHECK(exit_code(run) == 1);
  const std::string message = text_of(run, "message");
  CHECK_THAT(message, ContainsSubstring("cpu: out of memory: ") && ContainsSubstring(" bytes (") &&
                          ContainsSubstring("by heap step"));
  CHECK_THAT(longshot::read_file(run + "/log.txt"), ContainsSubstring(message));
}

TEST_CASE("a run that the limit on memory cannot hold is refused before anything is written",
          "[ulimit]") {
  const Folder folder;
  const std::string words = "run " + folder.write("a.toml", tiny_config()) +
                            " device.type=cpu train.batch=10000 train.lengths.max=1000 --out " +
                            (folder / "runs");
  const Outcome refused = limited(1 << 20, words);
  INFO(refused.all());
  CHECK(refused.code == 2);
  // 20 million tokens of 8 numbers, five times: 2.98 GiB.
  CHECK_THAT(
      refused.err,
      ContainsSubstring("command line: train.batch = 10000: this run needs at least 3.") &&
          ContainsSubstring("and the limit on this process's memory (ulimit -v) is 1.0 GiB") &&
          ContainsSubstring("3.0 GiB for the activations of a training batch"));
  CHECK_FALSE(fs::exists(folder / "runs"));
}

// R2.5
TEST_CASE("a line that the machine has no memory for is refused with the figures", "[ulimit]") {
  const Folder folder;
  REQUIRE(run_longshot({"run", folder.write("a.toml", tiny_config()), "--out", folder / "runs",
                        "device.type=cpu"})
              .code == 0);
  const std::string cell = run_folders(folder / "runs/tiny").at(0);
  const std::string line = folder.write("line", std::string(5000000, '0') + "\n");
  // 10 million tokens with the placeholders; the embedding alone is 8 numbers of each: 320 MB.
  const Outcome refused = limited(400 << 10, "predict " + cell + " --device cpu < " + line);
  INFO(refused.all());
  CHECK(refused.code == 1);
  CHECK_THAT(refused.err, ContainsSubstring("line 1 of standard input") &&
                              ContainsSubstring("10000000 tokens need about") &&
                              ContainsSubstring("ulimit -v"));
}

TEST_CASE("a dry run and a bench of what no machine can hold end at once") {
  const Folder folder;
  const std::string config = folder.write("a.toml", tiny_config());
  for (const char* key : {"model.layers=1000000000", "train.batch=1000000000"}) {
    for (const std::vector<std::string>& words :
         {std::vector<std::string>{"run", config, "--dry-run", key, "device.type=cpu"},
          std::vector<std::string>{"bench", config, key, "device.type=cpu"}}) {
      const Outcome refused = run_longshot(words);
      INFO(key << ": " << refused.all());
      CHECK(refused.code == 2);
      CHECK_THAT(refused.err, ContainsSubstring("needs at least"));
    }
  }
}

TEST_CASE("the log says how many threads, and who decided") {
  const Folder folder;
  const std::string words = fmt::format("'{}' run {} device.type=cpu --out {}", program_path(),
                                        folder.write("a.toml", tiny_config()), folder / "runs");
  const auto log_of = [&](const std::string& before, const std::string& after) {
    fs::remove_all(folder / "runs");
    CHECK(shell(before + " " + words + " " + after).code == 0);
    return longshot::read_file(run_folders(folder / "runs/tiny").at(0) + "/log.txt");
  };
  CHECK_THAT(log_of("OMP_NUM_THREADS=1", ""), ContainsSubstring("threads 1 (OMP_NUM_THREADS)"));
  CHECK_THAT(log_of("OMP_NUM_THREADS=1", "--threads 2"),
             ContainsSubstring("threads 2 (as asked for)"));
}
