// `longshot run`, `eval` and `predict` through the real program.
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/ops.h"
#include "data/task.h"
#include "experiments/load.h"
#include "experiments/run_cell.h"
#include "tests/catch.h"
#include "tests/experiments/program.h"
#include "train/checkpoint.h"

using namespace longshot_test;
using nlohmann::json;

namespace {

// `longshot run` of the tiny config (or another) in a folder.
Outcome run(const Folder& folder, const std::vector<std::string>& words,
            const std::string& out = "runs", const std::string& config = tiny_config()) {
  std::vector<std::string> command = {"run", folder.write("a.toml", config)};
  command.insert(command.end(), words.begin(), words.end());
  command.insert(command.end(), {"--out", folder / out});
  return run_longshot(command);
}

json summary_of(const std::string& run_folder) {
  return json::parse(longshot::read_file(run_folder + "/summary.json"));
}

std::string state_of(const std::string& run_folder) {
  return json::parse(longshot::read_file(run_folder + "/status.json")).at("state");
}

// What equal runs have in common, bit for bit.
std::string result_of(const std::string& run_folder) {
  const json summary = summary_of(run_folder);
  json evaluation = summary.at("evaluation");
  evaluation.erase("seconds");
  return summary.at("parameters_sha256").get<std::string>() + evaluation.dump() +
         longshot::read_file(run_folder + "/metrics.jsonl");
}

void check_same_results(const std::string& study, const std::string& other) {
  const auto a = run_folders(study), b = run_folders(other);
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    CHECK(fs::path(a[i]).filename() == fs::path(b[i]).filename());
    CHECK(result_of(a[i]) == result_of(b[i]));
  }
}

void truncate_file(const std::string& path) {
  const std::string content = longshot::read_file(path);
  longshot::write_file_atomically(path, content.substr(0, content.size() / 2));
}

const std::string kSeeds = "sweep.grid.seed=[1, 2, 3, 4]";

}  // namespace

TEST_CASE("a dry run lists states and an estimate, and writes nothing") {
  const Folder folder;
  const Outcome dry = run(folder, {"--dry-run", kSeeds});
  CHECK(dry.code == 0);
  CHECK_THAT(dry.out, ContainsSubstring("tiny: 4 cells") && ContainsSubstring("to run") &&
                          ContainsSubstring("about"));
  CHECK_FALSE(fs::exists(folder / "runs"));
  REQUIRE(run(folder, {}).code == 0);
  const Outcome after = run(folder, {"--dry-run", kSeeds});
  CHECK_THAT(after.out, ContainsSubstring("finished") && ContainsSubstring("nothing to do") &&
                            ContainsSubstring("to run"));
}

TEST_CASE("a run leaves everything in its folder; its config loads back to the same run") {
  const Folder folder;
  const Outcome first = run(folder, {});
  INFO(first.all());
  REQUIRE(first.code == 0);
  CHECK_THAT(first.out, ContainsSubstring("in range") && ContainsSubstring("report.html"));
  const auto folders = run_folders(folder / "runs/tiny");
  REQUIRE(folders.size() == 1);
  for (const char* file : {"config.toml", "metrics.jsonl", "timing.jsonl", "summary.json",
                           "status.json", "log.txt", "checkpoint.safetensors"})
    CHECK(fs::exists(folders[0] + "/" + file));
  CHECK(state_of(folders[0]) == "finished");
  CHECK_THAT(longshot::read_file(folders[0] + "/log.txt"),
             ContainsSubstring("device cpu") && ContainsSubstring("parameters"));

  // Finished: nothing is done again.
  const auto written = fs::last_write_time(folders[0] + "/summary.json");
  const Outcome again = run(folder, {});
  CHECK(again.code == 0);
  CHECK_THAT(again.err, ContainsSubstring("nothing to do"));
  CHECK(fs::last_write_time(folders[0] + "/summary.json") == written);

  // The saved config is the same run: same identity, same bits.
  const Outcome saved =
      run_longshot({"run", folders[0] + "/config.toml", "--out", folder / "other"});
  REQUIRE(saved.code == 0);
  check_same_results(folder / "runs/tiny", folder / "other/tiny");
}

