// docs/formats.md against the files themselves: the keys and columns it names are those that are
// written, no more and no fewer, and the tests it names are there.
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "tests/catch.h"
#include "tests/experiments/program.h"

using namespace longshot_test;
using longshot::read_file;

namespace {

using Names = std::set<std::string>;

std::string page() {
  return read_file(LONGSHOT_SOURCE_DIR "/docs/formats.md");
}

// From a heading up to the next.
std::string section(const std::string& title) {
  const std::string text = page();
  const size_t begin = text.find("\n## " + title);
  REQUIRE(begin != std::string::npos);
  return text.substr(begin, text.find("\n## ", begin + 1) - begin);
}

// `words` in code marks.
Names marked(const std::string& text) {
  Names names;
  for (size_t at = text.find('`'); at != std::string::npos; at = text.find('`', at)) {
    const size_t end = text.find('`', at + 1);
    names.insert(text.substr(at + 1, end - at - 1));
    at = end + 1;
  }
  return names;
}

// Marked words in the first cells of a table's rows; the `which`-th table of the text.
Names table_keys(const std::string& text, int which) {
  Names names;
  std::istringstream lines(text);
  int table = -1;
  bool inside = false;
  for (std::string line; std::getline(lines, line);) {
    const bool row = line.starts_with("|");
    if (row && !inside) ++table;
    inside = row;
    if (row && table == which) names.merge(marked(line.substr(0, line.find('|', 1))));
  }
  return names;
}

Names keys_of(const nlohmann::json& object) {
  Names names;
  for (const auto& [key, value] : object.items()) names.insert(key);
  return names;
}

nlohmann::json json_of(const std::string& file) {
  return nlohmann::json::parse(read_file(file));
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  std::string part;
  for (const char c : text + ",") {
    if (c == ',') {
      if (!part.empty()) parts.push_back(part);
      part.clear();
    } else if (c != ' ' && c != '\n') {
      part += c;
    }
  }
  return parts;
}

}  // namespace

TEST_CASE("formats: what a run writes is what the page says") {
  const Folder folder;
  folder.write("a.toml", tiny_config());
  REQUIRE(
      run_longshot({"run", folder / "a.toml", "--out", folder / "out", "evaluate.by_position=true"})
          .code == 0);
  const std::string cell = run_folders(folder / "out/tiny").at(0);
  REQUIRE(run_longshot({"eval", cell, "evaluate.lengths=[5]"}).code == 0);
  const std::string results = section("summary.json");

  Names expected = table_keys(results, 0);
  expected.insert("sha256");
  const auto summary = json_of(cell + "/summary.json");
  CHECK(keys_of(summary) == expected);

  // An entry of an evaluation; perplexity and bits are for bytes alone, coverage and positions for
  // all here.
  Names entry;
  for (const std::string& key : table_keys(results, 1)) {
    if (key == "perplexity" || key == "bits_per_byte") continue;
    if (key.starts_with("..._")) {
      for (const char* share : {"accuracy", "sequence_accuracy"})
        entry.insert(share + key.substr(3));
      if (key == "..._error") entry.insert("loss_error");
    } else {
      entry.insert(key);
    }
  }
  CHECK(keys_of(summary.at("evaluation").at("lengths").at(0)) == entry);
  CHECK(keys_of(summary.at("evaluation")) ==
        Names{"label", "overrides", "seconds", "in_range_split", "in_range", "lengths"});
  for (const char* key : {"label", "overrides", "seconds", "in_range_split", "in_range", "lengths"})
    CHECK(marked(results).count(key) == 1);

  const std::string run = section("A run's folder");
  const size_t line = run.find("`status.json`: ");
  CHECK(keys_of(json_of(cell + "/status.json")) == [&] {
    Names names = marked(run.substr(line, run.find('\n', line) - line));
    names.erase("status.json");
    return names;
  }());
  CHECK(keys_of(json_of(cell + "/cell.json")) ==
        Names{"identity", "study", "cell", "axes", "config_sha256"});
  Names files = table_keys(run, 0);
  files.insert("evaluations");
  for (const auto& entry_of_folder : fs::directory_iterator(cell)) {
    INFO(entry_of_folder.path().filename().string());
    CHECK(files.count(entry_of_folder.path().filename().string()) == 1);
  }

  const Names task = marked(section("task.json"));
  for (const std::string& key : keys_of(json_of(cell + "/task.json"))) {
    INFO(key);
    CHECK(task.count(key) == 1);
  }

  REQUIRE(run_longshot({"report", cell, "--csv", folder / "a.csv"}).code == 0);
  const std::string csv = read_file(folder / "a.csv");
  const std::string words = section("CSV");
  std::vector<std::string> columns;
  for (const char* first : {"`study, cell", "`evaluation, window"}) {
    const size_t at = words.find(first);
    REQUIRE(at != std::string::npos);
    for (const std::string& name : split(words.substr(at + 1, words.find('`', at + 1) - at - 1)))
      columns.push_back(name);
  }
  CHECK(columns == split(csv.substr(0, csv.find('\n'))));
}

TEST_CASE("formats: the tests that the page names are there") {
  Names files;
  for (const auto& entry : fs::recursive_directory_iterator(LONGSHOT_SOURCE_DIR "/tests"))
    files.insert(entry.path().stem().string());
  int named = 0;
  for (const std::string& name : marked(page())) {
    if (!name.ends_with("_test")) continue;
    INFO(name);
    CHECK(files.count(name) == 1);
    ++named;
  }
  CHECK(named > 15);
}
