// Bad input through the real program: before anything is written, exit code 2 and a message that
// says what, where and what would be right.
#include "tests/catch.h"
#include "tests/experiments/program.h"

using namespace longshot_test;

namespace {

// Runs the tiny config with changes; expects a refusal before anything is written.
std::string refused(const std::vector<std::string>& words,
                    const std::string& config = tiny_config()) {
  const Folder folder;
  std::vector<std::string> command = {"run", folder.write("a.toml", config)};
  command.insert(command.end(), words.begin(), words.end());
  command.insert(command.end(), {"--out", folder / "runs"});
  const Outcome outcome = run_longshot(command);
  INFO(outcome.all());
  CHECK(outcome.code == 2);
  CHECK(outcome.out.empty());
  CHECK_FALSE(fs::exists(folder / "runs"));
  // The folder's name changes from run to run.
  std::string text = outcome.err;
  for (size_t at; (at = text.find(folder.path() + "/")) != std::string::npos;)
    text.erase(at, folder.path().size() + 1);
  return text;
}

std::string with(const std::string& from, const std::string& to) {
  std::string config = tiny_config();
  config.replace(config.find(from), from.size(), to);
  return config;
}

}  // namespace

TEST_CASE("keys of very many parts, FIFOs for data, a report into a run's folder are refused") {
  const Folder folder;
  std::string deep;
  for (int i = 0; i < 50000; ++i) deep += "a.";
  for (const std::string& text : {deep + "b = 1\n", "[" + deep + "b]\n"}) {
    const Outcome outcome = run_longshot({"run", folder.write("deep.toml", text), "--dry-run"});
    CHECK(outcome.code == 2);
    CHECK_THAT(outcome.err, ContainsSubstring("deep.toml:1: a key of 50001 parts"));
  }
  CHECK(shell("mkfifo " + (folder / "fifo")).code == 0);
  const Outcome fifo = run_longshot(
      {"run", folder.write("f.toml", "[task]\ntype = 'jsonl'\ntrain = 'fifo'\ntest = 'fifo'\n"),
       "--dry-run"});
  CHECK(fifo.code == 2);
  CHECK_THAT(fifo.err, ContainsSubstring("is not a regular file"));

  REQUIRE(
      run_longshot({"run", folder.write("a.toml", tiny_config()), "--out", folder / "runs"}).code ==
      0);
  const std::string cell = run_folders(folder / "runs/tiny").at(0);
  Outcome outcome = run_longshot({"report", cell, "--html", cell + "/checkpoint.safetensors"});
  CHECK(outcome.code == 2);
  CHECK_THAT(outcome.err, ContainsSubstring("lies in a run's folder"));
  outcome = run_longshot({"report", cell, "--html", folder / "x", "--csv", folder / "x"});
  CHECK(outcome.code == 2);
  CHECK_THAT(outcome.err, ContainsSubstring("named for both"));
  CHECK_THAT(run_longshot({"report", folder / "a.toml"}).err,
             ContainsSubstring("neither a folder nor a CSV file"));
  outcome = run_longshot({"run", folder / std::string(300, 'x')});
  CHECK(outcome.code == 2);
  // A spreadsheet's byte order mark.
  REQUIRE(run_longshot({"report", cell, "--csv", folder / "a.csv"}).code == 0);
  folder.write("b.csv", "\xEF\xBB\xBF" + longshot::read_file(folder / "a.csv"));
  CHECK(run_longshot({"report", folder / "b.csv"}).code == 0);
}

