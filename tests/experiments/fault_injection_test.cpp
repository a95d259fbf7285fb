// Every call with which the program reaches the disk, and every large piece of memory it asks for,
// refused once in turn. Whatever is refused: the program ends with an exit code and a message that
// names the file, what lies on the disk loads, and the same command goes on to the numbers of a run
// that nothing disturbed.
#include <cerrno>
#include <map>
#include <nlohmann/json.hpp>

#include "tests/catch.h"
#include "tests/experiments/program.h"

#ifdef LONGSHOT_FAULT_LIBRARY

using namespace longshot_test;
using longshot::read_file;

namespace {

struct Fault {
  std::string kind;
  int error;
};

class Faulty {
 public:
  explicit Faulty(const Folder& folder) : folder_(folder) {}
  // N = 0: every call of the kind is refused.
  Outcome run(const Fault& fault, int n, std::vector<std::string> words) {
    fs::remove(reached_ / "yes");
    words = longshot_words(std::move(words));
    const std::vector<std::string> with = {
        "env", "LD_PRELOAD=" LONGSHOT_FAULT_LIBRARY,
        fmt::format("LONGSHOT_FAULT={}:{}:{}", fault.kind, n, fault.error),
        "LONGSHOT_UNDER=" + folder_.path() + "/", "LONGSHOT_REACHED=" + reached_ / "yes"};
    words.insert(words.begin(), with.begin(), with.end());
    return Running(words).wait();
  }
  bool reached() const { return fs::exists(reached_ / "yes"); }

 private:
  const Folder& folder_;
  Folder reached_;  // elsewhere: what is made there is not refused
};

const char* kStudy = R"(name = "tiny"
[task]
type = "jsonl"
train = "data.jsonl"
test = "data.jsonl"
[model]
dim = 8
layers = 1
heads = 2
ffn = 16
[train]
steps = 4
batch = 4
lengths = { min = 1, max = 4 }
evaluate_every = 2
checkpoint_every = 2
log_every = 2
[evaluate]
lengths = [3, 6]
samples = 8
in_range_samples = 8
[sweep]
grid = { seed = [1, 2] }
)";

// The study and the file that it maps.
void write_study(const Folder& folder) {
  folder.write("a.toml", kStudy);
  std::string lines;
  for (int i = 0; i < 60; ++i) {
    std::string ids;
    for (int k = 0; k <= i % 6; ++k) ids += fmt::format("{}{}", k ? ", " : "", (i + k) % 3);
    lines += fmt::format("{{\"input\": [{}], \"target\": [{}]}}\n", ids, ids);
  }
  folder.write("data.jsonl", lines);
}

using Hashes = std::map<std::string, std::string>;  // cell, parameters_sha256

// Of the cells that have a summary; each must load.
Hashes hashes_of(const std::string& study) {
  Hashes hashes;
  if (!fs::exists(study)) return hashes;
  for (const std::string& cell : run_folders(study)) {
    if (fs::exists(cell + "/summary.json"))
      hashes[fs::path(cell).filename().string()] =
          nlohmann::json::parse(read_file(cell + "/summary.json")).at("parameters_sha256");
    if (fs::exists(cell + "/status.json"))
      CHECK(nlohmann::json::parse(read_file(cell + "/status.json")).contains("state"));
  }
  return hashes;
}

const std::vector<Fault> kFaults = {{"open", EIO},    {"create", ENOSPC}, {"write", ENOSPC},
                                    {"sync", EIO},    {"rename", ENOSPC}, {"mkdir", ENOSPC},
                                    {"mmap", ENOMEM}, {"lock", ENOLCK},   {"memory", ENOMEM}};

// Refuses call after call of `words` in a copy of `begin`, with `check` after each; says how many
// there were.
template <class Check>
void refuse_each(const char* what, const std::string& begin,
                 const std::function<std::vector<std::string>(const Folder&)>& words,
                 const Check& check) {
  std::string counts;
  for (const Fault& fault : kFaults) {
    int n = 1;
    for (;; ++n) {
      REQUIRE(n < 2000);
      const Folder folder;
      fs::copy(begin, folder.path(), fs::copy_options::recursive);
      Faulty faulty(folder);
      const Outcome outcome = faulty.run(fault, n, words(folder));
      INFO(what << ": " << fault.kind << " " << n << ": exit code " << outcome.code << "\n"
                << outcome.err);
      if (!faulty.reached()) {
        CHECK(outcome.code == 0);
        break;
      }
      CHECK((outcome.code == 0 || outcome.code == 1 || outcome.code == 2));
      if (outcome.code != 0)
        CHECK_THAT(outcome.err,
                   ContainsSubstring(fault.kind == "memory" ? "memory" : folder.path() + "/"));
      check(folder, outcome);
    }
    counts += fmt::format(" {} {}", n - 1, fault.kind);
  }
  WARN(what << ", calls refused:" << counts);
}

