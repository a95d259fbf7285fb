// Tables inside markdown pages, made from results. A page names where each table comes from:
//
//   <!-- longshot report --matrix mean results -->
//   (whatever stands here is replaced by the table)
//   <!-- end of report -->
//
// Places are named as seen from the page's folder. Without --matrix: the tables of
// `longshot report --markdown`.
#include <filesystem>
#include <sstream>

#include "core/error.h"
#include "experiments/report.h"

namespace longshot {
namespace {

constexpr std::string_view kBegin = "<!-- longshot report";
constexpr std::string_view kClose = " -->";
constexpr std::string_view kEnd = "<!-- end of report -->";

std::string table_for(const std::string& arguments, const std::string& folder) {
  std::istringstream words(arguments);
  std::vector<std::string> places;
  std::string matrix;
  for (std::string word; words >> word;) {
    if (word == "--matrix") {
      words >> matrix;
      if (matrix != "mean" && matrix != "best" && matrix != "in_range")
        throw UsageError(fmt::format("--matrix \"{}\": mean, best or in_range", matrix));
    } else {
      places.push_back((std::filesystem::path(folder) / word).lexically_normal().string());
    }
  }
  if (places.empty()) throw UsageError("\"longshot report\" in a page names no results");
  const Report report = gather_report(places);
  return matrix.empty() ? report_markdown(report) : report_matrix(report, matrix);
}

}  // namespace

std::string updated_tables(const std::string& text, const std::string& folder) {
  std::string out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    out += line + "\n";
    if (!line.starts_with(kBegin)) continue;
    if (!line.ends_with(kClose))
      throw UsageError(fmt::format("\"{}\" does not end with \"{}\"", line, kClose));
    const std::string arguments =
        line.substr(kBegin.size(), line.size() - kBegin.size() - kClose.size());
    std::string inside;
    while (std::getline(lines, inside) && inside != kEnd) {
      if (inside.starts_with(kBegin)) break;
    }
    if (inside != kEnd) throw UsageError(fmt::format("after \"{}\": no line \"{}\"", line, kEnd));
    out += "\n" + table_for(arguments, folder) + "\n" + std::string(kEnd) + "\n";
  }
  return out;
}

}  // namespace longshot
