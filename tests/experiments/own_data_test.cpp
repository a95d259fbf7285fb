// Whole runs of the real program on a user's own data: text, causal and masked, by segments and by
// sliding window; sequences of mixed lengths from JSON lines; each of the three signals.
#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/catch.h"
#include "tests/experiments/program.h"

using namespace longshot_test;
using longshot::read_file;

namespace {

nlohmann::json summary_of(const Folder& folder, const std::string& out) {
  return nlohmann::json::parse(
      read_file(run_folders(folder / (out + "/own")).at(0) + "/summary.json"));
}

const char* kModel = R"(
[model]
dim = 8
layers = 1
heads = 2
ffn = 16
[train]
steps = 6
batch = 4
log_every = 2
evaluate_every = 3
)";

std::string text() {
  std::string result;
  for (int i = 0; i < 200; ++i)
    result += fmt::format("line {} of a text that means nothing\n", i * 37 % 101);
  return result;
}

std::string sequences() {
  std::string result;
  for (int i = 0; i < 60; ++i) {
    std::string input, target;
    for (int k = 0; k <= 2 + i % 7; ++k) {
      input += fmt::format("{}{}", k ? ", " : "", (i + k) % 5);
      target += fmt::format("{}{}", k ? ", " : "", (i + k) % 3);
    }
    result += fmt::format("{{\"input\": [{}], \"target\": [{}]}}\n", input, target);
  }
  return result;
}

}  // namespace

TEST_CASE(
    "text: causal and masked runs report loss, perplexity and bits per byte for both windows") {
  const Folder folder;
  folder.write("corpus.txt", text());
  const bool causal = GENERATE(true, false);
  INFO("causal " << causal);
  folder.write("a.toml", fmt::format(R"(name = "own"
[task]
type = "text"
corpus = "corpus.txt"
objective = "{}"
)",
                                     causal ? "causal" : "masked") +
                             kModel + R"(lengths = { draw = "fixed", length = 32 }
[encoding]
type = "rope"
[evaluate]
lengths = [32, 64]
window = "both"
stride = 16
)");
  const Outcome outcome = run_longshot({"run", folder / "a.toml", "--out", folder / "out",
                                        causal ? "model.causal=true" : "model.causal=false"});
  INFO(outcome.all());
  REQUIRE(outcome.code == 0);
  CHECK_THAT(outcome.out, ContainsSubstring("perplexity") && ContainsSubstring("bits per byte") &&
                              ContainsSubstring("sliding"));
  const auto summary = summary_of(folder, "out");
  const auto& lengths = summary.at("evaluation").at("lengths");
  REQUIRE(lengths.size() == 4);
  REQUIRE(summary.at("evaluation").at("in_range").size() == 2);
  for (const auto& each : lengths) {
    const double loss = each.at("loss");
    CHECK(loss > 1);
    CHECK(double(each.at("perplexity")) == Approx(std::exp(loss)));
    CHECK(double(each.at("bits_per_byte")) == Approx(loss / std::log(2.0)));
  }
  // 5 % of the text, and every byte but the first is predicted once by a sliding window, whatever
  // its length.
  const auto held_out = int64_t(double(text().size()) * 0.05) - 1;
  if (causal) {
    CHECK(lengths[2].at("targets") == held_out);
    CHECK(lengths[3].at("targets") == held_out);
    CHECK(lengths[0].at("targets") == held_out);
  }
}

TEST_CASE("text: a causal task needs a causal model") {
  const Folder folder;
  folder.write("corpus.txt", text());
  folder.write(
      "a.toml",
      std::string("name = \"own\"\n[task]\ntype = \"text\"\ncorpus = \"corpus.txt\"\n") + kModel);
  const Outcome outcome = run_longshot({"run", folder / "a.toml", "--out", folder / "out"});
  CHECK(outcome.code == 2);
  CHECK_THAT(outcome.all(), ContainsSubstring("model.causal = true"));
}

