// Reports of results made by hand: means, spreads and verdicts whose values are known, and every
// output read back.
#include "experiments/report.h"

#include <cmath>
#include <map>
#include <sstream>

#include "tests/catch.h"
#include "tests/experiments/made_results.h"
#include "tests/experiments/program.h"

using namespace longshot;
using namespace longshot_test;

namespace {

const ReportGroup& group_of(const Report& report, const std::string& label) {
  for (const ReportPanel& panel : report.panels)
    for (const ReportGroup& group : panel.groups)
      if (group.label == label) return group;
  std::string all;
  for (const ReportPanel& panel : report.panels)
    for (const ReportGroup& group : panel.groups) all += group.label + "; ";
  FAIL("no group " << label << " among " << all);
  throw Error("unreachable");
}

std::vector<std::vector<std::string>> parse_csv(const std::string& text) {
  std::vector<std::vector<std::string>> rows(1, {""});
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '"' && i + 1 < text.size() && text[i + 1] == '"')
        rows.back().back() += '"', ++i;
      else if (c == '"')
        quoted = false;
      else
        rows.back().back() += c;
    } else if (c == '"') {
      quoted = true;
    } else if (c == ',') {
      rows.back().emplace_back();
    } else if (c == '\n') {
      rows.push_back({""});
    } else {
      rows.back().back() += c;
    }
  }
  rows.pop_back();
  return rows;
}

}  // namespace

TEST_CASE("spread: mean, sample deviation, extremes, and what finite samples leave open") {
  const std::vector<Measure> runs = {{0.2, 0.04, 100}, {0.4, 0.05, 100}, {0.9, 0.03, 100}};
  const Spread spread = spread_of(runs, false, false);
  CHECK(spread.n == 3);
  CHECK(spread.mean == Approx(0.5));
  CHECK(spread.deviation == Approx(std::sqrt(0.13)));  // (0.09 + 0.01 + 0.16) / 2
  CHECK(spread.max == 0.9);
  CHECK(spread.min == 0.2);
  // Half of 300 independent samples: Wilson's interval is 0.5 +- z sqrt(1 / (4 (300 + z^2)))
  // = 0.5 +- 1.959964 / (2 sqrt(303.841459)) = 0.5 +- 0.0562206.
  CHECK(spread.sampling.low == Approx(0.5 - 0.0562206).margin(1e-6));
  CHECK(spread.sampling.high == Approx(0.5 + 0.0562206).margin(1e-6));
  // R1.3: on the same 100 samples, three runs are no surer of them than one: sqrt(103.841459).
  CHECK(spread_of(runs, false, true).sampling.high == Approx(0.5 + 0.0961693).margin(1e-6));
  // Where it is not known whether they are the same, neither is the interval; of one run it is.
  CHECK(std::isnan(spread_of(runs, false, std::nullopt).sampling.low));
  CHECK(std::isfinite(spread_of({{0.2, 0.04, 100}}, false, std::nullopt).sampling.low));
  // A loss: errors 0.03, 0.04, 0 give sqrt(0.0025) / 3 when independent, 0.07 / 3 when shared.
  const std::vector<Measure> losses = {{1, 0.03, NAN}, {2, 0.04, NAN}, {3, 0.0, NAN}};
  CHECK(spread_of(losses, true, false).sampling.high == Approx(2 + 1.96 * 0.05 / 3));
  CHECK(spread_of(losses, true, true).sampling.high == Approx(2 + 1.96 * 0.07 / 3));
  CHECK(spread_of({{0.7, 0.1, 10}}, false, false).deviation == 0);
  CHECK(std::isnan(spread_of({}, false, false).mean));
  CHECK(spread_of({{NAN, NAN, NAN}, {0.5, 0.1, 10}}, false, false).n == 1);
}

