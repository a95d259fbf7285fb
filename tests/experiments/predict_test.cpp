// `longshot predict` through the real program: answers, text, what it warns of, what it refuses,
// and that it (and eval, and a second run) does without the data that the model was trained on.
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <sys/stat.h>

#include "experiments/load.h"
#include "experiments/run_cell.h"
#include "tests/catch.h"
#include "tests/experiments/program.h"

using namespace longshot_test;
using nlohmann::json;

namespace {

const char* kRest = R"(
[model]
dim = 8
layers = 1
heads = 2
ffn = 16
[encoding]
type = "alibi"
[train]
steps = 4
batch = 4
evaluate_every = 0
)";

// A run of a few steps; its cell's folder.
std::string trained(const Folder& folder, const std::string& task, const std::string& lengths,
                    const std::string& evaluate, std::vector<std::string> more = {}) {
  folder.write("a.toml", "name = \"own\"\n[task]\n" + task + kRest + "lengths = " + lengths +
                             "\n[evaluate]\nsamples = 16\nin_range_samples = 8\nlengths = " +
                             evaluate + "\n");
  more.insert(more.begin(), {"run", folder / "a.toml", "--out", folder / "out"});
  const Outcome outcome = run_longshot(more);
  INFO(outcome.all());
  REQUIRE(outcome.code == 0);
  return run_folders(folder / "out/own").at(0);
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::string text_of(int lines) {
  std::string result;
  for (int i = 0; i < lines; ++i) result += fmt::format("line {} of a text\n", i * 37 % 101);
  return result;
}

}  // namespace

TEST_CASE("predict on a causal task scores what eval says (R1.7)") {
  const Folder folder;
  const std::string cell =
      trained(folder, "type = \"copy\"\nsymbols = 2\n", "{ min = 1, max = 2 }", "[1, 2]",
              {"model.causal=true", "train.steps=150", "train.lr=0.01"});
  const longshot::RunConfig config = longshot::load_run(cell + "/config.toml");
  const auto task = longshot::make_task("copy", config.task.options);
  const json summary = json::parse(longshot::read_file(cell + "/summary.json"));
  for (const json& scored : summary.at("evaluation").at("lengths")) {
    std::string characters, ids, objects;
    std::vector<std::string> wanted;
    const auto samples = scored.at("samples").get<uint64_t>();
    for (uint64_t i = 0; i < samples; ++i) {
      longshot::Example example;
      task->example({uint64_t(config.seed), longshot::Split::test, scored.at("length"), i, 0},
                    example);
      const size_t prompt = example.input.size() - example.target.size() - 1;
      std::string word, list;
      for (size_t k = 1; k <= prompt; ++k) {
        word += example.input[k] == 0 ? 'a' : 'b';
        list += fmt::format("{}{}", k > 1 ? ", " : "", example.input[k]);
      }
      characters += word + "\n";
      ids += "[" + list + "]\n";
      wanted.push_back(word);  // a copy; END is not shown
    }
    const Outcome outcome = run_longshot({"predict", cell}, characters);
    INFO(outcome.all());
    REQUIRE(outcome.code == 0);
    CHECK(outcome.err.empty());
    const std::vector<std::string> answers = lines_of(outcome.out);
    REQUIRE(answers.size() == samples);
    int64_t right = 0;
    for (size_t i = 0; i < answers.size(); ++i) right += answers[i] == wanted[i];
    CHECK(scored.at("sequence_accuracy").get<double>() == Approx(double(right) / double(samples)));

    // The same answers as JSON, and that JSON as input.
    const Outcome as_json = run_longshot({"predict", cell, "--json", "--logits"}, ids);
    const std::vector<std::string> objects_out = lines_of(as_json.out);
    REQUIRE(objects_out.size() == samples);
    for (size_t i = 0; i < samples; ++i) {
      const json object = json::parse(objects_out[i]);
      const size_t written = object.at("predictions").size() + (object.at("ended") ? 1 : 0);
      CHECK(object.at("logits").size() == written);
      if (answers[i].find_first_not_of("ab") == std::string::npos)
        CHECK(object.at("text") == answers[i]);
    }
    CHECK(run_longshot({"predict", cell, "--json", "--logits"}, as_json.out).out == as_json.out);
  }
  // --raw: BEGIN a SEPARATOR as ids (END 2, BEGIN 3, SEPARATOR 4), a prediction for each.
  const Outcome raw = run_longshot({"predict", cell, "--raw"}, "3 0 4\n");
  CHECK(std::count(raw.out.begin(), raw.out.end(), ' ') == 2);
  const Outcome own = run_longshot({"predict", cell}, "3 0 4\n");
  CHECK(own.code == 2);
  CHECK_THAT(own.err,
             ContainsSubstring("standard input:1: token id 3") && ContainsSubstring("--raw"));
}