TEST_CASE("jobs side by side, and two programs at once, give the same bits as one after another") {
  const Folder folder;
  REQUIRE(run(folder, {kSeeds}, "one").code == 0);
  const Outcome two = run(folder, {kSeeds, "--jobs", "2"}, "two");
  INFO(two.all());
  REQUIRE(two.code == 0);
  check_same_results(folder / "one/tiny", folder / "two/tiny");

  const std::string config = folder.write("b.toml", tiny_config());
  const auto words =
      longshot_words({"run", config, kSeeds, "train.steps=300", "--out", folder / "shared"});
  Running a(words), b(words);
  const Outcome ended_a = a.wait(), ended_b = b.wait();
  INFO(ended_a.all() << ended_b.all());
  CHECK(ended_a.code == 0);
  CHECK(ended_b.code == 0);
  // Whatever one left to the other is finished now.
  const Outcome rest = run(folder, {kSeeds, "train.steps=300", "--dry-run"}, "shared");
  CHECK(rest.out.find("to run") == std::string::npos);
  REQUIRE(run(folder, {kSeeds, "train.steps=300"}, "alone", longshot::read_file(config)).code == 0);
  check_same_results(folder / "shared/tiny", folder / "alone/tiny");
}

TEST_CASE("a signal stops with a checkpoint, and the same command goes on to the same bits") {
  const Folder folder;
  const std::string config = folder.write("a.toml", tiny_config());
  const std::vector<std::string> long_run = {"train.steps=6000", "train.log_every=50",
                                             "train.checkpoint_every=500"};
  std::vector<std::string> words = {"run", config, "--out", folder / "stopped"};
  words.insert(words.end(), long_run.begin(), long_run.end());
  const bool sweep = GENERATE(false, true);
  if (sweep) words.insert(words.end(), {"sweep.grid.seed=[1, 2]", "--jobs", "2"});
  {
    Running running(longshot_words(words));
    REQUIRE(wait_for(running, [&] {
      if (!fs::exists(folder / "stopped/tiny")) return false;
      const auto folders = run_folders(folder / "stopped/tiny");
      return folders.size() == (sweep ? 2U : 1U) &&
             std::all_of(folders.begin(), folders.end(), [](const auto& each) {
               return fs::exists(each + "/metrics.jsonl") &&
                      fs::file_size(each + "/metrics.jsonl") > 0;
             });
    }));
    running.signal(SIGTERM);
    const Outcome outcome = running.wait();
    INFO(outcome.all());
    CHECK(outcome.code == 75);
    CHECK_THAT(outcome.err, ContainsSubstring("the same command goes on"));
  }
  for (const std::string& each : run_folders(folder / "stopped/tiny")) {
    CHECK(state_of(each) == "interrupted");
    CHECK_FALSE(fs::exists(each + "/summary.json"));
  }
  const Outcome resumed = run_longshot(words);
  INFO(resumed.all());
  REQUIRE(resumed.code == 0);
  words[3] = folder / "whole";
  REQUIRE(run_longshot(words).code == 0);
  check_same_results(folder / "stopped/tiny", folder / "whole/tiny");
}

TEST_CASE("a second signal ends at once") {
  const Folder folder;
  // One step of this takes many seconds: the first signal alone would wait for its end.
  const std::string config = folder.write("a.toml", tiny_config());
  Running running(
      longshot_words({"run", config, "train.batch=512", "model.dim=256", "train.lengths.max=200",
                      "train.lengths.min=200", "model.layers=4", "--out", folder / "runs"}));
  REQUIRE(wait_for(running, [&] {
    if (!fs::exists(folder / "runs/tiny")) return false;
    const auto folders = run_folders(folder / "runs/tiny");
    return !folders.empty() && fs::exists(folders[0] + "/status.json");
  }));
  running.signal(SIGINT);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  CHECK_FALSE(running.ended());
  running.signal(SIGINT);
  CHECK(running.wait().code == 130);
}