TEST_CASE("seeds are grouped, and out of range is the mean over longer lengths") {
  const Folder folder;
  // Trained up to 20; 10 is no longer length. Seed 1: beyond (0.8 + 0.4) / 2 = 0.6, seed 2: (0.6 +
  // 0.2) / 2 = 0.4.
  write_result(folder, {"rope", 1, 1.0, {{10, 1.0}, {30, 0.8}, {40, 0.4}}});
  write_result(folder, {"rope", 2, 0.99, {{10, 1.0}, {30, 0.6}, {40, 0.2}}});
  const Report report = gather_report({folder.path()});
  REQUIRE(report.panels.size() == 1);
  CHECK(report.panels[0].title == "reverse_string, trained on lengths 1 to 20");
  CHECK(report.differing == std::vector<std::string>{"seed"});
  const ReportGroup& group = group_of(report, "rope");
  CHECK(group.runs.size() == 2);
  CHECK(group.in_range.mean == Approx(0.995));
  CHECK(group.out_of_range.mean == Approx(0.5));
  CHECK(group.out_of_range.deviation == Approx(std::sqrt(0.02)));
  CHECK(group.best_out_of_range == Approx(0.6));
  // Two runs at two lengths with 100 samples each: 400 in all, half of them right.
  CHECK(group.out_of_range.sampling.high == Approx(0.5 + 1.959964 / (2 * std::sqrt(403.841459))));
  REQUIRE(group.points.size() == 3);
  CHECK(group.points[2].spread.mean == Approx(0.3));
}

TEST_CASE("verdicts: only a fitted model can fail") {
  const Folder folder;
  write_result(folder, {"rope", 1, 0.999, {{40, 0.60}}});        // 0.1 above chance, 0.399 lost
  write_result(folder, {"alibi", 1, 0.999, {{40, 0.90}}});       // loses a tenth
  write_result(folder, {"sinusoidal", 1, 0.999, {{40, 0.96}}});  // loses less than 5 points
  write_result(folder, {"none", 1, 0.989, {{40, 0.50}}});        // not fitted
  write_result(folder, {"learned", 1, 1.0, {{10, 1.0}}});        // nothing longer was measured
  const Report report = gather_report({folder.path()});
  CHECK(group_of(report, "rope").verdict == Verdict::fails);
  CHECK(group_of(report, "alibi").verdict == Verdict::degrades);
  CHECK(group_of(report, "sinusoidal").verdict == Verdict::extrapolates);
  CHECK(group_of(report, "none").verdict == Verdict::not_fitted);
  CHECK(group_of(report, "learned").verdict == Verdict::none);
  // The best beyond stands first, what was not fitted last.
  CHECK(report.panels[0].groups.front().label == "sinusoidal");
  CHECK(report.panels[0].groups.back().label == "none");
  const std::string text = report_text(report, false, 100);
  CHECK_THAT(text, ContainsSubstring("fails beyond") && ContainsSubstring("not fitted") &&
                       ContainsSubstring("extrapolates"));
  CHECK(text.find("+-") == std::string::npos);  // one seed has no spread
  CHECK(text.find("\x1b") == std::string::npos);
}

// R1.1: what is missing is no number, and no comparison with it says anything.
TEST_CASE("without in-range data there is no verdict, whatever the scores beyond") {
  const Folder folder;
  const double missing = std::nan("");
  write_result(folder, {"rope", 1, missing, {{40, 0.99}}});
  write_result(folder, {"alibi", 1, 0.999, {{40, 0.6}}});
  write_result(folder, {"none", 1, 0.9, {{40, 0.5}}});
  Result partial = {"learned", 1, 1.0, {{40, 0.98}}};
  partial.coverage = 0.1;
  write_result(folder, partial);
  const Report report = gather_report({folder.path()});
  CHECK(group_of(report, "rope").verdict == Verdict::no_in_range);
  CHECK(group_of(report, "learned").verdict == Verdict::no_in_range);
  CHECK(group_of(report, "alibi").verdict == Verdict::fails);
  std::vector<std::string> order;
  for (const ReportGroup& group : report.panels[0].groups) order.push_back(group.label);
  CHECK(order == std::vector<std::string>{"alibi", "rope", "learned", "none"});
  const std::string text = report_text(report, false, 120);
  CHECK_THAT(text, ContainsSubstring("no in-range data") && !ContainsSubstring("nan"));
  CHECK_THAT(report_markdown(report), ContainsSubstring("the lengths of 10.0 % of the training "
                                                        "sequences: too little for a verdict"));
  for (const std::string& other : {report_markdown(report), report_matrix(report, "mean"),
                                   report_matrix(report, "in_range"), report_html(report)})
    CHECK(other.find("nan") == std::string::npos);
}

