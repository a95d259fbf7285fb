// The program among broken streams, odd file names and files that people name.
#include <sys/stat.h>

#include "tests/catch.h"
#include "tests/experiments/program.h"

using namespace longshot_test;
using longshot::read_file;

namespace {

std::string two_cells() {
  return tiny_config() + "[sweep]\ngrid = { seed = [1, 2] }\n";
}

std::string command(const Folder& folder, const std::string& rest) {
  return "exec " + program_path() + " run " + folder / "a.toml --threads 1 --out " +
         folder / "runs" + " " + rest;
}

size_t results(const Folder& folder) {
  size_t count = 0;
  if (!fs::exists(folder / "runs/tiny")) return 0;
  for (const std::string& cell : run_folders(folder / "runs/tiny"))
    count += fs::exists(cell + "/summary.json");
  return count;
}

// Bytes that a file system takes and UTF-8 does not know.
const std::string kByte = "a\xff";

}  // namespace

TEST_CASE("streams: a log that nobody reads stops no run") {
  const Folder folder;
  folder.write("a.toml", two_cells());
  const std::string jobs = GENERATE("", " --jobs 2");
  const std::string where = GENERATE("2>&-", "2>/dev/full", "<&- 2>&-", "2> >(exit 0)");
  const Outcome outcome = Running({"/bin/bash", "-c", command(folder, where + jobs)}).wait();
  INFO(where << jobs << "\n" << outcome.all());
  CHECK(outcome.code == 0);
  CHECK(results(folder) == 2);
  // What was closed is not given to a file: no message stands in the data.
  for (const std::string& cell : run_folders(folder / "runs/tiny"))
    CHECK_THAT(read_file(cell + "/config.toml"), !ContainsSubstring("beyond"));
}

TEST_CASE("streams: a result that nobody receives is kept, and the exit code says so") {
  const Folder folder;
  folder.write("a.toml", two_cells());
  const std::string where = GENERATE(">&-", ">/dev/full", "<&- >&- 2>&-");
  const Outcome outcome = shell(command(folder, where));
  INFO(where << "\n" << outcome.all());
  CHECK(outcome.code == 1);
  CHECK(results(folder) == 2);
  CHECK(fs::exists(folder / "runs/tiny/report.html"));
  if (where.find("2>") == std::string::npos)
    CHECK_THAT(outcome.err, ContainsSubstring("cannot write to standard output"));
  // Also where the numbers are shown before they are written.
  const std::string cell = run_folders(folder / "runs/tiny").at(0);
  CHECK(shell(program_path() + " eval " + cell + " >/dev/full").code == 1);
  CHECK(fs::exists(cell + "/evaluations"));
  CHECK(shell(program_path() + " report " + cell + " --csv " + folder / "a.csv" + " >&-").code ==
        1);
  CHECK(fs::exists(folder / "a.csv"));
}

TEST_CASE("streams: the reader of a pipe that goes away is no end of the run") {
  const Folder folder;
  folder.write("a.toml", two_cells());
  const std::string end = " | true; exit ${PIPESTATUS[0]}";
  const Outcome outcome =
      Running({"/bin/bash", "-c", "(" + command(folder, "train.steps=300 2>&1") + ")" + end})
          .wait();
  INFO(outcome.all());
  CHECK(outcome.code == 1);
  CHECK(results(folder) == 2);
}

TEST_CASE("streams: a hang-up saves and stops with 75, under nohup it changes nothing") {
  const Folder folder;
  folder.write("a.toml", tiny_config());
  const bool nohup = GENERATE(false, true);
  const std::string steps = nohup ? "3000" : "2000000";
  std::vector<std::string> words =
      longshot_words({"run", folder / "a.toml", "--out", folder / "out", "train.steps=" + steps});
  if (nohup) words.insert(words.begin(), {"/bin/sh", "-c", "trap '' HUP; exec \"$@\"", "sh"});
  Running running(words);
  REQUIRE(wait_for(running, [&] {
    if (!fs::exists(folder / "out/tiny")) return false;
    const auto folders = run_folders(folder / "out/tiny");
    return !folders.empty() && fs::exists(folders[0] + "/metrics.jsonl") &&
           fs::file_size(folders[0] + "/metrics.jsonl") > 0;
  }));
  running.signal(SIGHUP);
  const Outcome outcome = running.wait();
  INFO(outcome.all());
  const std::string cell = run_folders(folder / "out/tiny").at(0);
  CHECK(fs::exists(cell + "/training_state.safetensors"));
  CHECK(outcome.code == (nohup ? 0 : 75));
  CHECK(fs::exists(cell + "/summary.json") == nohup);
  if (nohup) return;
  // R3.10: how far it has come is said before it goes on.
  const Outcome dry = run_longshot(
      {"run", folder / "a.toml", "--out", folder / "out", "train.steps=" + steps, "--dry-run"});
  CHECK_THAT(dry.out, ContainsSubstring("interrupted at step ") &&
                          ContainsSubstring(" of 2000000") && !ContainsSubstring(" step 0 of") &&
                          ContainsSubstring(folder / "out/tiny"));
}