TEST_CASE("JSON lines of mixed lengths run from the file to the table") {
  const Folder folder;
  folder.write("data.jsonl", sequences());
  folder.write("a.toml", std::string(R"(name = "own"
[task]
type = "jsonl"
train = "data.jsonl"
test = "data.jsonl"
)") + kModel + "[evaluate]\nlengths = [5, 9, 30]\nby_position = true\n");
  int index = 0;
  // Lengths 3 .. 9 occur; training up to the default 40 is no mistake.
  for (const std::vector<std::string>& extra :
       {std::vector<std::string>{},
        {"train.lengths.draw=sequence"},
        {"task.target=placeholders"},
        {"task.target=placeholders", "train.lengths.draw=sequence", "task.valid_fraction=0"}}) {
    std::vector<std::string> words = {"run", folder / "a.toml", "--out",
                                      folder / std::to_string(index)};
    words.insert(words.end(), extra.begin(), extra.end());
    const Outcome outcome = run_longshot(words);
    INFO(outcome.all());
    REQUIRE(outcome.code == 0);
    const auto evaluation = summary_of(folder, std::to_string(index++)).at("evaluation");
    CHECK(evaluation.at("in_range").at(0).at("samples") == 60);
    CHECK(evaluation.at("lengths").at(0).at("samples") == 9);  // i % 7 == 2
    CHECK(evaluation.at("lengths").at(0).at("targets") == 45);
    CHECK(evaluation.at("lengths").at(0).at("position_accuracy").size() == 5);
    // No sequence has 30 tokens: nothing was measured, and that is no loss of 0.
    CHECK(evaluation.at("lengths").at(2).at("samples") == 0);
    CHECK(evaluation.at("lengths").at(2).at("loss").is_null());
  }
  // A result with nulls is read again.
  const Outcome report = longshot_test::shell(program_path() + " report " + (folder / "0"));
  CHECK(report.code == 0);
}

namespace {

// One line a length from `low` to `high`, `times` over; the class is 1 for seven lines of ten.
std::string classes(int low, int high, int times, int step = 1) {
  std::string result;
  int line = 0;
  for (int i = 0; i < times; ++i)
    for (int length = low; length <= high; length += step, ++line) {
      std::string input;
      for (int k = 0; k < length; ++k) input += fmt::format("{}{}", k ? ", " : "", (i + k) % 3);
      result += fmt::format("{{\"input\": [{}], \"target\": {}}}\n", input, int(line % 10 < 7));
    }
  return result;
}

const char* kOwn = R"(name = "own"
[task]
type = "jsonl"
train = "train.jsonl"
test = "test.jsonl"
target = "per_sequence"
)";

}  // namespace

