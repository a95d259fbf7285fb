#include "experiments/report.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <set>
#include <tuple>

#include "core/config_toml.h"
#include "core/error.h"
#include "core/files.h"
#include "core/streams.h"
#include "experiments/run_cell.h"
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
  for (const std::string& each : list_folder(folder.string()))
    if (fs::is_directory(each)) find_runs(each, depth - 1, runs);
}

// Keys that change how a run is done or measured, not what it learns.
bool is_incidental(const std::string& key) {
  static const std::set<std::string> kKeys = {"name", "device.capture", "train.log_every",
                                              "train.evaluate_every", "train.checkpoint_every"};
  return kKeys.count(key) > 0 || key.starts_with("evaluate.");
}

void flatten(const ConfigTable& table, const std::string& prefix,
             std::vector<std::pair<std::string, std::string>>& settings) {
  for (const auto& [name, value] : table.entries()) {
    const std::string key = prefix + name;
    if (value.is_table()) {
      flatten(value.as_table(), key + ".", settings);
    } else if (!is_incidental(key)) {
      settings.emplace_back(key, value.is_string() ? value.as_string() : value.to_toml());
    }
  }
}

// The section whose `type` decides which options there are: "encoding" of "encoding.base"; "" for
// other keys.
std::string typed_section(const std::string& key) {
  for (const char* section : {"task", "encoding", "positions"})
    if (key.starts_with(std::string(section) + ".") && key != std::string(section) + ".type")
      return section;
  return "";
}

// "encoding.type" is called "encoding".
std::string short_name(const std::string& key) {
  return key.ends_with(".type") ? key.substr(0, key.size() - 5) : key;
}

// Keys that take more than one value among these runs, each with the kinds (encoding types, for an
// encoding's option) among which it does. An option that only some types have is no difference: the
// type is.
using Differing = std::vector<std::pair<std::string, std::set<std::string>>>;
Differing differing_keys(const std::vector<const Summary*>& summaries) {
  struct Kind {
    std::set<std::string> values;
    size_t runs = 0;
  };
  std::map<std::string, std::map<std::string, Kind>> keys;
  std::map<std::string, std::map<std::string, size_t>> sizes;  // by section and kind
  std::vector<std::string> order;
  for (const Summary* summary : summaries) {
    std::map<std::string, std::string> kinds = {{"", ""}};
    for (const char* section : {"task", "encoding", "positions"})
      kinds[section] = value_of(*summary, std::string(section) + ".type");
    for (const auto& [section, kind] : kinds) ++sizes[section][kind];
    for (const auto& [key, value] : summary->settings) {
      if (keys.find(key) == keys.end()) order.push_back(key);
      Kind& kind = keys[key][kinds[typed_section(key)]];
      kind.values.insert(value);
      ++kind.runs;
    }
  }
  Differing result;
  for (const std::string& key : order) {
    std::set<std::string> where;
    for (const auto& [name, kind] : keys[key])
      if (kind.values.size() > 1 || kind.runs < sizes[typed_section(key)][name]) where.insert(name);
    if (!where.empty()) result.emplace_back(key, where);
  }
  return result;
}

// "scaling=yarn factor=4" of "encoding.scaling=yarn encoding.factor=4".
std::string without_sections(const std::string& label) {
  std::string out;
  for (size_t i = 0; i < label.size();) {
    if (i == 0 || label[i - 1] == ' ') {
      const std::string_view rest = std::string_view(label).substr(i);
      for (const std::string_view section : {"encoding.", "evaluate.", "positions.", "task."})
        if (rest.starts_with(section)) i += section.size();
    }
    if (i < label.size()) out += label[i++];
  }
  return out;
}

// An option of an encoding or a sampler that all runs called the same share tells nothing apart.
bool told_by_label(const Summary& summary, const std::string& key,
                   const std::vector<const Summary*>& all) {
  const std::string section = typed_section(key);
  if (section != "encoding" && section != "positions") return false;
  const std::string value = value_of(summary, key);
  return std::all_of(all.begin(), all.end(), [&](const Summary* other) {
    return other->encoding_label != summary.encoding_label || value_of(*other, key) == value;
  });
}