TEST_CASE("predict says where answers can differ from an evaluation's") {
  const Folder folder;
  const std::string cell =
      trained(folder, "type = \"copy\"\n", "{ min = 1, max = 2 }", "[2]",
              {"model.causal=true", "positions=randomized", "positions.max=32"});
  const Outcome outcome = run_longshot({"predict", cell}, "ab\nab\n");
  INFO(outcome.all());
  CHECK(outcome.code == 0);
  const std::string says = "positions depend on a sequence's length";
  CHECK_THAT(outcome.err, ContainsSubstring(says));
  CHECK(outcome.err.find(says) == outcome.err.rfind(says));
  CHECK(run_longshot({"predict", cell, "positions.evaluate=off"}, "ab\n").err.empty());
  CHECK(run_longshot({"predict", cell, "--raw"}, "ab\n").err.empty());
}

TEST_CASE("text: a line's loss is eval's, --tokens continues it, unseen bytes are named (R1.12)") {
  const Folder folder;
  folder.write("train.txt", text_of(60));
  folder.write("test.txt", "line 7 of a text");  // 16 bytes: one segment of 15 predictions
  const std::string cell =
      trained(folder,
              fmt::format("type = \"text\"\ntrain_file = \"{}\"\ntest_file = \"{}\"\n",
                          folder / "train.txt", folder / "test.txt"),
              "{ draw = \"fixed\", length = 8 }", "[15]", {"model.causal=true"});
  const json summary = json::parse(longshot::read_file(cell + "/summary.json"));
  const double loss = summary.at("evaluation").at("lengths").at(0).at("loss");
  Outcome outcome = run_longshot({"predict", cell, "--loss"}, "line 7 of a text\n");
  CHECK(json::parse(outcome.out).at("loss").get<double>() == Approx(loss).margin(1e-6));
  CHECK(outcome.err.empty());
  outcome = run_longshot({"predict", cell, "--loss", "--json"}, "line 7 of a text\n");
  CHECK(json::parse(outcome.out).at("loss").get<double>() == Approx(loss).margin(1e-6));
  CHECK(json::parse(outcome.out).at("predictions").size() == 16);
  CHECK(run_longshot({"predict", cell, "--loss"}, "a\n").code == 2);

  // Each byte of a continuation is the prediction at the end of what stands before it.
  outcome = run_longshot({"predict", cell, "--tokens", "3", "--json"}, "line\n");
  const std::vector<int> written = json::parse(outcome.out).at("predictions");
  REQUIRE(written.size() == 3);
  std::vector<int> so_far = {'l', 'i', 'n', 'e'};
  for (const int byte : written) {
    const std::string input = json({{"input", so_far}}).dump() + "\n";
    const json next = json::parse(run_longshot({"predict", cell, "--json"}, input).out);
    CHECK(next.at("predictions").back() == byte);
    so_far.push_back(byte);
  }

  outcome = run_longshot({"predict", cell}, "(a)\nline\n(b)\n");
  CHECK(outcome.code == 0);
  CHECK_THAT(outcome.err, ContainsSubstring("line 1 of standard input has what the training data "
                                            "never held: '(' (40), ')' (41)") &&
                              ContainsSubstring("line 3") && ContainsSubstring("'b' (98)") &&
                              !ContainsSubstring("line 2"));
  CHECK(outcome.err.find("(40)") == outcome.err.rfind("(40)"));
}

