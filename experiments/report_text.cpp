// Reports for the terminal and for markdown pages.
#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <sstream>

#include "core/error.h"
#include "experiments/report.h"
#include "train/progress.h"

namespace longshot {
namespace {

std::string show(const ReportPanel& panel, double value) {
  if (!std::isfinite(value)) return "-";
  return panel.metric == "loss" ? fmt::format("{:.3f}", value) : fmt::format("{:.1f}", 100 * value);
}

std::string show_spread(const ReportPanel& panel, const Spread& spread) {
  if (spread.n == 0) return "-";
  if (spread.n == 1) return show(panel, spread.mean);
  return fmt::format("{} +- {}", show(panel, spread.mean), show(panel, spread.deviation));
}

std::string unit(const ReportPanel& panel) {
  if (panel.metric == "loss") return "loss (nats a token; lower is better)";
  return panel.metric == "sequence_accuracy" ? "whole sequences right, %" : "predictions right, %";
}

// At most `most` of the lengths, the first and the last among them, evenly spread.
std::vector<int64_t> choose_lengths(const std::vector<int64_t>& lengths, size_t most) {
  if (lengths.size() <= most) return lengths;
  std::vector<int64_t> result;
  for (size_t i = 0; i < most; ++i)
    result.push_back(lengths[i * (lengths.size() - 1) / (most - 1)]);
  return result;
}

double at_length(const ReportGroup& group, int64_t length) {
  for (const ReportPoint& point : group.points)
    if (point.length == length) return point.spread.mean;
  return std::nan("");
}

struct Table {
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows;
};

Table table_of(const ReportPanel& panel, size_t most_lengths) {
  const std::vector<int64_t> lengths = choose_lengths(panel.lengths, most_lengths);
  Table table;
  const bool repeated = panel.repeated();
  table.header = {"encoding", "in range", "beyond"};
  if (repeated) table.header.push_back("best");
  for (const int64_t length : lengths) table.header.push_back(fmt::format("n={}", length));
  if (repeated) table.header.push_back("runs");
  if (panel.metric != "loss") table.header.push_back("verdict");
  for (const ReportGroup& group : panel.groups) {
    std::vector<std::string> row = {group.label, show_spread(panel, group.in_range),
                                    show_spread(panel, group.out_of_range)};
    if (repeated) row.push_back(show(panel, group.best_out_of_range));
    for (const int64_t length : lengths) row.push_back(show(panel, at_length(group, length)));
    if (repeated) row.push_back(std::to_string(group.in_range.n));
    if (panel.metric != "loss") row.push_back(name_of(group.verdict));
    table.rows.push_back(std::move(row));
    if (!panel.bytes) continue;
    // The same loss in the units of language modelling.
    const auto in_unit = [&](const char* name, auto convert) {
      std::vector<std::string> line = {name};
      const auto add = [&](double loss) {
        line.push_back(std::isfinite(loss) ? fmt::format("{:.3f}", convert(loss)) : "-");
      };
      add(group.in_range.mean);
      add(group.out_of_range.mean);
      if (repeated) add(group.best_out_of_range);
      for (const int64_t length : lengths) add(at_length(group, length));
      if (repeated) line.push_back("");
      table.rows.push_back(std::move(line));
    };
    in_unit("  perplexity", [](double loss) { return std::exp(loss); });
    in_unit("  bits per byte", [](double loss) { return loss / std::numbers::ln2; });
  }
  return table;
}

std::string heading(const ReportPanel& panel) {
  std::string text = fmt::format("{}: {}", panel.title, unit(panel));
  if (panel.metric != "loss") text += fmt::format("; chance {:.1f}", 100 * panel.chance);
  return text;
}

double largest_error(const ReportPanel& panel) {
  double largest = 0;
  for (const ReportGroup& group : panel.groups)
    for (const ReportPoint& point : group.points)
      largest = std::max(largest, point.spread.sampling_error);
  return largest;
}

// What the columns mean: only of columns that are there.
std::string legend(const Report& report) {
  std::string text =
      "in range: lengths drawn as in training. beyond: mean over the longer lengths.";
  const auto any = [&](auto predicate) {
    return std::any_of(report.panels.begin(), report.panels.end(), predicate);
  };
  if (any([](const ReportPanel& panel) { return panel.repeated(); }))
    text += " +-: standard deviation over seeds. best: the best seed beyond.";
  if (any([](const ReportPanel& panel) { return panel.metric != "loss"; }))
    text +=
        " A verdict is given only where in range reaches 99 %: below that, a model has not learned "
        "the task.";
  return text;
}

// Words into lines of at most `width`.
std::string wrapped(const std::string& text, size_t width) {
  std::string out, line;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (!line.empty() && line.size() + 1 + word.size() > width) {
      out += line + "\n";
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
  }
  return out + line + "\n";
}

// Letters, not bytes: what a column of the terminal holds.
size_t letters(const std::string& text) {
  return size_t(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

// A bar would end the cell.
std::string markdown_cell(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '|' ? std::string("\\|") : std::string(1, c);
  return out;
}

}  // namespace

std::string report_text(const Report& report, bool color, int64_t width) {
  std::string out;
  const size_t text_width = size_t(std::clamp<int64_t>(width, 40, 110));
  for (const ReportPanel& panel : report.panels) {
    // As many lengths as fit on a line.
    Table table;
    std::vector<size_t> widths;
    for (size_t most = std::max<size_t>(2, panel.lengths.size()); most >= 2; --most) {
      table = table_of(panel, most);
      widths.assign(table.header.size(), 0);
      for (size_t c = 0; c < table.header.size(); ++c) widths[c] = letters(table.header[c]);
      for (const auto& row : table.rows)
        for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], letters(row[c]));
      size_t total = 0;
      for (const size_t each : widths) total += each + 2;
      if (int64_t(total) <= width) break;
    }
    out += fmt::format("{}{}{}\n", color ? "\x1b[1m" : "", heading(panel), color ? "\x1b[0m" : "");
    const auto line = [&](const std::vector<std::string>& cells) {
      std::string text;
      for (size_t c = 0; c < cells.size(); ++c) {
        const bool left = c == 0 || (c + 1 == cells.size() && panel.metric != "loss");
        const std::string space(widths[c] - letters(cells[c]), ' ');
        text += (left ? cells[c] + space : space + cells[c]) + "  ";
      }
      while (!text.empty() && text.back() == ' ') text.pop_back();
      return text + "\n";
    };
    out += line(table.header);
    for (const auto& row : table.rows) {
      std::string text = line(row);
      if (color) {
        const std::string& verdict = row.back();
        const char* code = verdict == "extrapolates"   ? "\x1b[32m"
                           : verdict == "fails beyond" ? "\x1b[31m"
                           : verdict == "not fitted"   ? "\x1b[2m"
                                                       : "";
        if (*code != 0) text = code + text.substr(0, text.size() - 1) + "\x1b[0m\n";
      }
      out += text;
    }
    if (panel.metric != "loss")
      out += wrapped(fmt::format("sampling error of one number, from the finite number of test "
                                 "samples: at most {:.2f} "
                                 "points",
                                 100 * largest_error(panel)),
                     text_width);
    out += "\n";
  }
  out += wrapped(legend(report), text_width);
  for (const UnfinishedRun& run : report.unfinished)
    out += fmt::format("not in the tables: {} ({}{})\n", run.folder, run.state,
                       run.message.empty() ? "" : ": " + run.message);
  return out;
}

std::string report_markdown(const Report& report) {
  std::string out;
  for (const ReportPanel& panel : report.panels) {
    const Table table = table_of(panel, 8);
    out += fmt::format("**{}**\n\n", heading(panel));
    const auto line = [](const std::vector<std::string>& cells) {
      std::string text = "|";
      for (const std::string& cell : cells) text += " " + markdown_cell(cell) + " |";
      return text + "\n";
    };
    out += line(table.header);
    out += "|";
    for (size_t c = 0; c < table.header.size(); ++c)
      out += c == 0 || table.header[c] == "verdict" ? " --- |" : " ---: |";
    out += "\n";
    for (const auto& row : table.rows) out += line(row);
    out += "\n";
  }
  return out + legend(report) + "\n";
}

std::string report_matrix(const Report& report, const std::string& what) {
  // Columns: every label there is, those with the same kind of positions side by side.
  std::map<std::pair<std::string, std::string>, std::string> columns;
  bool repeated = false;
  for (const ReportPanel& panel : report.panels) {
    repeated = repeated || panel.repeated();
    for (const ReportGroup& group : panel.groups)
      columns.emplace(std::pair(group.runs.front()->positions, group.label), group.label);
  }
  std::string out = "| |", rule = "| --- |";
  for (const auto& [key, label] : columns) {
    out += " " + markdown_cell(label) + " |";
    rule += " ---: |";
  }
  out += "\n" + rule + "\n";
  for (const ReportPanel& panel : report.panels) {
    out += "| " + markdown_cell(panel.title) + " |";
    for (const auto& [key, label] : columns) {
      const auto group =
          std::find_if(panel.groups.begin(), panel.groups.end(),
                       [&, label = label](const ReportGroup& each) { return each.label == label; });
      std::string cell;
      if (group != panel.groups.end()) {
        cell = what == "best"       ? show(panel, group->best_out_of_range)
               : what == "in_range" ? show_spread(panel, group->in_range)
                                    : show_spread(panel, group->out_of_range);
        if (group->verdict == Verdict::not_fitted) cell = "(" + cell + ")";
      }
      out += " " + cell + " |";
    }
    out += "\n";
  }
  out += what == "in_range" ? "\nPredictions right in range"
         : what == "best"   ? "\nPredictions right beyond the training lengths, of the best run"
                            : "\nPredictions right beyond the training lengths";
  out += ", %";
  if (repeated && what != "best") out += ", mean +- standard deviation over seeds";
  out += ". In brackets: not fitted, in range below 99 %.";
  double largest = 0;
  int64_t least = 0, most = 0;
  for (const ReportPanel& panel : report.panels) {
    for (const ReportGroup& group : panel.groups) {
      const Spread& spread = what == "in_range" ? group.in_range : group.out_of_range;
      const double runs = what == "best" ? std::sqrt(double(std::max<int64_t>(spread.n, 1))) : 1;
      largest = std::max(largest, spread.sampling_error * runs);
      least = least == 0 ? group.in_range.n : std::min(least, group.in_range.n);
      most = std::max(most, group.in_range.n);
    }
  }
  out += least == most ? fmt::format(" Runs a cell: {}.", most)
                       : fmt::format(" Runs a cell: {} to {}.", least, most);
  return out + fmt::format(" Sampling error at most {:.2f} points.\n", 100 * largest);
}

}  // namespace longshot
