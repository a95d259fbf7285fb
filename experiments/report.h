// Report: finished runs, gathered, grouped and averaged over seeds; printed as text, markdown, CSV
// or HTML.
//
// A group is a set of runs that differ in nothing but the seed: one curve, one row. Runs of one
// task (with the same options) and one training range are compared with each other: one panel. What
// differs is read from each run's config.toml, so that runs of several studies can be reported
// together.
#pragma once

#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "experiments/summary.h"

namespace longshot {

// Mean, spread and extremes of one number over a group's runs.
struct Spread {
  int64_t n = 0;
  double mean = 0, deviation = 0;  // sample standard deviation, 0 when n < 2
  double max = 0, min = 0;
  Interval sampling;  // 95 %, of the mean, from the finite test samples alone; NaN: not known
};

struct ReportPoint {
  int64_t length = 0;
  Spread spread;
};

enum class Verdict {
  not_fitted,  // in range below 99 %: nothing can be said about extrapolation
  fails,       // fitted, and at the longest length nearer to chance than to its own in-range score
  degrades,    // fitted, and loses more than 5 points by the longest length
  extrapolates,  // fitted, and keeps its score
  no_in_range,   // too few test samples of the training lengths: whether it is fitted is not known
  constant,      // a constant answer does as well, in range or at the longest length
  none           // a loss, not an accuracy, or nothing beyond the training lengths
};
const char* name_of(Verdict verdict);

struct ReportGroup {
  std::string label;  // "rope randomized, base 500": with whatever tells it from the others
  std::string encoding;
  std::vector<const Summary*> runs;  // by seed
  bool later = false;  // not a cell of its own: a run evaluated again by `longshot eval`
  Spread in_range, out_of_range;
  std::vector<ReportPoint> points;  // ascending length, where something was measured
  // In range: the least share of the training lengths' distribution; NaN: not known.
  double coverage = 1;
  // What the best constant answer gets on the row's own samples: in range, and by length. Empty:
  // not what chance is here, or not known.
  double in_range_constant = std::numeric_limits<double>::quiet_NaN();
  std::map<int64_t, double> constants;
  double best_out_of_range = 0;  // of the run with the best score beyond: "max" of the literature
  int64_t parameters = 0;
  double seconds = 0;  // mean training time
  Verdict verdict = Verdict::none;
};

struct ReportPanel {
  std::string title;  // task and whatever else the panel's runs share and others do not
  std::string task, metric;
  bool bytes = false, sliding = false;
  int64_t train_min = 0, train_max = 0;
  double chance = 0;  // of guessing, where `constants` is empty
  // What the best constant answer gets, over the cells' own evaluations.
  double in_range_constant = std::numeric_limits<double>::quiet_NaN();
  std::map<int64_t, double> constants;
  std::vector<int64_t> lengths;  // all that were asked for, ascending
  std::vector<int64_t> beyond;   // those that "beyond" is the mean of: every group has them
  std::vector<ReportGroup> groups;
  // In range: which split (usually test), and the samples of a run.
  bool in_range_from_validation = false;
  int64_t in_range_samples_least = 0, in_range_samples_most = 0;
  bool repeated() const;  // some group has more than one run: spreads mean something
  // Half the widest sampling interval of a number at one length, in the metric's unit; NaN: of no
  // number known.
  double sampling() const;
};

struct UnfinishedRun {
  std::string folder, state, message;
};

struct Report {
  std::string title;
  std::vector<Summary> summaries;
  std::vector<ReportPanel> panels;
  std::vector<UnfinishedRun> unfinished;
  std::vector<std::string> differing;  // keys in which the runs differ
};

// Every finished run in the given folders and in their folders, two levels deep, and in the given
// CSV files, which a report has written; a folder without runs stands for the CSV files in it.
// UsageError when a place does not exist or holds none. Damaged runs are listed as unfinished. Runs
// of one CSV file are compared with each other only: what they have in common it does not tell.
// `config`: identities of the cells that a config describes; of others the label says so. Empty:
// all.
Report gather_report(const std::vector<std::string>& places,
                     const std::set<std::string>& config = {});
// Of the run's settings; "encoding" means "encoding.type"; "" when it has none.
std::string value_of(const Summary& summary, const std::string& key);
// `same_samples`: nothing where it is not known (the sampling interval then is not either).
Spread spread_of(const std::vector<Measure>& measures, bool loss, std::optional<bool> same_samples);
// Sentences on what the panel's numbers are and are not, for every form of the report: the samples
// in range, what is missing, the sampling intervals.
std::vector<std::string> notes_of(const ReportPanel& panel);
// "chance 20.0", or what the best constant answer gets; "" for a loss.
std::string chance_words(const ReportPanel& panel);

std::string report_text(const Report& report, bool color, int64_t width);
std::string report_markdown(const Report& report);
// One row a panel, one column a label. `what`: "mean" and "best" of the runs beyond the training
// lengths, or "in_range".
std::string report_matrix(const Report& report, const std::string& what);
// One line a run, evaluation, window and length; and those lines read back
// (experiments/report_csv.cpp).
std::string report_csv(const Report& report);
std::vector<Summary> read_report_csv(const std::string& file);
// A markdown text with the tables between these two lines made anew, from places named as seen from
// `folder` (experiments/report_update.cpp):
//   <!-- longshot report [--matrix mean|best|in_range] PLACE... -->
//   <!-- end of report -->
std::string updated_tables(const std::string& text, const std::string& folder);
std::string report_html(const Report& report);  // experiments/report_html.cpp

}  // namespace longshot