// R1.4: 0.70 where the constant answer gets 0.70 is nothing learned, though guessing gets 0.50.
TEST_CASE("chance is the best constant answer where answers are unbalanced") {
  const Folder folder;
  Result result = {"rope", 1, 1.0, {{30, 0.9}, {40, 0.7}}};
  result.constant = 0.7;
  write_result(folder, result);
  Report report = gather_report({folder.path()});
  CHECK(group_of(report, "rope").constants.at(40) == Approx(0.7));
  CHECK(group_of(report, "rope").verdict == Verdict::fails);
  CHECK_THAT(report_text(report, false, 120),
             ContainsSubstring("best constant answer 70.0 in range, 70.0 at each length"));
  CHECK_THAT(report_html(report), ContainsSubstring("best constant answer"));
  const Folder guessed;
  result.constant = 0;
  result.scores = {{30, 0.9}, {40, 0.76}};
  write_result(guessed, result);
  report = gather_report({guessed.path()});
  CHECK(group_of(report, "rope").constants.empty());
  CHECK(group_of(report, "rope").verdict == Verdict::degrades);
  CHECK_THAT(report_text(report, false, 120), ContainsSubstring("chance 50.0"));
}

TEST_CASE("what a constant answer does as well has no verdict on lengths") {
  const Folder folder;
  Result same = {"rope", 1, 0.996, {{40, 0.996}}};
  same.constant = 0.996;  // in range no better than the constant
  write_result(folder, same);
  Result easy = {"alibi", 1, 1.0, {{40, 0.97}}};
  easy.constant = 0.97;  // learned, but a constant loses as little at the longest length
  write_result(folder, easy);
  const Report report = gather_report({folder.path()});
  CHECK(group_of(report, "rope").verdict == Verdict::constant);
  CHECK(group_of(report, "alibi").verdict == Verdict::constant);
  CHECK_THAT(report_text(report, false, 120), ContainsSubstring("a constant does it"));
}

TEST_CASE("one seed twice is no spread over seeds: what differs is not among the settings") {
  const Folder folder;
  write_result(folder, {"rope", 1, 1.0, {{40, 0.5}}});
  write_result(folder, {"rope", 1, 1.0, {{40, 0.7}}});
  write_result(folder, {"none", 1, 1.0, {{40, 0.5}}});
  const Report report = gather_report({folder.path()});
  REQUIRE(report.panels[0].groups.size() == 3);
  for (const ReportGroup& group : report.panels[0].groups) {
    CHECK(group.runs.size() == 1);
    CHECK(group.label.starts_with("rope [cell ") == (group.encoding == "rope"));
  }
}

TEST_CASE("evaluated again under one seed, all runs have met the same samples") {
  const Folder folder;
  for (const int seed : {1, 2, 3, 4}) {
    const std::string run = write_result(folder, {"rope", seed, 1.0, {{40, 0.5}}});
    StoredEvaluation again;
    again.label = "seed=99";
    again.overrides = {"seed=99"};
    again.scores.in_range.push_back({0, false, score_of(1.0)});
    again.scores.lengths.push_back({40, false, score_of(0.5)});
    write_evaluation(run, again);
  }
  const Report report = gather_report({folder.path()});
  // Half of 400, and half of 100: z / (2 sqrt(n + z^2)).
  const double wide = 1.959964 / (2 * std::sqrt(103.841459));
  const double narrow = 1.959964 / (2 * std::sqrt(403.841459));
  CHECK(group_of(report, "rope").out_of_range.sampling.high == Approx(0.5 + narrow));
  CHECK(group_of(report, "rope (seed=99)").out_of_range.sampling.high == Approx(0.5 + wide));
}

