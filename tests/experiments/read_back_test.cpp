// Every file of a run that is read back and decides a number is held against what was written, and
// a file that decides none is no reason to lose what was trained. (The training state and the
// checkpoint's own hash: tests/train/checkpoint_test.cpp.)
#include <cstring>
#include <nlohmann/json.hpp>

#include "experiments/run_cell.h"
#include "experiments/summary.h"
#include "tests/catch.h"
#include "tests/experiments/program.h"
#include "train/sha256.h"
#include "train/stored_tensors.h"

using namespace longshot_test;
using nlohmann::ordered_json;

namespace {

struct TinyRun {
  Folder folder;
  std::string config = folder.write("tiny.toml", tiny_config());
  std::string out = folder / "runs";
  Outcome run(std::vector<std::string> more = {}) {
    std::vector<std::string> words = {"run", config, "--out", out};
    words.insert(words.end(), more.begin(), more.end());
    return run_longshot(words);
  }
  std::string cell() const { return run_folders(folder / "runs/tiny").at(0); }
};

void replace_in(const std::string& path, const std::string& from, const std::string& to) {
  std::string text = longshot::read_file(path);
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  longshot::write_file_atomically(path, text.replace(at, from.size(), to));
}

std::string sha256_of(const std::string& text) {
  longshot::Sha256 hash;
  hash.add(std::as_bytes(std::span(text)));
  return hash.hex();
}

std::string parameters_of(const std::string& cell) {
  return ordered_json::parse(longshot::read_file(cell + "/summary.json")).at("parameters_sha256");
}

}  // namespace

TEST_CASE("a finished run's checkpoint that is gone or damaged is written anew from its state") {
  const Folder folder;
  const std::vector<std::string> words = {"run", folder.write("a.toml", tiny_config()), "--out",
                                          folder / "runs"};
  REQUIRE(run_longshot(words).code == 0);
  const std::string cell = run_folders(folder / "runs/tiny").at(0);
  const std::string path = cell + "/checkpoint.safetensors", whole = longshot::read_file(path);
  fs::remove(path);
  Outcome outcome = run_longshot({"eval", cell});
  CHECK(outcome.code == 2);
  CHECK_THAT(outcome.err, ContainsSubstring("writes it anew"));
  CHECK(run_longshot(words).code == 0);
  CHECK(longshot::read_file(path) == whole);
  std::string damaged = whole;
  damaged.back() = char(damaged.back() ^ 1);
  longshot::write_file_atomically(path, damaged);
  outcome = run_longshot({"eval", cell});
  CHECK(outcome.code == 2);
  CHECK_THAT(outcome.err, ContainsSubstring("--retry-failed"));
  std::vector<std::string> again = words;
  again.push_back("--retry-failed");
  CHECK(run_longshot(again).code == 0);
  CHECK(longshot::read_file(path) == whole);
  CHECK(run_longshot({"eval", cell}).code == 0);
}

TEST_CASE("a changed result is refused, and made again by the next run") {
  TinyRun tiny;
  REQUIRE(tiny.run().code == 0);
  const std::string path = tiny.cell() + "/summary.json";
  // The hash is of the other members, as one line.
  ordered_json json = ordered_json::parse(longshot::read_file(path));
  const std::string stored = json.at("sha256");
  json.erase("sha256");
  CHECK(sha256_of(json.dump()) == stored);

  const std::string good = longshot::read_file(path);
  const std::string seed = "\"seed\": 1";
  replace_in(path, seed, "\"seed\": 2");
  CHECK_THROWS_WITH(longshot::read_summary(tiny.cell()),
                    ContainsSubstring("summary.json: its contents were changed"));
  CHECK(run_longshot({"report", tiny.folder / "runs/tiny"}).code == 2);  // no other run is there
  const std::string parameters = parameters_of(tiny.cell());
  const Outcome again = tiny.run();
  CHECK(again.code == 0);
  CHECK_THAT(again.err, ContainsSubstring("it is evaluated again"));
  CHECK(parameters_of(tiny.cell()) == parameters);

  // Files of earlier versions have no hash.
  json.erase("sha256");
  longshot::write_file_atomically(path, json.dump(1) + "\n");
  CHECK(run_longshot({"report", tiny.folder / "runs/tiny"}).code == 0);
}