TEST_CASE("streams: a dry run names the output folder from the root") {
  const Folder folder;
  folder.write("a.toml", tiny_config());
  const Outcome outcome =
      shell("cd " + folder.path() + " && " + program_path() + " run a.toml --dry-run --out runs");
  CHECK_THAT(outcome.out, ContainsSubstring("1 cell in " + folder / "runs/tiny\n"));
}

TEST_CASE("streams: the first line counts the threads once") {
  const Folder folder;
  folder.write("a.toml", two_cells());
  const std::string only = GENERATE("", "sweep.grid.seed=[1]");
  std::vector<std::string> words = {"run", folder / "a.toml", "--out", folder / "runs"};
  if (!only.empty()) words.push_back(only);
  const std::string err = run_longshot(words).err;
  const std::string line = err.substr(0, err.find('\n'));
  INFO(line);
  REQUIRE(line.find("1 thread") != std::string::npos);
  CHECK(line.find("1 thread") == line.rfind("1 thread"));
}

TEST_CASE("streams: bytes that are not UTF-8 are shown escaped, and no file's name is lost") {
  const Folder folder;
  folder.write("a.toml", tiny_config());
  const std::string escaped = "a\\xff";
  const auto refused = [&](std::vector<std::string> words, const std::string& text) {
    words.insert(words.begin(), {"run", folder / "a.toml", "--out", folder / "runs"});
    const Outcome outcome = run_longshot(words);
    INFO(outcome.all());
    CHECK(outcome.code == 2);
    CHECK_THAT(outcome.err, ContainsSubstring(text) && ContainsSubstring(escaped));
    CHECK_FALSE(fs::exists(folder / "runs"));
  };
  refused({"train.init_from=" + folder.path() + "/" + kByte}, "train.init_from");
  refused({"name=" + kByte}, "name");
  refused({folder / kByte}, "No such file");

  // A config in a folder, or of a name, that is not UTF-8.
  fs::create_directory(folder / kByte);
  std::string config = tiny_config();
  const std::string inside = folder.write(kByte + "/b.toml", config);
  Outcome outcome = run_longshot({"run", inside, "--out", folder / kByte + "/runs"});
  INFO(outcome.all());
  CHECK(outcome.code == 0);
  const std::string cell = run_folders(folder / kByte + "/runs/tiny").at(0);
  outcome = run_longshot({"eval", cell});
  CHECK(outcome.code == 0);
  // A file that the run would have to remember by such a name.
  outcome = run_longshot(
      {"run", inside, "task=jsonl", "train.init_from=" + inside, "--out", folder / "runs"});
  CHECK(outcome.code == 2);
  CHECK_THAT(outcome.err, ContainsSubstring("not UTF-8") && ContainsSubstring(escaped));
  config.erase(0, config.find('\n') + 1);  // without its name
  outcome = run_longshot({"run", folder.write(kByte + ".toml", config), "--out", folder / "runs"});
  CHECK(outcome.code == 2);
  CHECK_THAT(outcome.err, ContainsSubstring("name must be") && ContainsSubstring(escaped));

  // A report of folders with such names: text, page and numbers can be read.
  longshot::write_file_atomically(cell + "/summary.json", "{");
  outcome = run_longshot({"report", folder / kByte});
  CHECK(outcome.code == 2);
  CHECK_THAT(outcome.err, ContainsSubstring("no finished run") && ContainsSubstring(escaped));

  // In a config and in data: the place.
  outcome = run_longshot({"run", folder.write("c.toml", "name = \"" + kByte + "\"\n")});
  CHECK(outcome.code == 2);
  CHECK_THAT(outcome.err, ContainsSubstring("c.toml:1:") && ContainsSubstring("utf-8"));
  const std::string data =
      folder.write("d.jsonl", "{\"input\": \"ab\", \"target\": [1, 1]}\n{\"input\": \"" + kByte +
                                  "\", \"target\": [1, 1]}\n");
  outcome = run_longshot({"run",
                          folder.write("d.toml", "[task]\ntype = \"jsonl\"\ntrain = \"" + data +
                                                     "\"\ntest = \"" + data + "\"\n"),
                          "--out", folder / "runs"});
  INFO(outcome.all());
  CHECK(outcome.code == 2);
  CHECK_THAT(outcome.err, ContainsSubstring("d.jsonl:2:") && ContainsSubstring("UTF-8"));
  const std::string csv = folder.write("e.csv", "study,cell\n" + kByte + ",b\n");
  outcome = run_longshot({"report", csv});
  CHECK(outcome.code == 2);
  CHECK_THAT(outcome.err, ContainsSubstring("e.csv: row 2") && ContainsSubstring(escaped));
}