std::string group_label(const Item& item, const Differing& differing,
                        const std::vector<const Summary*>& all) {
  const Summary& summary = *item.summary;
  std::string label = summary.encoding_label;
  for (const auto& [key, kinds] : differing) {
    if (key == "seed" || key == "encoding.type" || key == "positions.type") continue;
    const std::string section = typed_section(key);
    if (!section.empty() && kinds.count(value_of(summary, section + ".type")) == 0) continue;
    const std::string value = value_of(summary, key);
    if (value.empty() || told_by_label(summary, key, all)) continue;
    const std::string name = short_name(key);
    const size_t dot = name.find_last_of('.');
    label += fmt::format(", {} {}", dot == std::string::npos ? name : name.substr(dot + 1), value);
  }
  if (summary.outside_config) label += " [not in this config]";
  if (!item.evaluation->label.empty())
    label += fmt::format(" ({})", without_sections(item.evaluation->label));
  return label;
}

// The settings of config.toml; of a run whose config cannot be read, what its summary knows.
void read_settings(Summary& summary) {
  try {
    flatten(parse_toml_file(summary.folder + "/config.toml"), "", summary.settings);
  } catch (const FileError&) {  // it may be whole: it could not be read
    throw;
  } catch (const Error&) {
    summary.settings.clear();
  }
  if (!value_of(summary, "encoding.type").empty()) return;
  summary.settings = {{"seed", std::to_string(summary.seed)},
                      {"task.type", summary.task},
                      {"encoding.type", summary.encoding},
                      {"positions.type", summary.positions}};
  for (const auto& axis : summary.axes)
    if (axis.first.find('.') != std::string::npos) summary.settings.push_back(axis);
}

// What the best constant answer got, by length (0: in range), over these runs. Nothing where chance
// is a guess among the symbols.
std::map<int64_t, double> constants_of(const std::vector<Item>& items) {
  std::map<int64_t, std::vector<double>> values;
  for (const Item& item : items) {
    const Summary& summary = *item.summary;
    const bool sequences = summary.metric == "sequence_accuracy";
    if (summary.metric == "loss" || (!sequences && !summary.constant_is_chance)) continue;
    const auto add = [&](int64_t length, const Score& score) {
      const double value = sequences ? score.constant_sequence : score.constant;
      if (std::isfinite(value)) values[length].push_back(value);
    };
    if (const Score* inside = in_range(*item.evaluation, item.sliding)) add(0, *inside);
    for (const LengthScore& each : item.evaluation->scores.lengths)
      if (each.sliding == item.sliding) add(each.length, each.score);
  }
  std::map<int64_t, double> means;
  for (const auto& [length, list] : values)
    for (const double value : list) means[length] += value / double(list.size());
  return means;
}

// Into a group or a panel.
template <class Target>
void set_constants(Target& target, std::map<int64_t, double> means) {
  if (const auto inside = means.find(0); inside != means.end()) {
    target.in_range_constant = inside->second;
    means.erase(inside);
  }
  target.constants = std::move(means);
}

Verdict judge(const ReportPanel& panel, const ReportGroup& group) {
  if (panel.metric == "loss") return Verdict::none;
  const ReportPoint* longest = nullptr;
  for (const ReportPoint& point : group.points)
    if (!panel.beyond.empty() && point.length == panel.beyond.back()) longest = &point;
  if (longest == nullptr) return Verdict::none;
  const double inside = group.in_range.mean, outside = longest->spread.mean;
  if (!std::isfinite(inside) || !(group.coverage >= kEnoughCoverage)) return Verdict::no_in_range;
  if (inside < 0.99) return Verdict::not_fitted;
  const auto found = group.constants.find(longest->length);
  const double chance = found == group.constants.end() ? panel.chance : found->second;
  // Nothing was learned that a constant does not know, or nothing could be lost.
  if (inside <= group.in_range_constant || chance >= inside - 0.05) return Verdict::constant;
  if (outside - chance < inside - outside) return Verdict::fails;
  return outside < inside - 0.05 ? Verdict::degrades : Verdict::extrapolates;
}

