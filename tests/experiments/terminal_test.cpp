// What a person at a terminal sees while a run trains, and what a log file gets instead. `script`
// (util-linux, part of every Debian) gives the program a terminal of its own.
#include "tests/catch.h"
#include "tests/experiments/program.h"

using namespace longshot_test;

namespace {

// Some hundred milliseconds of training: progress is printed every 200 ms.
std::string longer_config() {
  std::string config = tiny_config();
  const std::string from = "steps = 6", size = "dim = 8", rows = "batch = 4";
  config.replace(config.find(from), from.size(), "steps = 2500");
  config.replace(config.find(size), size.size(), "dim = 32");
  config.replace(config.find(rows), rows.size(), "batch = 16");
  return config;
}

// Everything the terminal was sent.
std::string on_terminal(const std::string& variables) {
  const Folder folder;
  const std::string command =
      fmt::format("{} {} run {} --threads 1 --out {}", variables, program_path(),
                  folder.write("a.toml", longer_config()), folder / "runs");
  const Outcome outcome = shell(fmt::format("script -qefc '{}' /dev/null", command));
  INFO(outcome.all());
  REQUIRE(outcome.code == 0);
  return outcome.out;
}

// The rewritten line: from a carriage return to "erase the rest".
std::string progress_line(const std::string& seen) {
  const size_t end = seen.find("\x1b[K");
  if (end == std::string::npos) return "";
  const size_t begin = seen.rfind('\r', end);
  return begin == std::string::npos ? "" : seen.substr(begin + 1, end - begin - 1);
}

}  // namespace

TEST_CASE("a terminal shows one line with step, loss, rate and time left, in colour or not") {
  const std::string coloured = on_terminal("TERM=xterm NO_COLOR=");
  const std::string line = progress_line(coloured);
  INFO(coloured);
  CHECK_THAT(line, ContainsSubstring("step ") && ContainsSubstring("/2500") &&
                       ContainsSubstring("loss") && ContainsSubstring("steps/s") &&
                       ContainsSubstring(" left"));
  CHECK_THAT(coloured, ContainsSubstring("\x1b[1m"));  // the table's heading

  const std::string plain = on_terminal("TERM=xterm NO_COLOR=1");
  INFO(plain);
  CHECK_FALSE(progress_line(plain).empty());
  for (const char* style : {"\x1b[1", "\x1b[2", "\x1b[3", "\x1b[9"})
    CHECK_THAT(plain, !ContainsSubstring(style));

  // A terminal that cannot rewrite a line gets none to rewrite.
  CHECK_THAT(on_terminal("TERM=dumb"), !ContainsSubstring("\x1b[K"));
}

TEST_CASE("without a terminal there are whole lines only, and no escape codes") {
  const Folder folder;
  const Outcome outcome =
      run_longshot({"run", folder.write("a.toml", longer_config()), "--out", folder / "runs"});
  INFO(outcome.all());
  REQUIRE(outcome.code == 0);
  CHECK_FALSE(outcome.err.empty());
  CHECK_THAT(outcome.all(), !ContainsSubstring("\r") && !ContainsSubstring("\x1b"));
}