TEST_CASE("streams: files that people name, links, FIFOs and standard output") {
  const Folder folder;
  folder.write("a.toml", two_cells());
  REQUIRE(run_longshot({"run", folder / "a.toml", "--out", folder / "runs"}).code == 0);
  const std::string report = program_path() + " report " + folder / "runs ";
  REQUIRE(shell(report + "--csv " + folder / "a.csv --html " + folder / "a.html").code == 0);
  const std::string csv = read_file(folder / "a.csv"), html = read_file(folder / "a.html");

  for (const char* name : {"-", "/dev/stdout", "/proc/self/fd/1"}) {
    INFO(name);
    CHECK(shell(report + "--csv " + name).out == csv);
    CHECK(shell(report + "--csv " + name + " | cat").out == csv);
    CHECK(shell(report + "--html " + name).out == html);
  }
  CHECK(fs::exists("/dev/stdout"));
  CHECK_FALSE(fs::exists("-"));
  // The other file beside it.
  CHECK(shell(report + "--csv - --html " + folder / "b.html").out == csv);
  CHECK(read_file(folder / "b.html") == html);
  const Outcome both = shell(report + "--csv - --html -");
  CHECK(both.code == 2);
  CHECK_THAT(both.err, ContainsSubstring("cannot both go to standard output"));
  const Outcome page =
      shell(program_path() + " run " + folder / "a.toml --out " + folder / "runs" + " --html -");
  CHECK(page.code == 0);
  CHECK(page.out == html);

  folder.write("target", "old");
  fs::create_symlink("target", folder / "link");
  CHECK(shell(report + "--csv " + folder / "link").code == 0);
  CHECK(read_file(folder / "target") == csv);
  CHECK(fs::is_symlink(folder / "link"));
  REQUIRE(mkfifo((folder / "fifo").c_str(), 0600) == 0);
  CHECK(shell("cat " + folder / "fifo & " + report + "--csv " + folder / "fifo > /dev/null; wait")
            .out == csv);
  CHECK(fs::is_fifo(folder / "fifo"));
  const Outcome full = shell(report + "--csv /dev/full");
  CHECK(full.code == 1);
  CHECK_THAT(full.err, ContainsSubstring("/dev/full: No space left on device"));
  const Outcome missing = shell(report + "--csv " + folder / "no/such.csv");
  CHECK(missing.code == 2);
  CHECK_THAT(missing.err, ContainsSubstring("no/such.csv: No such file"));

  // A page is rewritten where the link leads; what cannot be read and rewritten is refused.
  folder.write("page.md", "<!-- longshot report runs -->\n<!-- end of report -->\n");
  fs::create_symlink("page.md", folder / "page_link.md");
  CHECK(run_longshot({"report", "--update", folder / "page_link.md"}).code == 0);
  CHECK(fs::is_symlink(folder / "page_link.md"));
  CHECK_THAT(read_file(folder / "page.md"), ContainsSubstring("| none |"));
  for (const std::string& name : {folder / "fifo", std::string("-"), std::string("/dev/null")}) {
    const Outcome update = run_longshot({"report", "--update", name});
    CHECK(update.code == 2);
    CHECK_THAT(update.err, ContainsSubstring("rewritten"));
  }
}

