#include "experiments/report.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <set>
#include <tuple>

#include "core/error.h"
#include "core/files.h"
#include "experiments/run_folder.h"

namespace longshot {
namespace {

namespace fs = std::filesystem;

// One evaluation of one run: what a curve averages over.
struct Item {
  const Summary* summary;
  const StoredEvaluation* evaluation;
  bool sliding;
};

void find_runs(const fs::path& folder, int depth, std::vector<std::string>& runs) {
  if (fs::exists(folder / "config.toml")) {
    runs.push_back(folder.string());
    return;
  }
  if (depth == 0) return;
  std::vector<fs::path> below;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (entry.is_directory()) below.push_back(entry.path());
  std::sort(below.begin(), below.end());
  for (const fs::path& each : below) find_runs(each, depth - 1, runs);
}

bool is_encoding_key(const std::string& key) {
  return key == "encoding" || key == "positions" || key == "encoding.type" || key == "positions.type";
}

// Sweep keys, other than the seed, that take more than one value among these runs.
std::vector<std::string> differing_keys(const std::vector<Summary>& summaries) {
  std::map<std::string, std::set<std::string>> values;
  std::vector<std::string> order;
  for (const Summary& summary : summaries) {
    for (const auto& [key, value] : summary.axes) {
      if (values.find(key) == values.end()) order.push_back(key);
      values[key].insert(value);
    }
  }
  // A key that some runs lack differs, too.
  for (auto& [key, seen] : values) {
    for (const Summary& summary : summaries) {
      const bool has = std::any_of(summary.axes.begin(), summary.axes.end(),
                                   [&, &key = key](const auto& axis) { return axis.first == key; });
      if (!has) seen.insert("");
    }
  }
  std::vector<std::string> result;
  for (const std::string& key : order)
    if (values[key].size() > 1) result.push_back(key);
  return result;
}

std::string axis_value(const Summary& summary, const std::string& key) {
  for (const auto& [name, value] : summary.axes)
    if (name == key) return value;
  return "";
}

std::string group_label(const Item& item, const std::vector<std::string>& differing, bool full) {
  const Summary& summary = *item.summary;
  std::string label = summary.encoding_label;
  for (const std::string& key : differing) {
    if (key == "seed" || key == "task" || key == "task.type") continue;
    if (is_encoding_key(key) && !full) continue;
    const std::string value = axis_value(summary, key);
    if (value.empty()) continue;
    const size_t dot = key.find_last_of('.');
    label += fmt::format(", {} {}", dot == std::string::npos ? key : key.substr(dot + 1), value);
  }
  if (!item.evaluation->label.empty()) label += fmt::format(" ({})", item.evaluation->label);
  return label;
}

Verdict judge(const ReportPanel& panel, const ReportGroup& group) {
  if (panel.metric == "loss") return Verdict::none;
  const ReportPoint* longest = nullptr;
  for (const ReportPoint& point : group.points)
    if (point.length > panel.train_max) longest = &point;
  if (longest == nullptr) return Verdict::none;
  const double inside = group.in_range.mean, outside = longest->spread.mean;
  if (inside < 0.99) return Verdict::not_fitted;
  if (outside - panel.chance < inside - outside) return Verdict::fails;
  return outside < inside - 0.05 ? Verdict::degrades : Verdict::extrapolates;
}

ReportGroup make_group(const ReportPanel& panel, std::string label, const std::vector<Item>& items) {
  ReportGroup group;
  group.label = std::move(label);
  group.encoding = items.front().summary->encoding;
  std::vector<double> inside, inside_errors, outside, outside_errors;
  std::map<int64_t, std::pair<std::vector<double>, std::vector<double>>> by_length;
  for (const Item& item : items) {
    const Summary& summary = *item.summary;
    group.runs.push_back(&summary);
    group.parameters = summary.parameters;
    group.seconds += summary.train_seconds / double(items.size());
    if (const Score* score = in_range(*item.evaluation, item.sliding)) {
      inside.push_back(metric_of(summary, *score));
      inside_errors.push_back(metric_error_of(summary, *score));
    }
    double squares = 0;
    int64_t beyond = 0;
    for (const LengthScore& each : item.evaluation->scores.lengths) {
      if (each.sliding != item.sliding || each.score.samples == 0) continue;
      auto& [values, errors] = by_length[each.length];
      values.push_back(metric_of(summary, each.score));
      errors.push_back(metric_error_of(summary, each.score));
      if (each.length > panel.train_max) {
        squares += errors.back() * errors.back();
        ++beyond;
      }
    }
    const double out = out_of_range(summary, *item.evaluation, item.sliding);
    if (std::isfinite(out)) {
      outside.push_back(out);
      outside_errors.push_back(std::sqrt(squares) / double(beyond));
    }
  }
  group.in_range = spread_of(inside, inside_errors);
  group.out_of_range = spread_of(outside, outside_errors);
  group.best_out_of_range =
      panel.metric == "loss" ? group.out_of_range.min : group.out_of_range.max;
  for (const auto& [length, scores] : by_length)
    group.points.push_back({length, spread_of(scores.first, scores.second)});
  group.verdict = judge(panel, group);
  return group;
}

}  // namespace

const char* name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::not_fitted: return "not fitted";
    case Verdict::fails: return "fails beyond";
    case Verdict::degrades: return "degrades";
    case Verdict::extrapolates: return "extrapolates";
    case Verdict::none: break;
  }
  return "";
}