TEST_CASE("predict that nobody can read, or that cannot read on, says so") {
  const Folder folder;
  REQUIRE(
      run_longshot({"run", folder.write("a.toml", tiny_config()), "--out", folder / "runs"}).code ==
      0);
  const std::string cell = run_folders(folder / "runs/tiny").at(0);
  const std::string predict = "'" + program_path() + "' predict " + cell + " --threads 1";
  Outcome outcome = shell("printf '0 1\\n1 0\\n' | " + predict + " > /dev/full");
  CHECK(outcome.code == 1);
  CHECK_THAT(outcome.err, ContainsSubstring("cannot write to standard output"));
  // Its reader gone, it ends, though its input never does.
  CHECK(shell("yes '0 1' | " + predict + " | head -n 1").code == 0);
  outcome = shell(predict + " < " + folder.path());
  CHECK(outcome.code == 1);
  CHECK_THAT(outcome.err, ContainsSubstring("cannot read standard input"));
}

TEST_CASE("predict flushes each line before it reads the next") {
  const Folder folder;
  const std::string cell = trained(folder, "type = \"reverse_string\"\n", "{ max = 4 }", "[4]");
  REQUIRE(mkfifo((folder / "in").c_str(), 0600) == 0);
  Running running({"/bin/sh", "-c",
                   program_path() + " predict " + cell + " < " + (folder / "in") + " > " +
                       (folder / "out.txt")});
  std::ofstream input(folder / "in");
  for (size_t lines = 1; lines <= 2; ++lines) {
    input << "01" << std::endl;
    CHECK(wait_for(running, [&] {
      return fs::exists(folder / "out.txt") &&
             lines_of(longshot::read_file(folder / "out.txt")).size() == lines;
    }));
  }
  input.close();
  CHECK(running.wait().code == 0);
}

TEST_CASE("a line beyond the model is an error of its own, not bad input") {
  const Folder folder;
  const std::string cell = trained(folder, "type = \"reverse_string\"\n", "{ max = 4 }", "[4]",
                                   {"encoding=learned", "encoding.capacity=12"});
  Outcome outcome = run_longshot({"predict", cell}, "01\n0101010\n");
  CHECK(outcome.code == 2);
  CHECK_THAT(outcome.err, ContainsSubstring("line 2 of standard input: 14 tokens") &&
                              ContainsSubstring("capacity of 12") &&
                              !ContainsSubstring("standard input:2:"));
  CHECK(lines_of(outcome.out).size() == 1);
  CHECK(run_longshot({"predict", cell}, "010101\n").code == 0);
}