TEST_CASE("a cell that fails is reported and the rest goes on") {
  const Folder folder;
  const std::string axis = "sweep.grid.train.lr=[1e30, 1e-3]";
  Outcome outcome = run(folder, {axis, "--fail-fast"});
  INFO(outcome.all());
  CHECK(outcome.code == 1);
  CHECK(run_folders(folder / "runs/tiny").size() == 1);
  outcome = run(folder, {axis});
  CHECK(outcome.code == 1);
  CHECK_THAT(outcome.err, ContainsSubstring("diverged before") &&
                              ContainsSubstring("--retry-failed") &&
                              ContainsSubstring("1 of 2 cells finished, 1 failed"));
  CHECK_THAT(outcome.out, ContainsSubstring("not in the tables"));
  REQUIRE(run_folders(folder / "runs/tiny").size() == 2);
  const bool jobs = GENERATE(false, true);
  outcome = jobs ? run(folder, {axis, "sweep.grid.seed=[1, 2]", "--retry-failed", "--jobs", "2"})
                 : run(folder, {axis, "--retry-failed"});
  CHECK(outcome.code == 1);
  CHECK_THAT(outcome.err, ContainsSubstring("] lr=1e30") ||
                              ContainsSubstring("diverged: the loss was not finite"));

  // One run alone has an exit code of its own for this.
  CHECK(run(folder, {"train.lr=1e30"}, "single").code == 3);
  CHECK(run(folder, {"train.lr=1e30"}, "single").code == 3);
}

TEST_CASE("changing only [evaluate] evaluates again and never retrains") {
  const Folder folder;
  REQUIRE(run(folder, {}).code == 0);
  const std::string cell = run_folders(folder / "runs/tiny").at(0);
  const json before = summary_of(cell);
  const std::string metrics = longshot::read_file(cell + "/metrics.jsonl");
  CHECK_THAT(run(folder, {"evaluate.lengths=[5]", "--dry-run"}).out,
             ContainsSubstring("to evaluate again"));
  REQUIRE(run(folder, {"evaluate.lengths=[5]"}).code == 0);
  REQUIRE(run_folders(folder / "runs/tiny").size() == 1);
  const json after = summary_of(cell);
  CHECK(after.at("parameters_sha256") == before.at("parameters_sha256"));
  CHECK(after.at("timing") == before.at("timing"));
  CHECK(longshot::read_file(cell + "/metrics.jsonl") == metrics);
  REQUIRE(after.at("evaluation").at("lengths").size() == 1);
  CHECK(after.at("evaluation").at("lengths")[0].at("length") == 5);
  // The size of an evaluation batch is no other question.
  CHECK_THAT(run(folder, {"evaluate.lengths=[5]", "evaluate.batch=3"}).err,
             ContainsSubstring("nothing to do"));
}

