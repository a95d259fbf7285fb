// Reports for the terminal and for markdown pages.
#include <algorithm>
#include <cmath>
#include <limits>
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

// "n = 20, 35 left out": what choose_lengths took away; "" for nothing.
std::string left_out(const std::vector<int64_t>& lengths, size_t most, const char* why) {
  const std::vector<int64_t> chosen = choose_lengths(lengths, most);
  std::string list;
  size_t count = 0;
  for (const int64_t length : lengths) {
    if (std::find(chosen.begin(), chosen.end(), length) != chosen.end()) continue;
    if (++count <= 8) list += (list.empty() ? "" : ", ") + std::to_string(length);
  }
  if (count == 0) return "";
  return fmt::format("n = {}{} left out{}; --csv has {}.", list,
                     count > 8 ? fmt::format(" and {} more", count - 8) : "", why,
                     count == 1 ? "it" : "them");
}

// Notes that every panel has are said once, at the end.
std::vector<std::string> common_notes(const Report& report) {
  std::vector<std::string> common;
  if (report.panels.size() < 2) return common;
  for (const std::string& note : notes_of(report.panels.front()))
    if (std::all_of(report.panels.begin(), report.panels.end(), [&](const ReportPanel& panel) {
          const std::vector<std::string> here = notes_of(panel);
          return std::find(here.begin(), here.end(), note) != here.end();
        }))
      common.push_back(note);
  return common;
}

std::vector<std::string> own_notes(const ReportPanel& panel,
                                   const std::vector<std::string>& common) {
  std::vector<std::string> notes = notes_of(panel);
  std::erase_if(notes, [&](const std::string& note) {
    return std::find(common.begin(), common.end(), note) != common.end();
  });
  return notes;
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
    if (repeated) row.push_back(std::to_string(group.runs.size()));
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
  if (panel.metric != "loss") text += "; " + chance_words(panel);
  return text;
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
  const std::vector<std::string> common = common_notes(report);
  for (const ReportPanel& panel : report.panels) {
    // As many lengths as fit on a line.
    Table table;
    std::vector<size_t> widths;
    size_t most = std::max<size_t>(2, panel.lengths.size());
    for (;; --most) {
      table = table_of(panel, most);
      widths.assign(table.header.size(), 0);
      for (size_t c = 0; c < table.header.size(); ++c) widths[c] = letters(table.header[c]);
      for (const auto& row : table.rows)
        for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], letters(row[c]));
      size_t total = 0;
      for (const size_t each : widths) total += each + 2;
      if (int64_t(total) <= width || most == 2) break;
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
    std::vector<std::string> notes = own_notes(panel, common);
    notes.insert(notes.begin(), left_out(panel.lengths, most, " for width"));
    for (const std::string& note : notes)
      if (!note.empty()) out += wrapped(note, text_width);
    out += "\n";
  }
  for (const std::string& note : common) out += wrapped(note, text_width);
  out += wrapped(legend(report), text_width);
  for (const UnfinishedRun& run : report.unfinished)
    out += fmt::format("not in the tables: {} ({}{})\n", run.folder, run.state,
                       run.message.empty() ? "" : ": " + run.message);
  return out;
}

std::string report_markdown(const Report& report) {
  constexpr size_t kColumns = 8;
  std::string out;
  const std::vector<std::string> common = common_notes(report);
  for (const ReportPanel& panel : report.panels) {
    const Table table = table_of(panel, kColumns);
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
    std::vector<std::string> notes = own_notes(panel, common);
    notes.insert(notes.begin(), left_out(panel.lengths, kColumns, ""));
    bool any = false;
    for (const std::string& note : notes)
      if (!note.empty()) out += note + "\n", any = true;
    if (any) out += "\n";
  }
  for (const std::string& note : common) out += note + "\n";
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
  const bool losses = std::any_of(report.panels.begin(), report.panels.end(),
                                  [](const ReportPanel& panel) { return panel.metric == "loss"; });
  out += losses ? ", %; of text: the loss, nats a token" : ", %";
  if (repeated && what != "best") out += ", mean +- standard deviation over seeds";
  out += ". In brackets: not fitted, in range below 99 %.";
  const bool fewer =
      std::any_of(report.panels.begin(), report.panels.end(), [](const ReportPanel& panel) {
        return std::any_of(panel.groups.begin(), panel.groups.end(), [&](const ReportGroup& group) {
          return !group.points.empty() && !panel.beyond.empty() &&
                 group.points.back().length > panel.beyond.back();
        });
      });
  if (fewer && what != "in_range")
    out += " Scores of a row are over the lengths that all of its encodings were measured at.";
  double widest = std::numeric_limits<double>::quiet_NaN();
  bool known = what != "best";  // the best of several is no mean: its interval is another one
  int64_t least = 0, most = 0;
  for (const ReportPanel& panel : report.panels) {
    for (const ReportGroup& group : panel.groups) {
      const Spread& spread = what == "in_range" ? group.in_range : group.out_of_range;
      if (spread.n > 0 && panel.metric != "loss") {
        known = known && std::isfinite(spread.sampling.low);
        widest = std::fmax(widest, (spread.sampling.high - spread.sampling.low) / 2);
      }
      const int64_t runs = int64_t(group.runs.size());
      least = least == 0 ? runs : std::min(least, runs);
      most = std::max(most, runs);
    }
  }
  out += least == most ? fmt::format(" Runs a cell: {}.", most)
                       : fmt::format(" Runs a cell: {} to {}.", least, most);
  if (what == "best") return out + "\n";
  if (!known)
    return out +
           " Sampling error: not known for all of them; earlier versions did not record it.\n";
  return out + fmt::format(
                   " Sampling error, from the finite number of test samples: at most {:.1f} points "
                   "(half of a 95 % interval).\n",
                   100 * widest);
}

}  // namespace longshot