// R1.10
TEST_CASE("beyond is over lengths that every row has, and absent ones are said") {
  const Folder folder;
  const double missing = std::nan("");
  write_result(folder, {"rope", 1, 1.0, {{30, 0.9}, {40, 0.5}, {50, missing}}});
  write_result(folder, {"alibi", 1, 1.0, {{30, 0.8}, {50, missing}}});
  const Report report = gather_report({folder.path()});
  CHECK(group_of(report, "rope").out_of_range.mean == Approx(0.9));
  CHECK(group_of(report, "alibi").out_of_range.mean == Approx(0.8));
  const std::string text = report_markdown(report);
  CHECK_THAT(text, ContainsSubstring("No test samples of length 50."));
  CHECK_THAT(text, ContainsSubstring("Not every run was measured at length 40; beyond is the mean "
                                     "over 30, where every run was."));
}

TEST_CASE("whatever differs tells groups apart; tasks and training ranges are panels") {
  const Folder folder;
  write_result(folder, {"rope", 1, 1, {{40, 0.5}}, "base = 500.0"});
  write_result(folder, {"rope", 1, 1, {{40, 0.7}}, "base = 10000.0"});
  write_result(folder, {"none", 1, 1, {{40, 0.5}}});
  Result wide = {"rope", 1, 1, {{40, 0.5}}, "base = 500.0"};
  wide.model = "dim = 128";
  write_result(folder, wide);
  Result longer = {"rope", 1, 1, {{80, 0.5}}, "base = 500.0"};
  longer.train_max = 40;
  write_result(folder, longer);
  const Report report = gather_report({folder.path()});
  CHECK(report.panels.size() == 2);
  REQUIRE(report.panels[0].groups.size() == 4);
  group_of(report, "rope, dim 64, base 500.0");
  group_of(report, "rope, dim 64, base 10000.0");
  group_of(report, "rope, dim 128, base 500.0");
  group_of(report, "none, dim 64");
  CHECK(std::count(report.differing.begin(), report.differing.end(), "encoding") == 1);
  CHECK(std::count(report.differing.begin(), report.differing.end(), "encoding.base") == 1);
  CHECK(std::count(report.differing.begin(), report.differing.end(), "model.dim") == 1);
}

TEST_CASE(
    "an option in which encodings differ, but not one encoding's runs, is no part of a label") {
  const Folder folder;
  for (const int seed : {1, 2}) {
    for (const char* encoding : {"rope", "alibi"}) {
      Result result = {encoding, seed, 1, {{40, 0.5}}};
      result.positions =
          std::string("per_layer = ") + (result.encoding == "rope" ? "true" : "false");
      write_result(folder, result);
    }
  }
  Result other = {"alibi", 1, 1, {{40, 0.5}}};
  other.positions = "per_layer = true";
  write_result(folder, other);
  const Report report = gather_report({folder.path()});
  REQUIRE(report.panels.size() == 1);
  REQUIRE(report.panels[0].groups.size() == 3);
  CHECK(group_of(report, "rope").runs.size() == 2);
  CHECK(group_of(report, "alibi, per_layer false").runs.size() == 2);
  CHECK(group_of(report, "alibi, per_layer true").runs.size() == 1);
}