TEST_CASE("a damaged run folder: each file cut in half in turn") {
  const Folder folder;
  REQUIRE(run(folder, {}).code == 0);
  const std::string cell = run_folders(folder / "runs/tiny").at(0);
  const std::string result = result_of(cell);
  const auto mended = [&](const std::vector<std::string>& words) {
    const Outcome outcome = run(folder, words);
    INFO(outcome.all());
    CHECK(outcome.code == 0);
    CHECK(result_of(cell) == result);
  };
  for (const char* file : {"config.toml", "status.json", "summary.json", "cell.json"}) {
    INFO(file);
    truncate_file(cell + "/" + file);
    if (std::string(file) == "summary.json") {
      const Outcome report = run_longshot({"report", folder / "runs"});
      CHECK(report.code == 2);
      CHECK_THAT(report.err, ContainsSubstring("no finished run"));
    }
    mended({});
  }
  truncate_file(cell + "/checkpoint.safetensors");
  for (const char* command : {"eval", "predict"}) {
    const Outcome outcome = run_longshot({command, cell}, "1 0\n");
    CHECK(outcome.code == 2);
    CHECK_THAT(outcome.err, ContainsSubstring("checkpoint.safetensors"));
  }
  // What training goes on from: said, and started over when asked to.
  truncate_file(cell + "/training_state.safetensors");
  fs::remove(cell + "/summary.json");
  const Outcome refused = run(folder, {});
  INFO(refused.all());
  CHECK(refused.code == 2);
  CHECK_THAT(refused.err, ContainsSubstring("training_state.safetensors"));
  mended({"--retry-failed"});
  // Its records: said, and gone on without.
  const json trained = summary_of(cell);
  for (const char* file : {"metrics.jsonl", "timing.jsonl"}) {
    INFO(file);
    truncate_file(cell + "/" + file);
    fs::remove(cell + "/summary.json");
    const Outcome outcome = run(folder, {});
    INFO(outcome.all());
    CHECK(outcome.code == 0);
    CHECK_THAT(outcome.err, ContainsSubstring(file) && ContainsSubstring("lines in between"));
    CHECK(summary_of(cell).at("parameters_sha256") == trained.at("parameters_sha256"));
  }
}

TEST_CASE("eval stores beside the first result") {
  const Folder folder;
  REQUIRE(run(folder, {"encoding=rope"}).code == 0);
  const std::string cell = run_folders(folder / "runs/tiny").at(0);
  const std::string summary = longshot::read_file(cell + "/summary.json");
  for (const std::vector<std::string>& changes :
       std::vector<std::vector<std::string>>{{"evaluate.lengths=[9, 12]"},
                                             {"encoding.scaling=yarn", "encoding.factor=4"},
                                             {"positions=randomized", "positions.max=64"}}) {
    std::vector<std::string> words = {"eval", cell};
    words.insert(words.end(), changes.begin(), changes.end());
    for (int twice = 0; twice < 2; ++twice) {
      const Outcome outcome = run_longshot(words);
      INFO(outcome.all());
      CHECK(outcome.code == 0);
      CHECK_THAT(outcome.out, ContainsSubstring("in range"));
    }
  }
  CHECK(longshot::read_file(cell + "/summary.json") == summary);
  size_t stored = 0;
  for (const auto& entry : fs::directory_iterator(cell + "/evaluations")) {
    CHECK(json::parse(longshot::read_file(entry.path().string())).contains("lengths"));
    ++stored;
  }
  CHECK(stored == 3);
  const Outcome report = run_longshot({"report", cell});
  CHECK_THAT(report.out, ContainsSubstring("(scaling=yarn factor=4)") &&
                             ContainsSubstring("(positions=randomized max=64)"));

  Outcome outcome = run_longshot({"eval", cell, "train.steps=5"});
  CHECK(outcome.code == 2);
  CHECK_THAT(outcome.err, ContainsSubstring("training is over"));
  outcome = run_longshot({"eval", cell, "encoding=none"});  // another model than was trained
  CHECK(outcome.code == 2);
}