TEST_CASE("streams: a run is not evaluated while another process works in it") {
  const Folder folder;
  folder.write("a.toml", tiny_config());
  REQUIRE(run_longshot({"run", folder / "a.toml", "--out", folder / "runs"}).code == 0);
  const std::string cell = run_folders(folder / "runs/tiny").at(0);
  // Two evaluations at once share the lock.
  const auto words = [&](const char* lengths) {
    return longshot_words(
        {"eval", cell, std::string("evaluate.lengths=") + lengths, "evaluate.samples=20000"});
  };
  Running first(words("[4]")), second(words("[5]"));
  CHECK(first.wait().code == 0);
  CHECK(second.wait().code == 0);
  CHECK(std::distance(fs::directory_iterator(cell + "/evaluations"), {}) == 2);

  const int descriptor = open((cell + "/.lock").c_str(), O_RDWR | O_CLOEXEC);
  struct flock whole = {};
  whole.l_type = F_WRLCK;
  REQUIRE(fcntl(descriptor, F_OFD_SETLK, &whole) == 0);
  const Outcome outcome = run_longshot({"eval", cell});
  close(descriptor);
  CHECK(outcome.code == 1);
  CHECK_THAT(outcome.err, ContainsSubstring(cell + ": another process works on this run"));
}

TEST_CASE("streams: an overlay that replaces a whole sweep is said") {
  const Folder folder;
  folder.write("base.toml", two_cells());
  folder.write("over.toml",
               "name = \"tiny\"\nextends = \"base.toml\"\n[sweep]\ngrid = { train.lr = [1e-3] }\n");
  Outcome outcome =
      run_longshot({"run", folder / "over.toml", "--dry-run", "--out", folder / "runs"});
  CHECK_THAT(outcome.out,
             ContainsSubstring("[sweep] of " + folder / "over.toml:3:2" +
                               " replaces the whole [sweep] of " + folder / "base.toml:20:2"));
  folder.write("later.toml", "[sweep]\ngrid = { seed = [3] }\n");
  outcome = run_longshot(
      {"run", folder / "base.toml", folder / "later.toml", "--dry-run", "--out", folder / "runs"});
  CHECK_THAT(outcome.out, ContainsSubstring("later.toml:1:2 replaces the whole [sweep]"));
  outcome = run_longshot({"run", folder / "base.toml", "sweep.grid.seed=[1, 2, 3]", "--dry-run",
                          "--out", folder / "runs"});
  CHECK_THAT(outcome.out, !ContainsSubstring("replaces"));
  CHECK_THAT(run_longshot({"list", "keys"}).out, ContainsSubstring("replaces the earlier one"));
}

TEST_CASE("streams: a number may be written as 1e3, and one that is too large is told its bounds") {
  const Folder folder;
  const auto dry = [&](const std::vector<std::string>& changes, const std::string& config) {
    std::vector<std::string> words = {"run", folder.write("a.toml", config), "--dry-run", "--out",
                                      folder / "runs"};
    words.insert(words.end(), changes.begin(), changes.end());
    return run_longshot(words);
  };
  const auto cell_of = [](const Outcome& outcome) {
    INFO(outcome.all());
    const size_t at = outcome.out.find("reverse_string-none-");
    REQUIRE(at != std::string::npos);
    return outcome.out.substr(at, 28);
  };
  const std::string plain = cell_of(dry({"train.steps=1000"}, tiny_config()));
  for (const char* text : {"1e3", "1E3", "1000.0", "1_000"})
    CHECK(cell_of(dry({std::string("train.steps=") + text}, tiny_config())) == plain);
  std::string config = tiny_config();
  config.replace(config.find("steps = 6"), 9, "steps = 1e3");
  CHECK(cell_of(dry({"evaluate.lengths=[3.0, 6e0]"}, config)) == plain);

  for (const char* text : {"99999999999999999999", "1e20"}) {
    const Outcome outcome = dry({std::string("train.steps=") + text}, tiny_config());
    CHECK(outcome.code == 2);
    CHECK_THAT(outcome.err, ContainsSubstring("train.steps is too large: 1e+20") &&
                                ContainsSubstring("9223372036854775807"));
  }
  CHECK_THAT(dry({"train.lr=1e400"}, tiny_config()).err, ContainsSubstring("1e400 is too large"));
  CHECK_THAT(dry({"train.steps=2.5"}, tiny_config()).err, ContainsSubstring("whole number"));
  config = tiny_config();
  config.replace(config.find("steps = 6"), 9, "steps = 99999999999999999999");
  CHECK_THAT(dry({}, config).err, ContainsSubstring("a.toml:11:") &&
                                      ContainsSubstring("too large") &&
                                      ContainsSubstring("9223372036854775807"));
  CHECK_THAT(dry({"task=nope"}, tiny_config()).err,
             ContainsSubstring("nope") && !ContainsSubstring("did you mean"));
  CHECK_THAT(dry({"task=copi"}, tiny_config()).err, ContainsSubstring("did you mean \"copy\"?"));
}
