// The studies under experiments/configs/studies/: each has its configs, its page and its results,
// and every table in a page is what the committed results say. (That their configs load and
// describe cells that can run: configs_test.cpp.)
#include <filesystem>
#include <set>

#include "core/files.h"
#include "experiments/load.h"
#include "experiments/report.h"
#include "tests/catch.h"

using namespace longshot;

namespace {

namespace fs = std::filesystem;

const fs::path kSource = LONGSHOT_SOURCE_DIR;

std::vector<fs::path> studies() {
  std::vector<fs::path> folders;
  for (const auto& entry : fs::directory_iterator(kSource / "experiments/configs/studies"))
    if (entry.is_directory()) folders.push_back(entry.path());
  std::sort(folders.begin(), folders.end());
  return folders;
}

void check_tables(const fs::path& page) {
  const std::string text = read_file(page.string());
  // Not CHECK(a == b): one differing digit would print two pages.
  const bool same = updated_tables(text, page.parent_path().string()) == text;
  if (!same)
    UNSCOPED_INFO(
        "its tables are not what its results say; make them anew with:  "
        "./longshot report --update "
        << fs::relative(page, kSource).string());
  CHECK(same);
}

}  // namespace

TEST_CASE("every study has a page, configs, results, and tables that say what the results say") {
  REQUIRE_FALSE(studies().empty());
  const std::string all = read_file((kSource / "docs/reproductions.md").string());
  for (const fs::path& study : studies()) {
    const std::string name = study.filename().string();
    INFO(name);
    int configs = 0, results = 0;
    for (const auto& entry : fs::directory_iterator(study))
      configs += entry.path().extension() == ".toml";
    for (const auto& entry : fs::directory_iterator(study / "results"))
      results += entry.path().extension() == ".csv";
    CHECK(configs > 0);
    CHECK(results > 0);
    REQUIRE(fs::exists(study / "README.md"));
    const std::string page = read_file((study / "README.md").string());
    CHECK(page.find("<!-- longshot report") != std::string::npos);
    CHECK(page.find("./longshot run experiments/configs/studies/" + name) != std::string::npos);
    check_tables(study / "README.md");
    // The page of all studies has a row for it.
    CHECK(all.find("experiments/configs/studies/" + name) != std::string::npos);
  }
  check_tables(kSource / "docs/reproductions.md");
}

TEST_CASE("results of the studies are of runs that their configs describe") {
  for (const fs::path& study : studies()) {
    INFO(study.filename().string());
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(study))
      if (entry.path().extension() == ".toml")
        names.insert(load_config({entry.path().string()}).table.find("name")->as_string());
    for (const auto& entry : fs::directory_iterator(study / "results"))
      if (entry.path().extension() == ".csv")
        for (const Summary& summary : read_report_csv(entry.path().string())) {
          INFO(entry.path().string() + ": " + summary.cell);
          CHECK(names.count(summary.study) == 1);
        }
  }
}