TEST_CASE("predict agrees with the evaluator and with the model itself, digit by digit") {
  const Folder folder;
  REQUIRE(run(folder, {"train.steps=60", "encoding=alibi"}).code == 0);
  const std::string cell = run_folders(folder / "runs/tiny").at(0);
  const longshot::RunConfig config = longshot::load_run(cell + "/config.toml");
  longshot::BuiltModel built = longshot::build_model(config, false);
  longshot::load_parameters(cell + "/checkpoint.safetensors", *built.encoder);
  const longshot::TaskSpec spec = built.task->spec();

  const json summary = summary_of(cell);
  for (const json& scored : summary.at("evaluation").at("lengths")) {
    const int64_t length = scored.at("length");
    std::string ids, characters, objects;
    std::vector<longshot::Example> examples(scored.at("samples").get<size_t>());
    for (size_t i = 0; i < examples.size(); ++i) {
      built.task->example({uint64_t(config.seed), longshot::Split::test, length, uint64_t(i), 0},
                          examples[i]);
      std::string list, word;
      for (const int32_t token : examples[i].input) {
        list += (list.empty() ? "" : ", ") + std::to_string(token);
        word += spec.input_symbols.at(size_t(token));
      }
      objects += "{\"input\": [" + list + "]}\n";
      characters += word + "\n";
      std::erase(list, ',');
      ids += list + "\n";
    }
    const Outcome from_ids = run_longshot({"predict", cell}, ids);
    REQUIRE(from_ids.code == 0);
    CHECK(run_longshot({"predict", cell}, objects).out == from_ids.out);
    const Outcome from_characters = run_longshot({"predict", cell}, characters);
    const Outcome exact = run_longshot({"predict", cell, "--logits"}, ids);

    std::istringstream lines(from_ids.out), words(from_characters.out), logits(exact.out);
    int64_t right = 0, targets = 0;
    for (const longshot::Example& example : examples) {
      std::string line, word, object;
      REQUIRE(std::getline(lines, line));
      REQUIRE(std::getline(words, word));
      REQUIRE(std::getline(logits, object));
      std::istringstream numbers(line);
      const json rows = json::parse(object).at("logits");
      REQUIRE(rows.size() == example.target.size());
      REQUIRE(word.size() == example.target.size());

      // The same forward pass, here.
      longshot::StepScope step(*built.context);
      longshot::NoRecordingScope no_recording(*built.context);
      built.context->set_step_state({});
      std::vector<int32_t> tokens = example.input;
      tokens.insert(tokens.end(), example.target.size(), int32_t(spec.placeholder_token));
      longshot::EncoderInput input;
      input.batch = 1;
      input.length = int64_t(tokens.size());
      input.tokens = tokens;
      input.output_begin = int64_t(example.input.size());
      input.outputs = int64_t(example.target.size());
      const std::vector<float> values =
          built.encoder->forward(built.encoder->prepare(input)).to_host<float>();

      for (size_t k = 0; k < example.target.size(); ++k) {
        int predicted = -1;
        numbers >> predicted;
        right += predicted == example.target[k];
        ++targets;
        CHECK(word[k] == spec.output_symbols.at(size_t(predicted)));
        size_t best = 0;
        for (size_t c = 0; c < rows[k].size(); ++c) {
          CHECK(float(rows[k][c].get<double>()) == values[k * rows[k].size() + c]);
          if (rows[k][c] > rows[k][best]) best = c;
        }
        CHECK(int(best) == predicted);
      }
    }
    CHECK(scored.at("targets") == targets);
    CHECK(scored.at("accuracy").get<double>() ==
          Approx(double(right) / double(targets)).epsilon(1e-12));
  }
}

TEST_CASE("predict names the line it cannot read") {
  const Folder folder;
  REQUIRE(run(folder, {"encoding=learned", "encoding.capacity=12"}).code == 0);
  const std::string cell = run_folders(folder / "runs/tiny").at(0);
  const std::pair<const char*, const char*> cases[] = {
      {"0 1 7\n", "token id 7"},
      {"0x1\n", "'x'"},
      {"\n", "empty"},
      {"{\"input\": [0, 1.5]}\n", "1.5 is no token id"},
      {"{\"input\": 3}\n", "input"},
      {"{\"inputs\": [0]}\n", "input"},
      {"{\"input\": [0, \n", "input"},
      {"{\"input\": [4294967296]}\n", "4294967296"}};
  for (const auto& [line, reason] : cases) {
    const Outcome outcome = run_longshot({"predict", cell}, std::string("0 1\n") + line);
    INFO(line << outcome.all());
    CHECK(outcome.code == 2);
    CHECK_THAT(outcome.err, ContainsSubstring("standard input:2: ") && ContainsSubstring(reason));
    CHECK(std::count(outcome.out.begin(), outcome.out.end(), '\n') == 1);  // the good line's answer
  }
}