TEST_CASE("bad keys are refused at their place, with the nearest name (B34)") {
  CHECK_THAT(refused({}, with("steps = 6", "stpes = 6")), ContainsSubstring("a.toml:11:") &&
                                                              ContainsSubstring("stpes") &&
                                                              ContainsSubstring("steps"));
  CHECK_THAT(refused({}, with("dim = 8", "batch = 8")),
             ContainsSubstring("a.toml:6:") && ContainsSubstring("[train]"));
  CHECK_THAT(refused({}, with("steps = 6", "steps = \"6\"")),
             ContainsSubstring("a.toml:11:") && ContainsSubstring("train.steps") &&
                 ContainsSubstring("whole number"));
  CHECK_THAT(refused({}, with("batch = 4", "batch = 4\nbatch = 5")),
             ContainsSubstring("a.toml:13") && ContainsSubstring("batch"));
  CHECK_THAT(refused({"encoding=none", "encoding.base=500"}), ContainsSubstring("command line") &&
                                                                  ContainsSubstring("base") &&
                                                                  ContainsSubstring("rope"));
  CHECK_THAT(refused({"train.lr=1e-4x"}),
             ContainsSubstring("command line") && ContainsSubstring("train.lr"));
  CHECK_THAT(refused({"train.lr=nan"}), ContainsSubstring("train.lr"));
  CHECK_THAT(refused({"train"}),
             ContainsSubstring("train"));  // a word without '=' is a file that is not there
  CHECK_THAT(refused({"encoding=rotary"}), ContainsSubstring("rotary"));
  CHECK_THAT(refused({"encoding=ropee"}), ContainsSubstring("\"rope\""));
  CHECK_THAT(refused({"task=revers_string"}), ContainsSubstring("reverse_string"));
}

TEST_CASE("all ways to write a number give the same run (B33)") {
  std::string first;
  for (const char* lr : {"1e-4", "1E-4", "1.0e-4", "0.0001", "1e-04"}) {
    const Folder folder;
    const Outcome outcome =
        run_longshot({"run", folder.write("a.toml", tiny_config()), std::string("train.lr=") + lr,
                      "--dry-run", "--out", folder / "runs"});
    REQUIRE(outcome.code == 0);
    const size_t at = outcome.out.find("reverse_string-none-");
    REQUIRE(at != std::string::npos);
    const std::string cell = outcome.out.substr(at, 28);
    if (first.empty()) first = cell;
    CHECK(cell == first);
  }
}

TEST_CASE("impossible sizes, lengths and devices are refused before training") {
  CHECK_THAT(refused({"model.heads=3"}), ContainsSubstring("heads") && ContainsSubstring("8"));
  CHECK_THAT(refused({"encoding=rope", "encoding.width=3"}),
             ContainsSubstring("width") && ContainsSubstring("3"));
  CHECK_THAT(refused({"model.dim=6", "encoding=rope"}),
             ContainsSubstring("rope"));  // 3 lanes a head
  CHECK_THAT(refused({"encoding=learned", "encoding.capacity=10"}),
             ContainsSubstring("a.toml:") && ContainsSubstring("learned") &&
                 ContainsSubstring("capacity 10") && ContainsSubstring("12 tokens"));
  CHECK_THAT(refused({"evaluate.lengths=[0]"}), ContainsSubstring("evaluate.lengths"));
  CHECK_THAT(refused({"train.lengths.min=9"}), ContainsSubstring("lengths"));
  CHECK_THAT(refused({"--device", "gpu"}),
             ContainsSubstring("device.type") && ContainsSubstring("cuda:N"));
  CHECK_THAT(refused({"--device", "cuda:99"}), ContainsSubstring("cuda"));
  CHECK_THAT(refused({"task=text", "model.causal=true"}), ContainsSubstring("corpus"));
  CHECK_THAT(refused({"task=text", "task.corpus=not_there.txt", "model.causal=true"}),
             ContainsSubstring("not_there.txt"));
  CHECK_THAT(refused({"train.init_from=not_there.safetensors"}),
             ContainsSubstring("not_there.safetensors"));
}

TEST_CASE("sweeps without cells, or with a cell twice, are refused") {
  CHECK_THAT(refused({}, tiny_config() + "[sweep]\ngrid = { seed = [] }\n"),
             ContainsSubstring("a.toml:21:") && ContainsSubstring("empty"));
  CHECK_THAT(refused({}, tiny_config() + "[sweep]\ngrid = { seed = [1, 2, 1] }\n"),
             ContainsSubstring("seed"));
  CHECK_THAT(refused({}, tiny_config() + "[sweep]\ngrid = { encoding = [\"none\", \"ropee\"] }\n"),
             ContainsSubstring("\"rope\""));
  CHECK_THAT(refused({}, tiny_config() + "[sweep]\ngird = { seed = [1] }\n"),
             ContainsSubstring("grid"));
}

