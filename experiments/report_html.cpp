// The report as one self-contained HTML page: readable with no explanation, on a phone and in
// print, in light and dark, from a file, with no network and no script.
#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <fmt/core.h>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "core/error.h"
#include "core/files.h"
#include "experiments/line_chart.h"
#include "experiments/report.h"
#include "train/progress.h"

namespace longshot {
namespace {

constexpr const char* kStyle = R"css(
:root{--blue:#0072b2;--ink:#1b1f24;--soft:#5a6370;--paper:#ffffff;--line:#d5dae0;--shade:#e8f0e4;--card:#f6f7f9}
@media (prefers-color-scheme:dark){:root{--blue:#2f8fd6;--ink:#e8eaed;--soft:#a3abb6;--paper:#15181c;--line:#3a414a;--shade:#24301f;--card:#1d2127}}
*{box-sizing:border-box}
body{margin:0 auto;padding:1rem;max-width:64rem;background:var(--paper);color:var(--ink);font:16px/1.5 system-ui,sans-serif}
h1{font-size:1.6rem;margin:.5rem 0}h2{font-size:1.25rem;margin:2.2rem 0 .3rem;border-top:1px solid var(--line);padding-top:1.2rem}
h3{font-size:1rem;margin:1.4rem 0 .3rem}p{margin:.4rem 0}.soft{color:var(--soft)}
.figure{display:grid;grid-template-columns:minmax(0,3fr) minmax(11rem,1fr);gap:1rem;align-items:center}
.chart{width:100%;height:auto;display:block}.chart text{fill:var(--ink);font-size:11px}.chart .tick,.chart .note{fill:var(--soft)}
.chart .note{paint-order:stroke;stroke:var(--paper);stroke-width:3px;stroke-linejoin:round}
@media (max-width:44rem){.figure{grid-template-columns:1fr;gap:.3rem}body{padding:.7rem}.chart text{font-size:14px}
.legend{columns:2}.legend li{break-inside:avoid}th,td{padding:.25rem .4rem}}
.chart .grid{stroke:var(--line);stroke-width:.6}.chart .axis{stroke:var(--soft)}.chart .reference{stroke:var(--soft);stroke-dasharray:5 4}
.chart .shade{fill:var(--shade)}.chart .band{opacity:.16}
.legend{list-style:none;padding:0;margin:0;font-size:.9rem}.legend li{display:flex;gap:.5rem;align-items:center;margin:.15rem 0}
.key{width:30px;height:12px;flex:none}
.scroll{overflow-x:auto}table{border-collapse:collapse;font-size:.88rem;font-variant-numeric:tabular-nums;margin:.3rem 0}
th,td{padding:.25rem .55rem;text-align:right;border-bottom:1px solid var(--line);white-space:nowrap}
th:first-child,td:first-child,td.text,th.text{text-align:left}th{color:var(--soft);font-weight:600}
th:first-child,td:first-child{position:sticky;left:0;background:var(--paper);min-width:6rem;max-width:45vw;white-space:normal;overflow-wrap:break-word}
.span{text-align:center;border-bottom:2px solid var(--line)}.first{border-left:3px solid var(--soft)!important}
.findings{margin:.6rem 0;padding:0;list-style:none}.findings li{margin:.25rem 0}
.settings{display:grid;grid-template-columns:repeat(auto-fill,minmax(15rem,1fr));gap:0 1rem;font-size:.85rem;margin:.4rem 0}
.settings div{overflow-wrap:anywhere}
td.wrap{white-space:normal;min-width:12rem;text-align:left;overflow-wrap:anywhere}
.heat td{border:1px solid var(--paper);text-align:center;min-width:2.6rem}.heat td:first-child{text-align:left}
.heat td,.chart .shade,.tag{print-color-adjust:exact;-webkit-print-color-adjust:exact}
.tag{border-radius:.6rem;padding:.05rem .5rem;border:1px solid var(--line)}
.tag{white-space:nowrap}.extrapolates{background:#00735a;color:#fff}.fails{background:#b34700;color:#fff}.degrades{background:#E69F00;color:#000}
details{margin:.6rem 0}summary{cursor:pointer}
@media print{body{max-width:none;font-size:11px}h2{break-before:auto}.figure,table{break-inside:avoid}details>*{display:block}details::details-content{content-visibility:visible;block-size:auto}.scroll{overflow:visible}th:first-child,td:first-child{position:static}}
)css";

std::string show(const ReportPanel& panel, double value) {
  if (!std::isfinite(value)) return "&ndash;";
  return panel.metric == "loss" ? fmt::format("{:.3f}", value) : fmt::format("{:.1f}", 100 * value);
}

std::string show_spread(const ReportPanel& panel, const Spread& spread) {
  if (spread.n < 2) return show(panel, spread.n == 0 ? NAN : spread.mean);
  return fmt::format("{} &plusmn; {}", show(panel, spread.mean), show(panel, spread.deviation));
}

std::string metric_words(const ReportPanel& panel) {
  if (panel.metric == "loss") return "loss";
  return panel.metric == "sequence_accuracy" ? "whole sequences right" : "predictions right";
}

std::string metric_heading(const ReportPanel& panel) {
  std::string words = metric_words(panel);
  words[0] = char(std::toupper(static_cast<unsigned char>(words[0])));
  return words + (panel.metric == "loss" ? "" : ", %,");
}

const char* verdict_class(Verdict verdict) {
  switch (verdict) {
    case Verdict::extrapolates:
      return "extrapolates";
    case Verdict::fails:
      return "fails";
    case Verdict::degrades:
      return "degrades";
    default:
      return "soft";
  }
}

// From dark blue (0) through green to yellow (1): viridis, which grows in lightness and so reads in
// grey, too.
std::string heat_style(double share) {
  static constexpr int kStops[][3] = {
      {68, 1, 84}, {59, 82, 139}, {33, 145, 140}, {94, 201, 98}, {253, 231, 37}};
  const double at = std::clamp(share, 0.0, 1.0) * 4;
  const int i = std::min(3, int(at));
  const double part = at - i;
  int rgb[3];
  for (int c = 0; c < 3; ++c)
    rgb[c] = int(std::lround(kStops[i][c] + part * (kStops[i + 1][c] - kStops[i][c])));
  return fmt::format("background:#{:02x}{:02x}{:02x};color:{}", rgb[0], rgb[1], rgb[2],
                     share > 0.6 ? "#000" : "#fff");
}

std::string figure(const LineChart& chart, const std::vector<std::pair<int, std::string>>& legend) {
  std::string out = "<div class='figure'><div>" + to_svg(chart) + "</div><ul class='legend'>";
  for (const auto& [style, label] : legend)
    out += "<li>" + legend_svg(style) + "<span>" + escape_html(label) + "</span></li>";
  return out + "</ul></div>\n";
}

using Styles = std::map<std::string, int>;

int style_of(Styles& styles, const std::string& label) {
  return styles.emplace(label, int(styles.size())).first->second;
}

std::string score_chart(const ReportPanel& panel, Styles& styles) {
  LineChart chart;
  chart.title = panel.title + ": " + metric_words(panel) + " against length";
  chart.x_label = "sequence length";
  chart.y_label = metric_words(panel);
  chart.percent = panel.metric != "loss";
  chart.shade_from = double(panel.train_min);
  chart.shade_to = double(panel.train_max);
  chart.shade_label = "training lengths";
  if (chart.percent) {
    chart.reference_label = panel.constants.empty() ? "chance" : "best constant answer";
    if (panel.constants.empty()) chart.reference = {{0, panel.chance}};
    for (const auto& [length, share] : panel.constants)
      chart.reference.emplace_back(double(length), share);
  }
  double low = INFINITY, high = 0;
  std::vector<std::pair<int, std::string>> legend;
  for (const ReportGroup& group : panel.groups) {
    ChartLine line;
    line.label = group.label;
    line.style = style_of(styles, group.label);
    for (const ReportPoint& point : group.points) {
      line.x.push_back(double(point.length));
      line.y.push_back(point.spread.mean);
      if (group.runs.size() > 1) {
        line.low.push_back(point.spread.mean - point.spread.deviation);
        line.high.push_back(point.spread.mean + point.spread.deviation);
      }
      low = std::min(low, point.spread.mean), high = std::max(high, point.spread.mean);
    }
    chart.lines.push_back(std::move(line));
    legend.emplace_back(style_of(styles, group.label), group.label);
  }
  if (!chart.percent && std::isfinite(low)) {
    chart.y_low = std::floor(low * 10) / 10;
    chart.y_high = std::ceil(high * 10) / 10;
  }
  return figure(chart, legend);
}

// What came out, in words: the encodings under each verdict.
std::string findings(const ReportPanel& panel) {
  if (panel.metric == "loss" || panel.groups.empty()) return "";
  static constexpr std::pair<Verdict, const char*> kWords[] = {
      {Verdict::extrapolates, "learned the task and keep their score on longer sequences"},
      {Verdict::degrades, "learned the task and lose more than 5 points by the longest"},
      {Verdict::fails, "learned the task and have lost most of it by the longest"},
      {Verdict::not_fitted,
       "did not reach 99 % on the training lengths: nothing is said about longer ones"},
      {Verdict::constant,
       "learned nothing, or could lose nothing, that one constant answer does not get as well"},
      {Verdict::no_in_range,
       "too few samples of the training lengths to know whether the task was learned"}};
  std::string out = "<ul class='findings'>";
  bool any = false;
  for (const auto& [verdict, words] : kWords) {
    std::string names;
    for (const ReportGroup& group : panel.groups)
      if (group.verdict == verdict) names += (names.empty() ? "" : "; ") + escape_html(group.label);
    if (names.empty()) continue;
    any = true;
    out += fmt::format(
        "<li><span class='tag {}'>{}</span> <b>{}</b> <span class='soft'>&ndash; {}</span></li>",
        verdict_class(verdict), name_of(verdict), names, words);
  }
  return any ? out + "</ul>\n" : "";
}

std::string caption(const ReportPanel& panel) {
  std::string text =
      panel.repeated() ? "Line: mean over seeds; band: their standard deviation." : "";
  for (const std::string& note : notes_of(panel)) text += " " + escape_html(note);
  const std::string chance = chance_words(panel);
  if (!chance.empty() && (panel.chance > 0 || !panel.constants.empty()))
    text += fmt::format(" {}{} (%).", char(std::toupper(static_cast<unsigned char>(chance[0]))),
                        chance.substr(1));
  return "<p class='soft'>" + text + "</p>\n";
}

std::string heat_map(const ReportPanel& panel) {
  double low = 0, high = 1;
  if (panel.metric == "loss") {
    low = INFINITY, high = -INFINITY;
    for (const ReportGroup& group : panel.groups)
      for (const ReportPoint& point : group.points)
        low = std::min(low, point.spread.mean), high = std::max(high, point.spread.mean);
  }
  const auto beyond = std::upper_bound(panel.lengths.begin(), panel.lengths.end(), panel.train_max);
  const int64_t trained = beyond - panel.lengths.begin(), longer = panel.lengths.end() - beyond;
  // A line between the lengths of training and the longer ones.
  const auto edge = [&](int64_t length) {
    return trained > 0 && longer > 0 && length == *beyond ? " class='first'" : "";
  };
  std::string out = "<div class='scroll'><table class='heat'><tr><th></th>";
  if (trained > 0)
    out +=
        fmt::format("<th class='span' colspan='{}'>{}</th>", trained, trained > 2 ? "trained" : "");
  if (longer > 0)
    out += fmt::format("<th class='span{}' colspan='{}'>longer than in training</th>",
                       trained > 0 ? " first" : "", longer);
  out += "</tr><tr><th>length</th>";
  for (const int64_t length : panel.lengths)
    out += fmt::format("<th{}>{}</th>", edge(length), length);
  out += "</tr>";
  for (const ReportGroup& group : panel.groups) {
    out += "<tr><td>" + escape_html(group.label) + "</td>";
    for (const int64_t length : panel.lengths) {
      const auto found =
          std::find_if(group.points.begin(), group.points.end(),
                       [&](const ReportPoint& point) { return point.length == length; });
      if (found == group.points.end()) {
        out += fmt::format("<td{}></td>", edge(length));
        continue;
      }
      double share = (found->spread.mean - low) / std::max(high - low, 1e-12);
      if (panel.metric == "loss") share = 1 - share;
      out += fmt::format("<td{} style='{}'>{}</td>", edge(length), heat_style(share),
                         panel.metric == "loss" ? fmt::format("{:.2f}", found->spread.mean)
                                                : fmt::format("{:.0f}", 100 * found->spread.mean));
    }
    out += "</tr>";
  }
  return out + "</table></div><p class='soft'>" +
         std::string(panel.repeated() ? "Mean over seeds; brighter" : "Brighter") +
         " is better.</p>\n";
}

std::string score_table(const ReportPanel& panel) {
  const bool repeated = panel.repeated(), verdicts = panel.metric != "loss";
  std::string out = "<div class='scroll'><table><tr><th>encoding</th>" +
                    std::string(verdicts ? "<th class='text'>verdict</th>" : "") +
                    "<th>in range</th><th>beyond</th>" +
                    (repeated ? "<th>best seed beyond</th>" : "") +
                    "<th>95 % interval of beyond, from finite samples</th>" +
                    (repeated ? "<th>runs</th>" : "") + "</tr>";
  for (const ReportGroup& group : panel.groups) {
    out += "<tr><td>" + escape_html(group.label) + "</td>";
    if (verdicts)
      out += fmt::format("<td class='text'><span class='tag {}'>{}</span></td>",
                         verdict_class(group.verdict), name_of(group.verdict));
    out += "<td>" + show_spread(panel, group.in_range) + "</td><td>" +
           show_spread(panel, group.out_of_range) + "</td>";
    if (repeated) out += "<td>" + show(panel, group.best_out_of_range) + "</td>";
    const Interval& sampling = group.out_of_range.sampling;
    out +=
        std::isfinite(sampling.low)
            ? fmt::format("<td>{} to {}</td>", show(panel, sampling.low),
                          show(panel, sampling.high))
            : std::string("<td>") + (group.out_of_range.n > 0 ? "not known" : "&ndash;") + "</td>";
    if (repeated) out += fmt::format("<td>{}</td>", group.runs.size());
    out += "</tr>";
  }
  return out + "</table></div>\n";
}

// (step, loss) of a run's metrics.jsonl, thinned to at most `most` points.
std::pair<std::vector<double>, std::vector<double>> training_curve(const std::string& folder,
                                                                   size_t most) {
  std::vector<double> steps, losses;
  std::string content;
  try {
    content = read_file(folder + "/metrics.jsonl");
  } catch (const Error&) {
    return {};
  }
  std::istringstream lines(content);
  for (std::string line; std::getline(lines, line);) {
    const auto json = nlohmann::json::parse(line, nullptr, false);
    if (!json.is_object() || !json.contains("loss") || !json["loss"].is_number()) continue;
    steps.push_back(json["step"].get<double>());
    losses.push_back(json["loss"].get<double>());
  }
  const size_t stride = (steps.size() + most - 1) / std::max<size_t>(most, 1);
  std::pair<std::vector<double>, std::vector<double>> thin;
  for (size_t i = 0; i < steps.size(); i += std::max<size_t>(stride, 1)) {
    thin.first.push_back(steps[i]);
    thin.second.push_back(losses[i]);
  }
  return thin;
}

std::string training_chart(const ReportPanel& panel, Styles& styles, size_t points) {
  LineChart chart;
  chart.title = panel.title + ": training loss";
  chart.thin = true;
  chart.x_label = "training step";
  chart.y_label = "training loss";
  double low = INFINITY, high = 0;
  std::vector<std::pair<int, std::string>> legend;
  for (const ReportGroup& group : panel.groups) {
    const int style = style_of(styles, group.label);
    legend.emplace_back(style, group.label);
    for (const Summary* run : group.runs) {
      ChartLine line;
      line.label = fmt::format("{}, seed {}", group.label, run->seed);
      line.style = style;
      std::tie(line.x, line.y) = training_curve(run->folder, points);
      for (const double y : line.y) low = std::min(low, y), high = std::max(high, y);
      if (!line.x.empty()) chart.lines.push_back(std::move(line));
    }
  }
  if (chart.lines.empty()) return "";
  chart.y_low = std::min(0.0, low);
  chart.y_high = high;
  return figure(chart, legend);
}

std::string runs_table(const ReportPanel& panel) {
  std::string out =
      "<div class='scroll'><table><tr><th>encoding</th><th>seed</th><th>in "
      "range</th><th>beyond</th>"
      "<th>parameters</th><th>training</th><th>steps/s</th><th class='text'>run folder</th></tr>";
  for (const ReportGroup& group : panel.groups) {
    for (const Summary* run : group.runs) {
      const StoredEvaluation& evaluation = run->evaluations.front();
      const Score* inside = in_range(evaluation, panel.sliding);
      out += fmt::format(
          "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{:.1f}</td>"
          "<td class='wrap'>{}</td></tr>",
          escape_html(group.label), run->seed,
          show(panel, inside == nullptr ? NAN : metric_of(*run, *inside).value),
          show(panel, mean_over(*run, evaluation, panel.sliding, panel.beyond).value),
          run->parameters, format_duration(run->train_seconds), run->steps_per_second,
          escape_html(run->folder));
    }
  }
  return out + "</table></div>\n";
}

// Numbers by size; other values as the runs came.
void sort_numbers(std::vector<std::string>& values) {
  const auto number = [](const std::string& text) {
    char* end = nullptr;
    const double value = std::strtod(text.c_str(), &end);
    return end == text.c_str() + text.size() ? std::optional(value) : std::nullopt;
  };
  for (const std::string& value : values)
    if (!number(value)) return;
  std::sort(values.begin(), values.end(),
            [&](const std::string& a, const std::string& b) { return number(a) < number(b); });
}

// What differs between the runs, and, folded away, what they share.
std::string settings(const Report& report) {
  std::string out;
  for (const std::string& key : report.differing) {
    std::vector<std::string> values;
    for (const Summary& summary : report.summaries) {
      const std::string value = value_of(summary, key);
      if (!value.empty() && std::find(values.begin(), values.end(), value) == values.end())
        values.push_back(value);
    }
    sort_numbers(values);
    std::string list;
    constexpr size_t kMost = 12;
    for (size_t i = 0; i < values.size() && i < kMost; ++i)
      list += (i == 0 ? "" : ", ") + escape_html(values[i]);
    if (values.size() > kMost) list += fmt::format(" and {} more", values.size() - kMost);
    out += fmt::format("<li><b>{}</b>: {}</li>", escape_html(key), list);
  }
  if (!out.empty()) out = "<p>The runs differ in</p><ul>" + out + "</ul>\n";
  if (report.summaries.empty()) return out;
  std::string shared;
  for (const auto& [key, value] : report.summaries.front().settings) {
    const bool same = std::all_of(report.summaries.begin(), report.summaries.end(),
                                  [&, &key = key, &value = value](const Summary& summary) {
                                    for (const auto& [name, other] : summary.settings)
                                      if (name == key) return other == value;
                                    return false;
                                  });
    if (same)
      shared += fmt::format("<div><span class='soft'>{}</span> {}</div>", escape_html(key),
                            value.empty() ? "&ndash;" : escape_html(value));
  }
  if (shared.empty()) return out;
  return out + "<details><summary>What all runs share</summary><div class='settings'>" + shared +
         "</div></details>\n";
}

}  // namespace

std::string report_html(const Report& report) {
  std::string out =
      "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'>"
      "<meta name='viewport' content='width=device-width,initial-scale=1'>"
      "<meta name='color-scheme' content='light dark'><title>" +
      escape_html(report.title) + " - Longshot</title><style>" + kStyle + "</style></head><body>\n";
  out += "<h1>" + escape_html(report.title) + "</h1>\n";
  out += fmt::format(
      "<p class='soft'>{} finished {}. Models were trained on short sequences and then shown "
      "longer "
      "ones; what differs is how they are told the order of their tokens.</p>\n",
      report.summaries.size(), report.summaries.size() == 1 ? "run" : "runs");
  out += settings(report);
  Styles styles;
  const size_t points = report.summaries.size() > 100 ? 40 : 100;
  for (const ReportPanel& panel : report.panels) {
    out += "<h2>" + escape_html(panel.title) + "</h2>\n";
    out += findings(panel) + score_chart(panel, styles) + caption(panel);
    out += score_table(panel);
    out += "<h3>" + metric_heading(panel) + " by length</h3>\n" + heat_map(panel);
    const std::string curves = training_chart(panel, styles, points);
    if (!curves.empty()) out += "<h3>Training</h3>\n" + curves;
    out += "<details><summary>Each run</summary>" + runs_table(panel) + "</details>\n";
  }
  if (!report.unfinished.empty()) {
    out +=
        "<h2>Not in the tables</h2><div class='scroll'><table><tr><th>state</th><th "
        "class='text'>message</th>"
        "<th class='text'>run folder</th></tr>";
    for (const UnfinishedRun& run : report.unfinished)
      out += "<tr><td>" + escape_html(run.state) + "</td><td class='wrap'>" +
             escape_html(run.message) + "</td><td class='wrap'>" + escape_html(run.folder) +
             "</td></tr>";
    out += "</table></div>";
  }
  out +=
      "<p class='soft'>in range: lengths drawn as in training. beyond: mean over the longer "
      "lengths. &plusmn;: standard "
      "deviation over seeds.</p>\n";
  return out + "</body></html>\n";
}

}  // namespace longshot