TEST_CASE("a run found twice counts once; damaged and unfinished runs are named") {
  const Folder folder;
  const std::string run = write_result(folder, {"rope", 1, 1, {{40, 0.5}}});
  fs::copy(run, folder / "copy");
  const std::string damaged = write_result(folder, {"none", 1, 1, {{40, 0.5}}});
  folder.write(damaged.substr(folder.path().size() + 1) + "/summary.json", "{\"format\": 1,");
  fs::create_directory(folder / "begun");
  folder.write("begun/config.toml", "");
  const Report report = gather_report({folder.path(), run});
  REQUIRE(report.summaries.size() == 1);
  CHECK(group_of(report, "rope").in_range.n == 1);
  REQUIRE(report.unfinished.size() == 3);
  const std::string text = report_text(report, false, 100);
  CHECK_THAT(text, ContainsSubstring("the same run as") && ContainsSubstring("damaged") &&
                       ContainsSubstring("begun"));
  CHECK_THROWS_WITH(gather_report({folder / "begun"}), ContainsSubstring("no finished run"));
  CHECK_THROWS_WITH(gather_report({folder / "nowhere"}), ContainsSubstring("no such folder"));
}

TEST_CASE("CSV: every number of every run reads back") {
  const Folder folder;
  Result odd = {"rope", 7, 0.123456789012345, {{40, 1.0 / 3}}};
  odd.study = "a, \"quoted\" study";
  write_result(folder, odd);
  write_result(folder, {"none", 8, 1, {{30, 0.25}, {40, 0.125}}});
  const auto rows = parse_csv(report_csv(gather_report({folder.path()})));
  REQUIRE(rows.size() == 1 + 2 + 3);
  std::map<std::string, size_t> column;
  for (size_t c = 0; c < rows[0].size(); ++c) column[rows[0][c]] = c;
  for (const auto& row : rows) CHECK(row.size() == rows[0].size());
  int found = 0;
  for (size_t r = 1; r < rows.size(); ++r) {
    const auto at = [&](const char* name) { return rows[r].at(column.at(name)); };
    if (at("seed") == "7") {
      CHECK(at("study") == "a, \"quoted\" study");
      CHECK(at("encoding") == "rope");
      const double value = std::stod(at("accuracy"));
      CHECK(value == (at("length") == "in_range" ? 0.123456789012345 : 1.0 / 3));
      ++found;
    } else if (at("length") == "40") {
      CHECK(std::stod(at("accuracy")) == 0.125);
      ++found;
    }
  }
  CHECK(found == 3);
}

TEST_CASE("markdown: one table a panel, equally many cells in every row") {
  const Folder folder;
  for (const int seed : {1, 2}) {
    write_result(folder, {"rope", seed, 1, {{10, 1}, {40, 0.5}}});
    write_result(folder, {"none", seed, 0.6, {{10, 0.6}, {40, 0.5}}});
  }
  const std::string text = report_markdown(gather_report({folder.path()}));
  std::istringstream lines(text);
  int rows = 0;
  int64_t bars = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line[0] != '|') continue;
    const int64_t here = std::count(line.begin(), line.end(), '|');
    if (rows++ == 0) bars = here;
    CHECK(here == bars);
  }
  CHECK(rows == 4);
  CHECK_THAT(text,
             ContainsSubstring(
                 "| rope | 100.0 +- 0.0 | 50.0 +- 0.0 | 50.0 | 100.0 | 50.0 | 2 | fails beyond |"));
}

TEST_CASE("text fits the width it is given where it can") {
  const Folder folder;
  Result result = {"sinusoidal", 1, 1, {}};
  for (int64_t length = 30; length <= 600; length += 10) result.scores.push_back({length, 0.5});
  write_result(folder, result);
  const Report report = gather_report({folder.path()});
  for (const int64_t width : {60, 80, 120}) {
    std::istringstream lines(report_text(report, false, width));
    std::string line;
    std::getline(lines, line);  // the heading is a sentence
    while (std::getline(lines, line)) CHECK(int64_t(line.size()) <= std::max<int64_t>(width, 80));
    // R3.7: what is not shown is said.
    CHECK_THAT(report_text(report, false, width), ContainsSubstring("left out"));
  }
  CHECK(report_text(report, false, 2000).find("left out") == std::string::npos);
  CHECK_THAT(report_text(report, false, 80),
             ContainsSubstring("n=30") && ContainsSubstring("n=600"));
}