TEST_CASE("eval and predict refuse a changed config and other parameters") {
  TinyRun tiny;
  REQUIRE(tiny.run().code == 0);
  const std::string cell = tiny.cell();
  CHECK(run_longshot({"eval", cell}).code == 0);

  const std::string config = longshot::read_file(cell + "/config.toml");
  const auto cell_json = ordered_json::parse(longshot::read_file(cell + "/cell.json"));
  CHECK(cell_json.at("config_sha256") == sha256_of(config));
  replace_in(cell + "/config.toml", "embedding_scale = true", "embedding_scale = false");
  for (const char* command : {"eval", "predict"}) {
    const Outcome outcome = run_longshot({command, cell});
    CHECK(outcome.code == 2);
    CHECK_THAT(outcome.err, ContainsSubstring(cell + "/config.toml: it was changed after"));
  }
  CHECK(run_longshot({"report", tiny.folder / "runs/tiny"}).code == 2);
  const std::string parameters = parameters_of(cell);
  CHECK(tiny.run().code == 0);  // as the message says
  CHECK(longshot::read_file(cell + "/config.toml") == config);
  CHECK(parameters_of(cell) == parameters);
  CHECK(run_longshot({"eval", cell}).code == 0);

  // A checkpoint in order, but of other parameters.
  const std::string path = cell + "/checkpoint.safetensors";
  const longshot::SafetensorsFile file = longshot::SafetensorsFile::open(path);
  std::vector<longshot::SafetensorsTensor> tensors;
  for (const auto& entry : file.entries())
    tensors.push_back({entry.name, entry.dtype, entry.shape, file.bytes(entry)});
  std::vector<float> zeros(tensors[0].bytes.size() / sizeof(float));
  tensors[0].bytes = std::as_bytes(std::span(zeros));
  longshot::write_proven(path, tensors, file.metadata());
  for (const char* command : {"eval", "predict"}) {
    const Outcome outcome = run_longshot({command, cell});
    CHECK(outcome.code == 2);
    CHECK_THAT(outcome.err, ContainsSubstring("not the parameters that the run ended with"));
  }
}

// R2.2: beside an intact training state, no other file's loss costs any training.
TEST_CASE("records that are missing or damaged beside a training state cost no training") {
  TinyRun whole;
  REQUIRE(whole.run().code == 0);
  const std::string parameters = parameters_of(whole.cell());
  const char* files[] = {"metrics.jsonl", "timing.jsonl", "log.txt",    "summary.json",
                         "cell.json",     "status.json",  "config.toml"};
  TinyRun tiny;
  REQUIRE(tiny.run().code == 0);
  const std::string cell = tiny.cell();
  const std::string state = longshot::read_file(cell + "/training_state.safetensors");
  for (const bool deleted : {true, false})
    for (const char* file : files) {
      INFO(file << (deleted ? " deleted" : " damaged"));
      // The run had failed after its last step, and this file with it.
      longshot::write_file_atomically(
          cell + "/status.json", R"({"state": "failed", "message": "no space left on device"})");
      fs::remove(cell + "/summary.json");
      if (deleted)
        fs::remove(cell + "/" + file);
      else
        longshot::write_file_atomically(cell + "/" + file, "{\"x\": ");
      const Outcome outcome = tiny.run({"--retry-failed"});
      INFO(outcome.all());
      CHECK(outcome.code == 0);
      CHECK(parameters_of(cell) == parameters);
      CHECK_THAT(outcome.err, !ContainsSubstring("starts over"));
      // Nothing was trained again: the finished state was the one that was there.
      CHECK(longshot::read_file(cell + "/training_state.safetensors") == state);
    }
}

TEST_CASE("a damaged training state says so, and --retry-failed starts over") {
  TinyRun tiny;
  REQUIRE(tiny.run().code == 0);
  const std::string cell = tiny.cell(), parameters = parameters_of(cell);
  std::string state = longshot::read_file(cell + "/training_state.safetensors");
  state[state.size() - 100] ^= 1;
  longshot::write_file_atomically(cell + "/training_state.safetensors", state);
  fs::remove(cell + "/summary.json");
  const Outcome refused = tiny.run();
  CHECK(refused.code != 0);
  CHECK_THAT(refused.err,
             ContainsSubstring("training_state.safetensors: its contents were changed") &&
                 ContainsSubstring("--retry-failed"));
  const Outcome again = tiny.run({"--retry-failed"});
  CHECK(again.code == 0);
  CHECK(parameters_of(cell) == parameters);
}