ReportGroup make_group(const ReportPanel& panel, std::string label,
                       const std::vector<Item>& items) {
  ReportGroup group;
  group.label = std::move(label);
  group.encoding = items.front().summary->encoding;
  group.later = !items.front().evaluation->label.empty();
  // Every run knows whether its samples are the same for all seeds, or it is not known of any.
  std::optional<bool> same_samples = items.front().summary->fixed_samples;
  bool one_seed = false;
  std::vector<Measure> inside, outside;
  std::map<int64_t, std::vector<Measure>> by_length;
  set_constants(group, constants_of(items));
  for (const Item& item : items) {
    const Summary& summary = *item.summary;
    group.runs.push_back(&summary);
    group.parameters = summary.parameters;
    group.seconds += summary.train_seconds / double(items.size());
    if (summary.fixed_samples != same_samples) same_samples.reset();
    // Evaluated again under one seed: all runs met the samples of that seed.
    for (const std::string& each : item.evaluation->overrides)
      one_seed = one_seed || each.starts_with("seed=");
    if (const Score* score = in_range(*item.evaluation, item.sliding)) {
      inside.push_back(metric_of(summary, *score));
      // An earlier version did not say; only own data can lack lengths.
      const double coverage =
          std::isnan(score->coverage) && summary.task != "jsonl" ? 1 : score->coverage;
      if (!(coverage >= group.coverage)) group.coverage = coverage;
    }
    for (const LengthScore& each : item.evaluation->scores.lengths)
      if (each.sliding == item.sliding)
        by_length[each.length].push_back(metric_of(summary, each.score));
    outside.push_back(mean_over(summary, *item.evaluation, item.sliding, panel.beyond));
  }
  if (one_seed) same_samples = true;
  const bool loss = panel.metric == "loss";
  group.in_range = spread_of(inside, loss, same_samples);
  group.out_of_range = spread_of(outside, loss, same_samples);
  group.best_out_of_range = loss ? group.out_of_range.min : group.out_of_range.max;
  for (const auto& [length, measures] : by_length) {
    const Spread spread = spread_of(measures, loss, same_samples);
    if (spread.n > 0) group.points.push_back({length, spread});
  }
  group.verdict = judge(panel, group);
  return group;
}

// The lengths of the panel, those that every cell has been measured at beyond training, what a
// constant answer gets, and where "in range" is from. Later evaluations of a run may ask for other
// lengths and other data; they decide nothing here.
void measure_panel(ReportPanel& panel, const std::vector<Item>& items) {
  std::set<int64_t> asked;
  std::vector<Item> cells;
  bool first = true;
  for (const Item& item : items) {
    for (const LengthScore& each : item.evaluation->scores.lengths)
      if (each.sliding == item.sliding) asked.insert(each.length);
    if (!item.evaluation->label.empty()) continue;
    if (const Score* inside = in_range(*item.evaluation, item.sliding)) {
      panel.in_range_samples_least =
          cells.empty() ? inside->samples : std::min(panel.in_range_samples_least, inside->samples);
      panel.in_range_samples_most = std::max(panel.in_range_samples_most, inside->samples);
      panel.in_range_from_validation = item.evaluation->scores.in_range_split == Split::validation;
    }
    cells.push_back(item);
    const std::vector<int64_t> here = lengths_beyond(*item.summary, *item.evaluation, item.sliding);
    if (here.empty()) continue;  // not measured beyond training: its own score beyond is empty
    if (first) panel.beyond = here;
    std::erase_if(panel.beyond, [&](int64_t length) {
      return std::find(here.begin(), here.end(), length) == here.end();
    });
    first = false;
  }
  panel.lengths.assign(asked.begin(), asked.end());
  set_constants(panel, constants_of(cells));
}

// Runs of one label and one seed that are not the same cell differ in something that no setting
// tells: the contents of a file, or the version that trained them. They are no seeds of one
// another; each gets a label of its own.
void part_equal_seeds(std::vector<std::string>& order,
                      std::map<std::string, std::vector<Item>>& groups) {
  std::vector<std::string> parted;
  for (const std::string& label : order) {
    const std::vector<Item> members = std::move(groups[label]);
    groups.erase(label);
    std::set<int64_t> seeds;
    for (const Item& item : members) seeds.insert(item.summary->seed);
    for (const Item& item : members) {
      const std::string own = seeds.size() == members.size()
                                  ? label
                                  : fmt::format("{} [cell {}]", label, item.summary->cell);
      if (groups.find(own) == groups.end()) parted.push_back(own);
      groups[own].push_back(item);
    }
  }
  order = std::move(parted);
}

}  // namespace

