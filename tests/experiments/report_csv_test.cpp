// Results kept as CSV make the tables that their run folders made; pages name where their tables
// come from and have them made anew.
#include <sstream>

#include "experiments/report.h"
#include "tests/catch.h"
#include "tests/experiments/made_results.h"
#include "tests/experiments/program.h"

using namespace longshot;
using namespace longshot_test;

namespace {

void write_study(const Folder& folder) {
  for (const int seed : {1, 2}) {
    write_result(folder, {"rope", seed, 1, {{10, 1}, {40, 0.5 + 0.125 * seed}}, "base = 500.0"});
    write_result(folder, {"rope", seed, 1, {{10, 1}, {40, 0.5}}, "base = 10000.0"});
    write_result(folder, {"none", seed, 0.6, {{10, 0.6}, {40, 1.0 / 3}}});
  }
}

}  // namespace

TEST_CASE("a report of a CSV file is the report of the runs it was written from") {
  const Folder folder, results;
  write_study(folder);
  const Report runs = gather_report({folder.path()});
  const std::string csv = report_csv(runs);
  const Report again = gather_report({results.write("numbers.csv", csv)});
  CHECK(report_text(again, false, 120) == report_text(runs, false, 120));
  CHECK(report_markdown(again) == report_markdown(runs));
  CHECK(report_csv(again) == csv);
  // A folder without runs stands for its CSV files.
  CHECK(report_markdown(gather_report({results.path()})) == report_markdown(runs));
  // A page can be made of it: the same pictures but for the curves of training.
  CHECK_THAT(report_html(again), ContainsSubstring("<svg") && ContainsSubstring("base 500.0"));
}

// R1.3: files of earlier versions do not say what samples were shared, nor how many were
// independent.
TEST_CASE("CSV of an earlier version: the same tables, and what it cannot tell is not known") {
  const Folder folder;
  write_study(folder);
  const Report now = gather_report({folder.path()});
  std::string old;
  std::istringstream lines(report_csv(now));
  for (std::string line; std::getline(lines, line);) {
    for (int i = 0; i < 9; ++i) line.resize(line.rfind(','));  // the nine columns added since
    old += line + "\n";
  }
  CHECK_THAT(old, ContainsSubstring(",metric,chance,bytes\n"));
  const Report report = gather_report({folder.write("old.csv", old)});
  const auto rows = [](const std::string& text) {
    std::string tables;
    std::istringstream all(text);
    for (std::string line; std::getline(all, line);)
      if (line.starts_with("|")) tables += line + "\n";
    return tables;
  };
  CHECK(rows(report_markdown(report)) == rows(report_markdown(now)));
  CHECK_THAT(report_markdown(report), ContainsSubstring("Sampling error: not known"));
  CHECK_THAT(report_markdown(now), ContainsSubstring("Sampling error, from the finite number"));
  CHECK_THAT(report_html(report), ContainsSubstring("not known"));
}

TEST_CASE("runs of different CSV files are not averaged: what differs between them is not known") {
  const Folder wide, narrow, results;
  Result result = {"rope", 1, 1, {{40, 0.5}}};
  write_result(narrow, result);
  result.model = "dim = 128";
  write_result(wide, result);
  results.write("narrow.csv", report_csv(gather_report({narrow.path()})));
  results.write("wide.csv", report_csv(gather_report({wide.path()})));
  CHECK(gather_report({results.path()}).panels.size() == 2);
}

