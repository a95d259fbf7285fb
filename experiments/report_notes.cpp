// What a panel's numbers are and are not, in sentences: the same for the terminal, markdown and
// HTML.
#include <algorithm>
#include <cmath>

#include "experiments/report.h"

namespace longshot {
namespace {

std::string list_of(const std::vector<int64_t>& lengths) {
  std::string text;
  for (const int64_t length : lengths) text += (text.empty() ? "" : ", ") + std::to_string(length);
  return text;
}

// How many of the group's runs were measured at this length.
int64_t runs_at(const ReportGroup& group, int64_t length) {
  for (const ReportPoint& point : group.points)
    if (point.length == length) return point.spread.n;
  return 0;
}

std::string in_range_note(const ReportPanel& panel) {
  const int64_t least = panel.in_range_samples_least, most = panel.in_range_samples_most;
  if (most == 0)
    return "No in-range data: the test samples hold none of the training lengths, and the "
           "validation part neither. Whether a model has learned the task is not known, and there "
           "is no verdict.";
  std::string text = panel.in_range_from_validation
                         ? "In range is measured on the validation part, as the test samples lack "
                           "training lengths: "
                         : "In range: ";
  text += least == most ? fmt::format("{} samples a run.", most)
                        : fmt::format("{} to {} samples a run.", least, most);
  double coverage = 1;
  bool known = true;
  for (const ReportGroup& group : panel.groups) {
    if (group.later) continue;
    known = known && std::isfinite(group.coverage);
    coverage = std::fmin(coverage, group.coverage);
  }
  if (!known)
    text +=
        " Whether they have the training lengths' distribution is not known, as an earlier version "
        "recorded them: no verdict.";
  else if (coverage < 1)
    text +=
        fmt::format(" They hold the lengths of {:.1f} % of the training sequences{}.",
                    100 * coverage, coverage < kEnoughCoverage ? ": too little for a verdict" : "");
  return text;
}

std::string missing_note(const ReportPanel& panel) {
  std::vector<int64_t> nowhere, partly;
  for (const int64_t length : panel.lengths) {
    int64_t having = 0, cells = 0, measured = 0;
    for (const ReportGroup& group : panel.groups) {
      having += runs_at(group, length);
      if (group.later) continue;
      cells += int64_t(group.runs.size());
      measured += runs_at(group, length);
    }
    if (having == 0)
      nowhere.push_back(length);
    else if (measured > 0 && measured < cells)
      partly.push_back(length);
  }
  std::string text;
  if (!nowhere.empty()) text += fmt::format("No test samples of length {}.", list_of(nowhere));
  if (!partly.empty() && partly.back() > panel.train_max)
    text += fmt::format("{}Not every run was measured at length {}; beyond is {}.",
                        text.empty() ? "" : " ", list_of(partly),
                        panel.beyond.empty() ? "empty, as no longer length is common to all"
                                             : fmt::format("the mean over {}, where every run was",
                                                           list_of(panel.beyond)));
  return text;
}

std::string sampling_note(const ReportPanel& panel) {
  const double widest = panel.sampling();
  if (!std::isfinite(widest))
    return std::string(
               "Sampling error: not known; an earlier version recorded these results "
               "without it") +
           (panel.metric == "loss" ? "." : ", and without what the best constant answer gets.");
  const std::string size = panel.metric == "loss" ? fmt::format("{:.3f}", widest)
                                                  : fmt::format("{:.1f} points", 100 * widest);
  return fmt::format(
      "Sampling error, from the finite number of test samples: at most {} at one length (half of a "
      "95 % interval).",
      size);
}

}  // namespace

std::vector<std::string> notes_of(const ReportPanel& panel) {
  std::vector<std::string> notes = {in_range_note(panel)};
  const std::string missing = missing_note(panel);
  if (!missing.empty()) notes.push_back(missing);
  notes.push_back(sampling_note(panel));
  if (std::any_of(panel.groups.begin(), panel.groups.end(),
                  [](const ReportGroup& group) { return group.later; }))
    notes.push_back(
        "Rows with key=value in brackets are runs evaluated again (`longshot eval`); `longshot "
        "eval "
        "RUN --forget LABEL` takes one out, `--forget all` every one.");
  return notes;
}

std::string chance_words(const ReportPanel& panel) {
  if (panel.metric == "loss") return "";
  if (panel.constants.empty()) return fmt::format("chance {:.1f}", 100 * panel.chance);
  double least = 1, most = 0;
  for (const auto& [length, share] : panel.constants)
    least = std::min(least, share), most = std::max(most, share);
  const std::string in_range = std::isfinite(panel.in_range_constant)
                                   ? fmt::format("{:.1f} in range, ", 100 * panel.in_range_constant)
                                   : "";
  return fmt::format("{:.1f}", 100 * least) == fmt::format("{:.1f}", 100 * most)
             ? fmt::format("best constant answer {}{:.1f} at each length", in_range, 100 * most)
             : fmt::format("best constant answer {}{:.1f} to {:.1f} by length", in_range,
                           100 * least, 100 * most);
}

}  // namespace longshot
