// Reports as CSV: written for other programs, and read back, so that results that are kept as CSV
// make the same tables and pictures as the run folders they came from.
//
// One line a run, evaluation, window and length. The first columns say which run it is; then one
// column a setting in which the runs differ (empty: this run has no such setting); then the scores,
// and what else a report must know of a run.
#include <algorithm>
#include <cstdlib>
#include <limits>
#include <map>

#include "core/error.h"
#include "core/files.h"
#include "core/streams.h"
#include "experiments/report.h"

namespace longshot {
namespace {

constexpr const char* kFirst[] = {"study",     "cell",  "task", "encoding",
                                  "positions", "label", "seed"};

std::string csv_field(const std::string& bytes) {
  const std::string text = printable(bytes);
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + "\"";
}

using Row = std::vector<std::string>;

// Fields may be quoted, with doubled quotes and line breaks inside. Empty lines are skipped.
std::vector<Row> parse_csv(const std::string& file) {
  // Spreadsheets put a byte order mark before UTF-8.
  const std::string text = file.starts_with("\xEF\xBB\xBF") ? file.substr(3) : file;
  std::vector<Row> rows;
  Row row(1);
  bool quoted = false;
  const auto end_row = [&] {
    if (row.size() > 1 || !row[0].empty()) rows.push_back(row);
    row.assign(1, "");
  };
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted && c == '"' && i + 1 < text.size() && text[i + 1] == '"') {
      row.back() += '"';
      ++i;
    } else if (c == '"') {
      quoted = !quoted;
    } else if (quoted || (c != ',' && c != '\n' && c != '\r')) {
      row.back() += c;
    } else if (c == ',') {
      row.emplace_back();
    } else if (c == '\n') {
      end_row();
    }
  }
  end_row();
  return rows;
}

class Reader {
 public:
  explicit Reader(const std::string& file) : file_(file), rows_(parse_csv(read_file(file))) {
    for (size_t row = 0; row < rows_.size(); ++row)
      for (const std::string& field : rows_[row])
        if (!is_utf8(field))
          throw UsageError(
              fmt::format("{}: row {}: \"{}\" is not UTF-8", file_, row + 1, printable(field)));
    if (rows_.empty()) throw UsageError(fmt::format("{}: empty", file_));
    for (size_t c = 0; c < rows_[0].size(); ++c) columns_[rows_[0][c]] = c;
    for (const char* name : kFirst) index(name);
    for (const char* name : {"evaluation", "identity", "metric", "chance", "bytes"}) index(name);
  }
  size_t rows() const { return rows_.size() - 1; }
  const Row& header() const { return rows_[0]; }
  size_t index(const std::string& name) const {
    const auto found = columns_.find(name);
    if (found == columns_.end())
      throw UsageError(
          fmt::format("{}: no column \"{}\"; this is no file that `longshot report --csv` writes",
                      file_, name));
    return found->second;
  }
  const std::string& text(size_t row, size_t column) const {
    const Row& cells = rows_[row + 1];
    if (cells.size() != rows_[0].size())
      throw UsageError(fmt::format("{}: row {} has {} fields, the header {}", file_, row + 2,
                                   cells.size(), rows_[0].size()));
    return cells[column];
  }
  const std::string& text(size_t row, const char* name) const { return text(row, index(name)); }
  double number(size_t row, const char* name) const {
    const std::string& field = text(row, name);
    char* end = nullptr;
    const double value = std::strtod(field.c_str(), &end);
    if (field.empty() || *end != 0)
      throw UsageError(
          fmt::format("{}: row {}: {} is \"{}\", not a number", file_, row + 2, name, field));
    return value;
  }
  int64_t whole(size_t row, const char* name) const { return int64_t(number(row, name)); }
  // Of columns that files of earlier versions lack: "" and NaN, not known.
  std::string text_if_there(size_t row, const char* name) const {
    return columns_.count(name) > 0 ? text(row, name) : "";
  }
  double number_if_there(size_t row, const char* name, double otherwise) const {
    return text_if_there(row, name).empty() ? otherwise : number(row, name);
  }

 private:
  std::string file_;
  std::vector<Row> rows_;
  std::map<std::string, size_t> columns_;
};

Summary begin_summary(const Reader& reader, size_t row, const std::string& file) {
  Summary summary;
  summary.study = reader.text(row, "study");
  summary.cell = reader.text(row, "cell");
  summary.task = reader.text(row, "task");
  summary.encoding = reader.text(row, "encoding");
  summary.positions = reader.text(row, "positions");
  summary.encoding_label = reader.text(row, "label");
  summary.seed = reader.whole(row, "seed");
  summary.settings = {{"seed", reader.text(row, "seed")},
                      {"task.type", summary.task},
                      {"encoding.type", summary.encoding},
                      {"positions.type", summary.positions}};
  for (size_t c = std::size(kFirst); c < reader.index("evaluation"); ++c)
    if (!reader.text(row, c).empty())
      summary.settings.emplace_back(reader.header()[c], reader.text(row, c));
  summary.train_min = reader.whole(row, "train_min");
  summary.train_max = reader.whole(row, "train_max");
  summary.parameters = reader.whole(row, "parameters");
  summary.train_seconds = reader.number(row, "train_seconds");
  summary.steps = reader.whole(row, "steps");
  if (summary.train_seconds > 0)
    summary.steps_per_second = double(summary.steps) / summary.train_seconds;
  summary.identity = reader.text(row, "identity");
  summary.metric = reader.text(row, "metric");
  summary.chance = reader.number(row, "chance");
  summary.bytes = reader.whole(row, "bytes") != 0;
  summary.constant_is_chance = reader.text_if_there(row, "constant_is_chance") == "1";
  const std::string fixed = reader.text_if_there(row, "fixed_samples");
  if (!fixed.empty()) summary.fixed_samples = fixed == "1";
  summary.folder = summary.source = file;
  return summary;
}

}  // namespace