TEST_CASE("CSV: what is no report's is refused with its place") {
  const Folder folder;
  write_result(folder, {"rope", 1, 1, {{40, 0.5}}});
  const std::string good = report_csv(gather_report({folder.path()}));
  const auto refused = [&](const std::string& text) {
    try {
      gather_report({folder.write("bad.csv", text)});
    } catch (const UsageError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  CHECK_THAT(refused("a,b\n1,2\n"), ContainsSubstring("no column \"study\""));
  CHECK_THAT(refused(""), ContainsSubstring("empty"));
  CHECK_THAT(refused(good + "one,field\n"), ContainsSubstring("row 4 has 2 fields"));
  std::string letters = good;
  letters.replace(letters.rfind(",40,") + 1, 2, "forty");
  CHECK_THAT(refused(letters), ContainsSubstring("row 3: length is \"forty\""));
}

TEST_CASE("matrix: a row a task, what is not fitted in brackets") {
  const Folder folder;
  for (const int seed : {1, 2}) {
    write_result(folder, {"rope", seed, 1, {{30, 0.5}, {40, 0.5 + 0.25 * seed}}});
    write_result(folder, {"none", seed, 0.6, {{30, 0.25}, {40, 0.25}}});
  }
  Result longer = {"rope", 1, 1, {{80, 0.75}}};
  longer.train_max = 40;
  write_result(folder, longer);
  const Report report = gather_report({folder.path()});
  // Means beyond: (0.5 + 0.75) / 2 = 0.625 and (0.5 + 1) / 2 = 0.75.
  const std::string mean = report_matrix(report, "mean");
  CHECK_THAT(mean, ContainsSubstring("| | none | rope |\n"));
  CHECK_THAT(mean, ContainsSubstring("| reverse_string, trained on lengths 1 to 20 | "
                                     "(25.0 +- 0.0) | 68.8 +- 8.8 |\n"));
  CHECK_THAT(mean, ContainsSubstring("| reverse_string, trained on lengths 1 to 40 |  | 75.0 |\n"));
  CHECK_THAT(mean, ContainsSubstring("Runs a cell: 1 to 2."));
  CHECK_THAT(report_matrix(report, "best"), ContainsSubstring("| (25.0) | 75.0 |\n"));
  CHECK_THAT(report_matrix(report, "in_range"),
             ContainsSubstring("| (60.0 +- 0.0) | 100.0 +- 0.0 |\n"));
}

TEST_CASE("pages: a table is made anew, everything else stays") {
  const Folder folder;
  fs::create_directory(folder / "results");
  const Folder runs;
  write_study(runs);
  const Report report = gather_report({runs.path()});
  folder.write("results/numbers.csv", report_csv(report));
  const std::string head = "# A study\n\n<!-- longshot report results/numbers.csv -->\n";
  const std::string tail = "<!-- end of report -->\n\nMore words.\n";
  const std::string page = updated_tables(head + "\n| an old | table |\n" + tail, folder.path());
  CHECK(page == head + "\n" + report_markdown(report) + "\n" + tail);
  CHECK(updated_tables(page, folder.path()) == page);
  CHECK_THAT(
      updated_tables("<!-- longshot report --matrix best results -->\n" + tail, folder.path()),
      ContainsSubstring(report_matrix(report, "best")));
  const auto refused = [&](const std::string& text) {
    try {
      updated_tables(text, folder.path());
    } catch (const UsageError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  CHECK_THAT(refused(head), ContainsSubstring("no line \"<!-- end of report -->\""));
  CHECK_THAT(refused(head + head + tail), ContainsSubstring("no line"));
  CHECK_THAT(refused("<!-- longshot report --matrix worst results -->\n" + tail),
             ContainsSubstring("mean, best or in_range"));
  CHECK_THAT(refused("<!-- longshot report -->\n" + tail), ContainsSubstring("names no results"));
  CHECK_THAT(refused("<!-- longshot report nowhere -->\n" + tail),
             ContainsSubstring("no such folder"));
}

TEST_CASE("longshot report --update rewrites the pages it is given") {
  const Folder folder;
  fs::create_directory(folder / "results");
  const Folder runs;
  write_study(runs);
  const Outcome numbers =
      run_longshot({"report", runs.path(), "--csv", folder / "results/numbers.csv"});
  REQUIRE(numbers.code == 0);
  const std::string page = folder.write(
      "page.md", "<!-- longshot report results/numbers.csv -->\n<!-- end of report -->\n");
  const Outcome first = run_longshot({"report", "--update", page});
  CHECK(first.code == 0);
  CHECK_THAT(read_file(page), ContainsSubstring("| rope, base 500.0 | 100.0 +- 0.0 |"));
  CHECK_THAT(run_longshot({"report", "--update", page}).out, ContainsSubstring("up to date"));
  folder.write("page.md", "<!-- longshot report nowhere -->\n<!-- end of report -->\n");
  const Outcome bad = run_longshot({"report", "--update", page});
  CHECK(bad.code == 2);
  CHECK_THAT(bad.err, ContainsSubstring("page.md"));
  CHECK(run_longshot({"report"}).code == 2);
}