std::vector<std::string> run_words(const Folder& folder) {
  return {"run", folder / "a.toml", "--device", "cpu", "--out", folder / "runs"};
}

}  // namespace

TEST_CASE("faults: whatever is refused, nothing is lost and the same command goes on") {
  const Folder fresh, interrupted;
  for (const Folder* each : {&fresh, &interrupted}) write_study(*each);
  const auto after_run = [](const Hashes& wanted) {
    return [wanted](const Folder& folder, const Outcome&) {
      const std::string study = folder / "runs/tiny";
      const Hashes kept = hashes_of(study);
      for (const auto& [cell, hash] : kept) CHECK(hash == wanted.at(cell));
      // Where memory was refused, the cell has failed: that is asked for again by name.
      std::vector<std::string> again = run_words(folder);
      again.push_back("--retry-failed");
      const Outcome outcome = run_longshot(again);
      INFO(outcome.all());
      CHECK(outcome.code == 0);
      CHECK(hashes_of(study) == wanted);
      for (const std::string& cell : run_folders(study))
        for (const auto& entry : fs::directory_iterator(cell))
          CHECK(entry.path().extension() != ".partial");
    };
  };

  const Folder whole;
  write_study(whole);
  REQUIRE(run_longshot(run_words(whole)).code == 0);
  const Hashes wanted = hashes_of(whole / "runs/tiny");
  REQUIRE(wanted.size() == 2);

  SECTION("run") {
    refuse_each("run", fresh.path(), run_words, after_run(wanted));
  }
  SECTION("resume") {
    // The disk is full at the second cell's checkpoint of step 2: the first is done.
    Faulty faulty(interrupted);
    int n = 1;
    for (; n < 100; ++n) {
      fs::remove_all(interrupted / "runs");
      CHECK(faulty.run({"rename", ENOSPC}, n, run_words(interrupted)).code == 1);
      const auto cells = run_folders(interrupted / "runs/tiny");
      if (cells.size() == 2 && fs::exists(cells[0] + "/summary.json") &&
          fs::exists(cells[1] + "/training_state.safetensors"))
        break;
    }
    REQUIRE(n < 100);
    refuse_each("resume", interrupted.path(), run_words, after_run(wanted));
  }
  SECTION("eval") {
    const auto words = [](const Folder& folder) {
      return std::vector<std::string>{"eval", run_folders(folder / "runs/tiny").at(0),
                                      "evaluate.lengths=[5]"};
    };
    refuse_each("eval", whole.path(), words, [&](const Folder& folder, const Outcome&) {
      CHECK(hashes_of(folder / "runs/tiny") == wanted);
      CHECK(run_longshot(words(folder)).code == 0);
      const std::string evaluations = run_folders(folder / "runs/tiny").at(0) + "/evaluations";
      size_t stored = 0;
      for (const auto& entry : fs::directory_iterator(evaluations)) {
        CHECK(nlohmann::json::parse(read_file(entry.path().string())).contains("lengths"));
        ++stored;
      }
      CHECK(stored == 1);
    });
  }
  SECTION("report") {
    const auto words = [](const Folder& folder) {
      return std::vector<std::string>{"report",         folder / "runs", "--csv",
                                      folder / "a.csv", "--html",        folder / "a.html"};
    };
    REQUIRE(run_longshot(words(whole)).code == 0);
    const std::string csv = read_file(whole / "a.csv");
    refuse_each("report", whole.path(), words, [&](const Folder& folder, const Outcome& outcome) {
      // An earlier file stays whole until the new one is.
      CHECK(read_file(folder / "a.csv") == csv);
      if (outcome.code == 0) CHECK_FALSE(outcome.out.empty());
      CHECK(run_longshot(words(folder)).code == 0);
      CHECK(read_file(folder / "a.csv") == csv);
    });
  }
}

TEST_CASE("faults: a full disk stops a sweep with one message, and no cell has failed") {
  const Folder folder;
  write_study(folder);
  Faulty faulty(folder);
  const bool jobs = GENERATE(false, true);
  std::vector<std::string> words = run_words(folder);
  if (jobs) words.insert(words.end(), {"--jobs", "2"});
  const int error = GENERATE(ENOSPC, EDQUOT, EROFS, EIO);
  const Outcome outcome = faulty.run({"sync", error}, 0, words);
  INFO(outcome.all());
  CHECK(outcome.code == 1);
  CHECK_THAT(outcome.err, ContainsSubstring("tiny: stopped: cannot write " + folder.path()) &&
                              ContainsSubstring(std::strerror(error)) &&
                              ContainsSubstring("the same command goes on") &&
                              !ContainsSubstring("failed"));
  CHECK(outcome.err.find(std::strerror(error)) == outcome.err.rfind(std::strerror(error)));
  const Outcome again = run_longshot(words);
  INFO(again.all());
  CHECK(again.code == 0);
}