// R1.1, R1.2, R1.3, R1.4, R1.10, R3.9, from the file to the table.
TEST_CASE("own data: what the numbers are of is said, and what is missing is no number") {
  const Folder folder;
  folder.write("train.jsonl", classes(2, 10, 12, 2));
  folder.write("test.jsonl", classes(11, 15, 4));
  folder.write("a.toml", std::string(kOwn) + kModel +
                             "lengths = { min = 1, max = 10 }\n[evaluate]\nlengths = [11, 14, 30]\n"
                             "[sweep]\ngrid = { seed = [1, 2, 3] }\n");
  const std::vector<std::string> run = {"run", folder / "a.toml", "--out", folder / "out"};
  std::vector<std::string> dry = run;
  dry.push_back("--dry-run");
  Outcome outcome = run_longshot(dry);
  INFO(outcome.all());
  REQUIRE(outcome.code == 0);
  CHECK_THAT(outcome.out, ContainsSubstring("the training lines have lengths 2, 4, 6, 8, 10"));
  CHECK_THAT(outcome.out, ContainsSubstring("the test lines have none of length 30"));
  CHECK_THAT(outcome.out, ContainsSubstring("in range is measured on the validation lines"));
  outcome = run_longshot(run);
  REQUIRE(outcome.code == 0);
  CHECK_THAT(outcome.err, ContainsSubstring("in range is measured on the validation lines"));
  CHECK_THAT(outcome.out, ContainsSubstring("validation part") &&
                              ContainsSubstring("No test samples of length 30.") &&
                              ContainsSubstring("50.0 to 100.0 by length") &&
                              !ContainsSubstring("nan"));
  const auto evaluation = summary_of(folder, "out").at("evaluation");
  CHECK(evaluation.at("in_range_split") == "validation");
  CHECK(evaluation.at("in_range").at(0).at("samples") == 6);  // a tenth of 60 lines
  // Four lines of length 11: of the lines 0, 5, 10, 15 the classes are 1, 1, 1, 1; of length 14
  // they are lines 3, 8, 13, 18 with classes 1, 0, 1, 0.
  CHECK(evaluation.at("lengths").at(0).at("constant") == 1.0);
  CHECK(evaluation.at("lengths").at(1).at("constant") == 0.5);
  CHECK(evaluation.at("lengths").at(2).at("samples") == 0);

  // Nothing of the training lengths at all: no verdict.
  outcome =
      run_longshot({"run", folder / "a.toml", "--out", folder / "none", "task.valid_fraction=0"});
  REQUIRE(outcome.code == 0);
  CHECK_THAT(outcome.err, ContainsSubstring("no in-range data"));
  CHECK_THAT(outcome.out, ContainsSubstring("no in-range data") && !ContainsSubstring("nan") &&
                              !ContainsSubstring("extrapolates "));
  const std::string cell = run_folders(folder / "none/own").at(0);
  outcome = run_longshot({"eval", cell});
  CHECK(outcome.code == 0);
  CHECK_THAT(outcome.out, ContainsSubstring("no samples") && !ContainsSubstring("nan"));
}

TEST_CASE("eval notices data that changed since it was trained on, and options that are not its") {
  const Folder folder;
  folder.write("train.jsonl", classes(2, 6, 12));
  folder.write("test.jsonl", classes(7, 9, 4));
  folder.write("a.toml", std::string(kOwn) + kModel + "[evaluate]\nlengths = [7]\n");
  REQUIRE(run_longshot({"run", folder / "a.toml", "--out", folder / "out"}).code == 0);
  const std::string cell = run_folders(folder / "out/own").at(0);
  REQUIRE(run_longshot({"eval", cell}).code == 0);
  // Shortened: lines that were trained on would now be the last tenth, the validation part.
  folder.write("train.jsonl", classes(2, 6, 9));
  Outcome outcome = run_longshot({"eval", cell});
  CHECK(outcome.code == 2);
  CHECK_THAT(outcome.err, ContainsSubstring("have changed since it was trained"));
  outcome = run_longshot({"eval", cell, "task.test=" + folder / "test.jsonl"});
  CHECK(outcome.code == 0);
  CHECK_THAT(outcome.err, ContainsSubstring("have changed since it was trained"));
  outcome = run_longshot({"eval", cell, "task.pool=first"});
  CHECK(outcome.code == 2);
  CHECK_THAT(outcome.err, ContainsSubstring("the task's options are what was trained"));
}

TEST_CASE("samples lie evenly over a file that holds more") {
  const Folder folder;
  // Twenty lines of one length; the first ten are of class 0, the others of class 1.
  std::string lines;
  for (int i = 0; i < 20; ++i)
    lines += fmt::format("{{\"input\": [1, 0, 1], \"target\": {}}}\n", i / 10);
  folder.write("train.jsonl", lines);
  folder.write("test.jsonl", lines);
  folder.write("a.toml", std::string(kOwn) + kModel +
                             "[evaluate]\nlengths = [3]\nsamples = 4\nin_range_samples = 4\n");
  REQUIRE(run_longshot({"run", folder / "a.toml", "--out", folder / "out"}).code == 0);
  const auto evaluation = summary_of(folder, "out").at("evaluation");
  // Lines 0, 5, 10 and 15: half of each class.
  CHECK(evaluation.at("lengths").at(0).at("samples") == 4);
  CHECK(evaluation.at("lengths").at(0).at("constant") == 0.5);
  CHECK(evaluation.at("in_range").at(0).at("constant") == 0.5);
}