Spread spread_of(const std::vector<double>& values, const std::vector<double>& errors) {
  Spread spread;
  spread.n = int64_t(values.size());
  if (values.empty()) {
    spread.mean = spread.max = spread.min = std::numeric_limits<double>::quiet_NaN();
    return spread;
  }
  const double n = double(values.size());
  for (const double value : values) spread.mean += value / n;
  double squares = 0;
  for (const double value : values) squares += (value - spread.mean) * (value - spread.mean);
  if (values.size() > 1) spread.deviation = std::sqrt(squares / (n - 1));
  spread.max = *std::max_element(values.begin(), values.end());
  spread.min = *std::min_element(values.begin(), values.end());
  double error_squares = 0;
  for (const double error : errors) error_squares += error * error;
  spread.sampling_error = std::sqrt(error_squares) / n;
  return spread;
}

Report gather_report(const std::vector<std::string>& folders) {
  Report report;
  std::vector<std::string> runs;
  for (const std::string& folder : folders) {
    if (!fs::is_directory(folder))
      throw UsageError(fmt::format("{}: no such folder", folder));
    find_runs(folder, 2, runs);
  }
  std::sort(runs.begin(), runs.end());
  runs.erase(std::unique(runs.begin(), runs.end()), runs.end());
  for (const std::string& run : runs) {
    if (!file_exists(run + "/summary.json")) {
      const RunStatus status = read_status(run);
      report.unfinished.push_back({run, name_of(status.state), status.message});
      continue;
    }
    try {
      report.summaries.push_back(read_summary(run));
    } catch (const Error& error) {
      report.unfinished.push_back({run, "damaged", error.what()});
    }
  }
  if (report.summaries.empty()) {
    std::string places;
    for (const std::string& folder : folders) places += (places.empty() ? "" : ", ") + folder;
    throw UsageError(fmt::format("{}: no finished run ({} unfinished)", places, report.unfinished.size()));
  }
  std::set<std::string> studies;
  for (const Summary& summary : report.summaries) studies.insert(summary.study);
  for (const std::string& study : studies) report.title += (report.title.empty() ? "" : ", ") + study;
  report.differing = differing_keys(report.summaries);

  // A panel: same task and training range, and the same kind of evaluation window.
  using PanelKey = std::tuple<std::string, int64_t, int64_t, bool>;
  std::map<PanelKey, std::vector<Item>> panels;
  for (const Summary& summary : report.summaries) {
    for (const StoredEvaluation& evaluation : summary.evaluations) {
      for (const LengthScore& window : evaluation.scores.in_range) {
        panels[{summary.task, summary.train_min, summary.train_max, window.sliding}].push_back(
            {&summary, &evaluation, window.sliding});
      }
    }
  }
  for (const auto& [key, items] : panels) {
    ReportPanel panel;
    const Summary& first = *items.front().summary;
    panel.task = first.task;
    panel.metric = first.metric;
    panel.bytes = first.bytes;
    panel.sliding = std::get<3>(key);
    panel.train_min = first.train_min;
    panel.train_max = first.train_max;
    panel.chance = first.chance;
    panel.title = fmt::format("{}, trained on lengths {} to {}{}", panel.task, panel.train_min,
                              panel.train_max, panel.sliding ? ", sliding window" : "");
    // Runs that differ in nothing but the seed belong together. The short label leaves out the encoding's
    // options; where that would join different encodings, the long one is used.
    std::map<std::string, std::set<std::string>> long_labels;
    for (const Item& item : items) {
      long_labels[group_label(item, report.differing, false)].insert(
          group_label(item, report.differing, true));
    }
    std::vector<std::string> order;
    std::map<std::string, std::vector<Item>> groups;
    std::set<int64_t> lengths;
    for (const Item& item : items) {
      const std::string brief = group_label(item, report.differing, false);
      const std::string label =
          long_labels[brief].size() > 1 ? group_label(item, report.differing, true) : brief;
      if (groups.find(label) == groups.end()) order.push_back(label);
      groups[label].push_back(item);
      for (const LengthScore& each : item.evaluation->scores.lengths)
        if (each.sliding == item.sliding) lengths.insert(each.length);
    }
    panel.lengths.assign(lengths.begin(), lengths.end());
    for (const std::string& label : order) {
      std::vector<Item>& members = groups[label];
      std::sort(members.begin(), members.end(), [](const Item& a, const Item& b) {
        return a.summary->seed < b.summary->seed;
      });
      panel.groups.push_back(make_group(panel, label, members));
    }
    // Best beyond first; what could not be fitted last.
    const bool loss = panel.metric == "loss";
    std::stable_sort(panel.groups.begin(), panel.groups.end(),
                     [&](const ReportGroup& a, const ReportGroup& b) {
                       const bool fit_a = a.verdict != Verdict::not_fitted;
                       const bool fit_b = b.verdict != Verdict::not_fitted;
                       if (fit_a != fit_b) return fit_a;
                       if (!std::isfinite(a.out_of_range.mean) || !std::isfinite(b.out_of_range.mean))
                         return false;
                       return loss ? a.out_of_range.mean < b.out_of_range.mean
                                   : a.out_of_range.mean > b.out_of_range.mean;
                     });
    report.panels.push_back(std::move(panel));
  }
  return report;
}

}  // namespace longshot