TEST_CASE("faults: a log that cannot be written stops nothing") {
  const Folder folder;
  write_study(folder);
  // A folder in its place: root may write everything else.
  Outcome outcome = run_longshot(run_words(folder));
  REQUIRE(outcome.code == 0);
  for (const std::string& cell : run_folders(folder / "runs/tiny")) {
    fs::remove_all(cell + "/log.txt");
    fs::remove(cell + "/summary.json");
    fs::create_directory(cell + "/log.txt");
  }
  outcome = run_longshot(run_words(folder));
  INFO(outcome.all());
  CHECK(outcome.code == 0);
  CHECK_THAT(outcome.err, ContainsSubstring("log.txt"));
}

TEST_CASE("faults: a file system without locks is said, and --no-locks goes on without") {
  const Folder folder;
  write_study(folder);
  Faulty faulty(folder);
  const int error = GENERATE(ENOLCK, EOPNOTSUPP, ENOSYS, EINVAL, EIO);
  Outcome outcome = faulty.run({"lock", error}, 0, run_words(folder));
  INFO(outcome.all());
  CHECK(outcome.code == 1);
  CHECK_THAT(outcome.err, ContainsSubstring("cannot lock " + folder.path()) &&
                              ContainsSubstring(std::strerror(error)) &&
                              ContainsSubstring("--no-locks") &&
                              !ContainsSubstring("another process"));
  std::vector<std::string> words = run_words(folder);
  words.push_back("--no-locks");
  outcome = faulty.run({"lock", error}, 0, words);
  INFO(outcome.all());
  CHECK(outcome.code == 0);
  CHECK_THAT(outcome.err, ContainsSubstring("without locks"));
  // A run that died is gone on with: nobody can say that it is still at work.
  const std::string cell = run_folders(folder / "runs/tiny").at(0);
  auto status = nlohmann::json::parse(read_file(cell + "/status.json"));
  status["state"] = "running";
  longshot::write_file_atomically(cell + "/status.json", status.dump());
  outcome = faulty.run({"lock", error}, 0, run_words(folder));
  CHECK(outcome.code == 1);
  CHECK_THAT(outcome.err, ContainsSubstring("--no-locks"));
  CHECK(faulty.run({"lock", error}, 0, words).code == 0);

  outcome = faulty.run({"lock", error}, 0, {"eval", cell});
  CHECK(outcome.code == 1);
  CHECK_THAT(outcome.err, ContainsSubstring("--no-locks"));
  CHECK(faulty.run({"lock", error}, 0, {"eval", cell, "--no-locks"}).code == 0);
  CHECK(faulty.run({"lock", error}, 0, {"report", folder / "runs"}).code == 0);
}

TEST_CASE("faults: EAGAIN and EACCES are another process") {
  const Folder folder;
  write_study(folder);
  Faulty faulty(folder);
  const int error = GENERATE(EAGAIN, EACCES);
  const Outcome outcome = faulty.run({"lock", error}, 0, run_words(folder));
  CHECK(outcome.code == 0);
  CHECK_THAT(outcome.err, ContainsSubstring("another process is working on it"));
}

TEST_CASE("faults: who may only read sees the numbers, and that they are not kept") {
  const Folder folder;
  write_study(folder);
  REQUIRE(run_longshot(run_words(folder)).code == 0);
  const std::string cell = run_folders(folder / "runs/tiny").at(0);
  const bool lock = GENERATE(true, false);
  if (!lock)
    for (const std::string& each : run_folders(folder / "runs/tiny")) fs::remove(each + "/.lock");
  Faulty faulty(folder);
  const int error = GENERATE(EACCES, EROFS);
  for (const char* kind : {"create", "mkdir"}) {
    const Outcome outcome = faulty.run({kind, error}, 0, {"eval", cell});
    INFO(kind << "\n" << outcome.all());
    CHECK(outcome.code == 0);
    CHECK_THAT(outcome.out, ContainsSubstring("in range"));
    CHECK_THAT(outcome.err,
               ContainsSubstring("not kept") && ContainsSubstring(std::strerror(error)));
    fs::remove_all(cell + "/evaluations");
  }
  fs::remove(folder / "runs/tiny/report.html");
  const Outcome run = faulty.run({"create", error}, 0, run_words(folder));
  INFO(run.all());
  CHECK(run.code == 0);
  CHECK_THAT(run.out, ContainsSubstring("in range"));
  CHECK_THAT(run.err, ContainsSubstring("report.html") && ContainsSubstring(std::strerror(error)));
  CHECK(faulty.run({"create", error}, 0, {"report", folder / "runs"}).code == 0);
}

#else

TEST_CASE("faults: calls are refused in builds without a sanitizer only") {
  SUCCEED();
}

#endif