const char* name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::not_fitted:
      return "not fitted";
    case Verdict::fails:
      return "fails beyond";
    case Verdict::degrades:
      return "degrades";
    case Verdict::extrapolates:
      return "extrapolates";
    case Verdict::no_in_range:
      return "no in-range data";
    case Verdict::constant:
      return "a constant does it";
    case Verdict::none:
      break;
  }
  return "";
}

bool ReportPanel::repeated() const {
  return std::any_of(groups.begin(), groups.end(),
                     [](const ReportGroup& group) { return group.runs.size() > 1; });
}

std::string value_of(const Summary& summary, const std::string& key) {
  for (const auto& [name, value] : summary.settings)
    if (name == key) return value;
  if (!key.ends_with(".type")) return value_of(summary, key + ".type");
  return "";
}

double ReportPanel::sampling() const {
  double widest = std::numeric_limits<double>::quiet_NaN();
  for (const ReportGroup& group : groups)
    for (const ReportPoint& point : group.points)
      widest = std::fmax(widest, (point.spread.sampling.high - point.spread.sampling.low) / 2);
  return widest;
}

Spread spread_of(const std::vector<Measure>& all, bool loss, std::optional<bool> same_samples) {
  Spread spread;
  // A run that measured nothing here (no test sequence of that length) is left out.
  std::vector<Measure> measures;
  for (const Measure& each : all)
    if (std::isfinite(each.value)) measures.push_back(each);
  spread.n = int64_t(measures.size());
  if (measures.empty()) {
    spread.mean = spread.max = spread.min = std::numeric_limits<double>::quiet_NaN();
    return spread;
  }
  const double n = double(measures.size());
  spread.max = spread.min = measures.front().value;
  for (const Measure& each : measures) {
    spread.mean += each.value / n;
    spread.max = std::max(spread.max, each.value);
    spread.min = std::min(spread.min, each.value);
  }
  double squares = 0;
  for (const Measure& each : measures)
    squares += (each.value - spread.mean) * (each.value - spread.mean);
  if (measures.size() > 1) spread.deviation = std::sqrt(squares / (n - 1));
  if (measures.size() == 1 || same_samples.has_value())
    spread.sampling = sampling_of(mean_of(measures, same_samples.value_or(false)), loss);
  return spread;
}