TEST_CASE("predict and eval do without the training data, and a finished run stands (R2.8)") {
  const Folder folder;
  const bool text = GENERATE(true, false);
  std::string task, test, line, override_word;
  if (text) {
    folder.write("train", text_of(60));
    folder.write("test", text_of(9));
    folder.write("other", text_of(12));
    task = fmt::format("type = \"text\"\ntrain_file = \"{}\"\ntest_file = \"{}\"\n",
                       folder / "train", folder / "test");
    line = "line 7\n";
    override_word = "task.test_file=";
  } else {
    // Placeholders, as many as the examples have; an alphabet beyond ASCII.
    const std::string data =
        "{\"input\": \"a\u00e9b\", \"target\": \"\u00e9\"}\n{\"input\": \"b\u00e9\", \"target\": "
        "\"ab\"}\n";
    folder.write("train", data + data);
    folder.write("test", data);
    folder.write("other", data + data);
    folder.write("strange", "{\"input\": \"a\u00f6\", \"target\": \"ab\"}\n");
    task = fmt::format(
        "type = \"jsonl\"\ntrain = \"{}\"\ntest = \"{}\"\nvalid_fraction = 0\nstrings = "
        "\"character\"\ntarget = \"placeholders\"\n",
        folder / "train", folder / "test");
    line = "a\u00e9b\nb\u00e9\n";
    override_word = "task.test=";
  }
  const std::string lengths = text ? "{ draw = \"fixed\", length = 8 }" : "{ max = 3 }";
  const std::vector<std::string> more =
      text ? std::vector<std::string>{"model.causal=true"} : std::vector<std::string>{};
  const std::string cell = trained(folder, task, lengths, text ? "[8]" : "[2]", more);
  const Outcome before = run_longshot({"predict", cell}, line);
  const Outcome eval_before = run_longshot({"eval", cell});
  REQUIRE(before.code == 0);
  REQUIRE(eval_before.code == 0);

  fs::remove(folder / "train");
  CHECK(run_longshot({"eval", cell}).out == eval_before.out);
  fs::remove(folder / "test");
  const Outcome after = run_longshot({"predict", cell}, line);
  INFO(after.all());
  CHECK(after.code == 0);
  CHECK(after.out == before.out);
  CHECK(after.err == before.err);
  Outcome outcome = run_longshot({"eval", cell});
  CHECK(outcome.code == 2);
  CHECK_THAT(outcome.err, ContainsSubstring((folder / "test") + ": cannot open") &&
                              ContainsSubstring(override_word + "FILE"));
  outcome = run_longshot({"eval", cell, override_word + (folder / "other")});
  INFO(outcome.all());
  CHECK(outcome.code == 0);
  if (!text) {
    outcome = run_longshot({"eval", cell, override_word + (folder / "strange")});
    CHECK(outcome.code == 2);
    CHECK_THAT(outcome.err, ContainsSubstring("strange:1: \u00f6 is not among the characters"));
    outcome = run_longshot({"predict", cell}, "a\u00f6\n");
    CHECK(outcome.code == 2);
    CHECK_THAT(outcome.err, ContainsSubstring("standard input:1: '\u00f6'"));
  }

  std::vector<std::string> again = {"run", folder / "a.toml", "--out", folder / "out"};
  again.insert(again.end(), more.begin(), more.end());
  outcome = run_longshot(again);
  INFO(outcome.all());
  CHECK(outcome.code == 0);
  CHECK_THAT(outcome.err, ContainsSubstring("is gone") && ContainsSubstring("nothing to do"));
  CHECK(run_folders(folder / "out/own").size() == 1);
  again.emplace_back(text ? "evaluate.lengths=[9]" : "evaluate.lengths=[3]");
  outcome = run_longshot(again);
  CHECK(outcome.code == 2);
  CHECK_THAT(outcome.err, ContainsSubstring("longshot eval " + cell));
  again.back() = "seed=2";  // not trained: its data is needed
  CHECK(run_longshot(again).code == 2);

  // A run of an earlier version has no record, and needs its data.
  fs::remove(cell + "/task.json");
  outcome = run_longshot({"predict", cell}, line);
  CHECK(outcome.code == 2);
  CHECK_THAT(outcome.err, ContainsSubstring(folder / "train"));
}

TEST_CASE("list shows one task, encoding or sampler") {
  for (const auto& [what, name, other] :
       {std::tuple("tasks", "copy", "sorting"), std::tuple("encodings", "rope", "alibi"),
        std::tuple("positions", "shifted", "randomized")}) {
    const Outcome outcome = run_longshot({"list", what, name});
    INFO(outcome.all());
    CHECK(outcome.code == 0);
    CHECK_THAT(outcome.out, ContainsSubstring(name));
    CHECK_THAT(outcome.out, !ContainsSubstring(other));
  }
  const Outcome outcome = run_longshot({"list", "encodings", "rop"});
  CHECK(outcome.code == 2);
  CHECK_THAT(outcome.err, ContainsSubstring("did you mean \"rope\"?"));
  CHECK(run_longshot({"list", "keys", "rope"}).code == 2);
}