TEST_CASE("folders that cannot be read or written") {
  const Folder folder;
  const std::string config = folder.write("a.toml", tiny_config());
  const std::string file = folder.write("file", "");
  Outcome outcome = run_longshot({"run", config, "--out", file + "/runs"});
  CHECK(outcome.code == 2);
  CHECK_THAT(outcome.err, ContainsSubstring("cannot make the folder " + file + "/runs"));
  outcome = run_longshot({"run", folder / "missing.toml"});
  CHECK(outcome.code == 2);
  CHECK_THAT(outcome.err, ContainsSubstring("missing.toml") && ContainsSubstring("No such file"));
  for (const char* command : {"eval", "predict", "report"}) {
    outcome = run_longshot({command, folder / "missing"});
    CHECK(outcome.code == 2);
    CHECK_THAT(outcome.err, ContainsSubstring("missing: no such folder"));
  }
  outcome = run_longshot({"report", folder.path()});
  CHECK(outcome.code == 2);
  CHECK_THAT(outcome.err, ContainsSubstring("no finished run"));
  outcome = run_longshot({"eval", folder.path()});
  CHECK(outcome.code == 2);
  CHECK_THAT(outcome.err, ContainsSubstring("not a run folder"));
}

TEST_CASE("a full disk stops the run with a message; with room again it goes on") {
  const Folder folder;
  const std::string config = folder.write("a.toml", tiny_config());
  // The kernel's limit on a file's size stands in for a full disk: parameters no longer fit.
  const std::string command =
      program_path() + " run " + config + " model.dim=32 --threads 1 --out " + folder.path();
  Outcome outcome = shell("ulimit -f 8; exec " + command);
  INFO(outcome.all());
  CHECK(outcome.code == 1);
  CHECK_THAT(outcome.err, ContainsSubstring("cannot write") && ContainsSubstring("safetensors") &&
                              ContainsSubstring("the same command goes on"));
  outcome = shell("exec " + command);
  INFO(outcome.all());
  CHECK(outcome.code == 0);

  outcome = shell(program_path() + " list keys > /dev/full");
  CHECK(outcome.code == 1);
  CHECK_THAT(outcome.err, ContainsSubstring("cannot write") && ContainsSubstring("No space left"));
}

TEST_CASE("bad usage of the command line") {
  Outcome outcome = run_longshot({"rnu"});
  CHECK(outcome.code == 2);
  CHECK_THAT(outcome.err, ContainsSubstring("did you mean \"run\"?"));
  CHECK(Running({program_path()}).wait().code == 2);
  CHECK(run_longshot({"run"}).code == 2);
  CHECK(run_longshot({"run", "a.toml", "--jobs", "0"}).code == 2);
  CHECK(run_longshot({"run", "a.toml", "--no-such-option"}).code == 2);
  CHECK(run_longshot({"eval", "a", "b"}).code == 2);
  outcome = run_longshot({"list", "encoding"});
  CHECK(outcome.code == 2);
  CHECK_THAT(outcome.err, ContainsSubstring("encodings"));
  CHECK(run_longshot({"--help"}).code == 0);
  CHECK_THAT(run_longshot({"--version"}).out, ContainsSubstring("longshot "));
}

TEST_CASE("list names everything that is registered, with its options") {
  const Outcome overview = run_longshot({"list"});
  CHECK(overview.code == 0);
  for (const char* word :
       {"[task]", "[encoding]", "[positions]", "reverse_string", "rope", "randomized"})
    CHECK_THAT(overview.out, ContainsSubstring(word));
  CHECK_THAT(run_longshot({"list", "encodings"}).out,
             ContainsSubstring("base") && ContainsSubstring("10000.0"));
  CHECK_THAT(run_longshot({"list", "tasks"}).out, ContainsSubstring("corpus"));
  CHECK_THAT(run_longshot({"list", "positions"}).out, ContainsSubstring("draw_every"));
  CHECK_THAT(run_longshot({"list", "keys"}).out,
             ContainsSubstring("checkpoint_every") && ContainsSubstring("grid"));
}