Report gather_report(const std::vector<std::string>& places, const std::set<std::string>& config) {
  Report report;
  std::vector<std::string> runs, files;
  for (const std::string& place : places) {
    if (place.ends_with(".csv") && fs::is_regular_file(place)) {
      files.push_back(place);
      continue;
    }
    if (!fs::is_directory(place))
      throw UsageError(fs::exists(place)
                           ? fmt::format("{}: neither a folder nor a CSV file of --csv", place)
                           : fmt::format("{}: no such folder", place));
    const size_t before = runs.size();
    find_runs(place, 2, runs);
    if (runs.size() > before) continue;
    for (const std::string& file : list_folder(place))
      if (file.ends_with(".csv")) files.push_back(file);
  }
  for (std::vector<std::string>* each : {&runs, &files}) {
    std::sort(each->begin(), each->end());
    each->erase(std::unique(each->begin(), each->end()), each->end());
  }
  std::map<std::string, std::string> seen;  // identity, folder or file
  for (const std::string& run : runs) {
    if (!file_exists(run + "/summary.json")) {
      const RunStatus status = read_status(run);
      report.unfinished.push_back({run, name_of(status.state), status.message});
      continue;
    }
    try {
      check_config(run);
      Summary summary = read_summary(run);
      const auto same = seen.emplace(summary.identity, run);
      if (!same.second) {
        report.unfinished.push_back(
            {run, "counted once",
             "the same run as " + same.first->second + ", whose scores are shown"});
        continue;
      }
      read_settings(summary);
      summary.outside_config = !config.empty() && config.count(summary.identity) == 0;
      report.summaries.push_back(std::move(summary));
    } catch (const Error& error) {
      // A report without a finished run would lie; the disk is not the run's damage.
      const auto* file = dynamic_cast<const FileError*>(&error);
      if (file != nullptr && file->of_the_disk()) throw;
      report.unfinished.push_back({run, "damaged", error.what()});
    }
  }
  for (const std::string& file : files) {
    for (Summary& summary : read_report_csv(file)) {
      const auto same = seen.emplace(summary.identity, file);
      if (same.second)
        report.summaries.push_back(std::move(summary));
      else
        report.unfinished.push_back({file + ": " + summary.cell, "counted once",
                                     "the same run as in " + same.first->second});
    }
  }
  // Names of folders are bytes; a report is text.
  for (UnfinishedRun& each : report.unfinished)
    each = {printable(each.folder), each.state, printable(each.message)};
  if (report.summaries.empty()) {
    std::string names;
    for (const std::string& place : places) names += (names.empty() ? "" : ", ") + place;
    throw UsageError(
        fmt::format("{}: no finished run ({} unfinished)", names, report.unfinished.size()));
  }
  std::set<std::string> studies;
  for (const Summary& summary : report.summaries) studies.insert(summary.study);
  for (const std::string& study : studies)
    report.title += (report.title.empty() ? "" : ", ") + study;
  std::vector<const Summary*> all;
  for (const Summary& summary : report.summaries) all.push_back(&summary);
  const Differing everywhere = differing_keys(all);
  for (const auto& [key, kinds] : everywhere) report.differing.push_back(short_name(key));

  // A panel: same task with the same options, same training range, and the same kind of evaluation
  // window.
  using PanelKey = std::tuple<std::string, int64_t, int64_t, bool, std::string>;
  std::map<PanelKey, std::vector<Item>> panels;
  for (const Summary& summary : report.summaries) {
    std::string options = summary.source + "\n";
    for (const auto& [key, value] : summary.settings)
      if (typed_section(key) == "task") options += key + "=" + value + "\n";
    for (const StoredEvaluation& evaluation : summary.evaluations) {
      for (const LengthScore& window : evaluation.scores.in_range) {
        panels[{summary.task, summary.train_min, summary.train_max, window.sliding, options}]
            .push_back({&summary, &evaluation, window.sliding});
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
    // The task's chance is a single prediction's; a whole sequence is next to never guessed.
    panel.chance = panel.metric == "sequence_accuracy" ? 0 : first.chance;
    panel.title = panel.task;
    for (const auto& [option, kinds] : everywhere)
      if (typed_section(option) == "task" && kinds.count(panel.task) > 0)
        panel.title += fmt::format(", {} {}", option.substr(5), value_of(first, option));
    panel.title +=
        panel.train_min == panel.train_max
            ? fmt::format(", trained on length {}", panel.train_max)
            : fmt::format(", trained on lengths {} to {}", panel.train_min, panel.train_max);
    if (panel.sliding) panel.title += ", sliding window";
    // Runs that differ in nothing but the seed belong together.
    std::vector<const Summary*> here;
    for (const Item& item : items) here.push_back(item.summary);
    const Differing differing = differing_keys(here);
    std::vector<std::string> order;
    std::map<std::string, std::vector<Item>> groups;
    for (const Item& item : items) {
      const std::string label = group_label(item, differing, here);
      if (groups.find(label) == groups.end()) order.push_back(label);
      groups[label].push_back(item);
    }
    part_equal_seeds(order, groups);
    measure_panel(panel, items);
    for (const std::string& label : order) {
      std::vector<Item>& members = groups[label];
      std::sort(members.begin(), members.end(),
                [](const Item& a, const Item& b) { return a.summary->seed < b.summary->seed; });
      panel.groups.push_back(make_group(panel, label, members));
    }
    // Best beyond first; then those of which it is not known whether they are fitted; what could
    // not be fitted last.
    const bool loss = panel.metric == "loss";
    const auto rank = [](const ReportGroup& group) {
      return group.verdict == Verdict::not_fitted    ? 2
             : group.verdict == Verdict::no_in_range ? 1
                                                     : 0;
    };
    std::stable_sort(panel.groups.begin(), panel.groups.end(),
                     [&](const ReportGroup& a, const ReportGroup& b) {
                       if (a.later != b.later) return b.later;
                       if (rank(a) != rank(b)) return rank(a) < rank(b);
                       const bool known_a = std::isfinite(a.out_of_range.mean);
                       const bool known_b = std::isfinite(b.out_of_range.mean);
                       if (!known_a || !known_b) return known_a && !known_b;
                       return loss ? a.out_of_range.mean < b.out_of_range.mean
                                   : a.out_of_range.mean > b.out_of_range.mean;
                     });
    report.panels.push_back(std::move(panel));
  }
  return report;
}

}  // namespace longshot