std::string report_csv(const Report& report) {
  std::vector<std::string> keys;
  for (const std::string& key : report.differing)
    if (key != "seed" && key != "task" && key != "encoding" && key != "positions")
      keys.push_back(key);
  std::string out = "study,cell,task,encoding,positions,label,seed";
  for (const std::string& key : keys) out += "," + csv_field(key);
  out +=
      ",evaluation,window,length,train_min,train_max,samples,loss,accuracy,accuracy_error,sequence_"
      "accuracy,"
      "sequence_accuracy_error,parameters,train_seconds,steps,identity,metric,chance,bytes,"
      "loss_error,accuracy_independent,sequence_accuracy_independent,constant,coverage,"
      "in_range_split,constant_is_chance,fixed_samples,constant_sequence\n";
  for (const Summary& summary : report.summaries) {
    std::string prefix = fmt::format(
        "{},{},{},{},{},{},{}", csv_field(summary.study), csv_field(summary.cell), summary.task,
        summary.encoding, summary.positions, csv_field(summary.encoding_label), summary.seed);
    for (const std::string& key : keys) {
      prefix += "," + csv_field(value_of(summary, key));
    }
    for (const StoredEvaluation& evaluation : summary.evaluations) {
      const auto line = [&](const LengthScore& each) {
        const Score& score = each.score;
        const Share &accuracy = score.accuracy, &sequence = score.sequence_accuracy;
        out += fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{},{:.1f},{},{},{},{},{}", prefix,
                           csv_field(evaluation.label), each.sliding ? "sliding" : "segments",
                           each.length == 0 ? std::string("in_range") : std::to_string(each.length),
                           summary.train_min, summary.train_max, score.samples, score.loss,
                           accuracy.value, accuracy.error, sequence.value, sequence.error,
                           summary.parameters, summary.train_seconds, summary.steps,
                           summary.identity, summary.metric, summary.chance, summary.bytes ? 1 : 0);
        out += fmt::format(",{},{},{},{},{},{},{},{},{}\n", score.loss_error, accuracy.independent,
                           sequence.independent, score.constant, score.coverage,
                           name_of(evaluation.scores.in_range_split),
                           summary.constant_is_chance ? 1 : 0,
                           summary.fixed_samples ? std::to_string(int(*summary.fixed_samples)) : "",
                           score.constant_sequence);
      };
      for (const LengthScore& each : evaluation.scores.in_range) line(each);
      for (const LengthScore& each : evaluation.scores.lengths) line(each);
    }
  }
  return out;
}

std::vector<Summary> read_report_csv(const std::string& file) {
  const Reader reader(file);
  std::vector<Summary> summaries;
  std::map<std::string, size_t> places;  // by identity
  for (size_t row = 0; row < reader.rows(); ++row) {
    const auto place = places.emplace(reader.text(row, "identity"), summaries.size());
    if (place.second) summaries.push_back(begin_summary(reader, row, file));
    Summary& summary = summaries[place.first->second];
    const std::string& label = reader.text(row, "evaluation");
    if (summary.evaluations.empty() || summary.evaluations.back().label != label) {
      summary.evaluations.emplace_back();
      summary.evaluations.back().label = label;
    }
    Evaluation& scores = summary.evaluations.back().scores;
    LengthScore each;
    each.sliding = reader.text(row, "window") == "sliding";
    const bool in_range = reader.text(row, "length") == "in_range";
    each.length = in_range ? 0 : reader.whole(row, "length");
    each.score.samples = reader.whole(row, "samples");
    each.score.loss = reader.number(row, "loss");
    const auto number = [&](const char* name) {
      return reader.number_if_there(row, name, std::numeric_limits<double>::quiet_NaN());
    };
    each.score.loss_error = number("loss_error");
    each.score.accuracy = {reader.number(row, "accuracy"), reader.number(row, "accuracy_error"),
                           number("accuracy_independent")};
    each.score.sequence_accuracy = {reader.number(row, "sequence_accuracy"),
                                    reader.number(row, "sequence_accuracy_error"),
                                    number("sequence_accuracy_independent")};
    each.score.constant = number("constant");
    each.score.constant_sequence = number("constant_sequence");
    each.score.coverage = number("coverage");
    if (reader.text_if_there(row, "in_range_split") == "validation")
      scores.in_range_split = Split::validation;
    (in_range ? scores.in_range : scores.lengths).push_back(each);
  }
  return summaries;
}

}  // namespace longshot