// R3.6
TEST_CASE("later evaluations stand apart and can be removed; cells of another config are marked") {
  const Folder folder;
  folder.write("a.toml", tiny_config());
  REQUIRE(run_longshot({"run", folder / "a.toml", "--out", folder / "out"}).code == 0);
  const std::string cell = run_folders(folder / "out/tiny").at(0);
  REQUIRE(run_longshot({"eval", cell, "evaluate.lengths=[12]"}).code == 0);
  Outcome outcome = run_longshot({"report", folder / "out"});
  // The run's own mean beyond is not moved by the other evaluation's lengths.
  CHECK_THAT(outcome.out,
             ContainsSubstring("(lengths=[12])") && ContainsSubstring("runs evaluated again"));
  const size_t own = outcome.out.find("\nnone "), again = outcome.out.find("\nnone (lengths");
  REQUIRE(own != std::string::npos);
  CHECK(own < again);
  CHECK(run_longshot({"eval", cell, "--forget", "nothing"}).code == 2);
  outcome = run_longshot({"eval", cell, "--forget", "evaluate.lengths=[12]"});
  CHECK(outcome.code == 0);
  CHECK_THAT(outcome.out, ContainsSubstring("1 later evaluation removed"));
  CHECK(run_longshot({"report", folder / "out"}).out.find("evaluated again") == std::string::npos);

  outcome = run_longshot({"run", folder / "a.toml", "train.lr=0.5", "--out", folder / "out"});
  CHECK(outcome.code == 0);
  CHECK_THAT(outcome.out, ContainsSubstring("lr 0.001 [not in this config]") &&
                              !ContainsSubstring("lr 0.5 [not"));
}

TEST_CASE("the run's log lists what decays and what does not (B26)") {
  const Folder folder;
  folder.write("a.toml", tiny_config());
  REQUIRE(run_longshot({"run", folder / "a.toml", "--out", folder / "out"}).code == 0);
  const std::string log = read_file(run_folders(folder / "out/tiny").at(0) + "/log.txt");
  const size_t with = log.find("with weight decay: "), without = log.find("without weight decay: ");
  REQUIRE(with != std::string::npos);
  REQUIRE(without != std::string::npos);
  const std::string decayed = log.substr(with, log.find('\n', with) - with);
  const std::string plain = log.substr(without, log.find('\n', without) - without);
  CHECK_THAT(decayed, ContainsSubstring("embedding.weight") &&
                          ContainsSubstring("block.*.attention.qkv.weight") &&
                          !ContainsSubstring("bias") && !ContainsSubstring("norm"));
  CHECK_THAT(plain, ContainsSubstring("block.*.ffn.up.bias") && ContainsSubstring("norm") &&
                        !ContainsSubstring("qkv.weight"));
}

TEST_CASE("SIGINT, SIGTERM and SIGUSR1 save and stop with 75") {
  const int number = GENERATE(SIGINT, SIGTERM, SIGUSR1);
  const Folder folder;
  folder.write("a.toml", tiny_config());
  Running running(longshot_words({"run", folder / "a.toml", "--out", folder / "out",
                                  "train.steps=2000000", "train.checkpoint_every=0"}));
  REQUIRE(wait_for(running, [&] {
    if (!fs::exists(folder / "out/tiny")) return false;
    const auto folders = run_folders(folder / "out/tiny");
    return !folders.empty() && fs::exists(folders[0] + "/metrics.jsonl") &&
           fs::file_size(folders[0] + "/metrics.jsonl") > 0;
  }));
  running.signal(number);
  const Outcome outcome = running.wait();
  INFO(outcome.all());
  CHECK(outcome.code == 75);
  CHECK(fs::exists(run_folders(folder / "out/tiny").at(0) + "/training_state.safetensors"));
}
