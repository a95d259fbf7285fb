// `longshot report PLACE...`: tables on standard output, a page or a CSV file when asked, and
// tables inside markdown files made anew.
#include <cstdlib>
#include <filesystem>
#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "core/error.h"
#include "core/files.h"
#include "core/log.h"
#include "core/streams.h"
#include "experiments/commands.h"
#include "experiments/report.h"

namespace longshot {
namespace {

void update_file(const std::string& file) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error))
    throw UsageError(
        fmt::format("--update {}: not a page that can be rewritten in its place", file));
  const std::string before = read_file(file);
  const std::string folder = std::filesystem::absolute(file).parent_path().string();
  std::string after;
  try {
    after = updated_tables(before, folder);
  } catch (const UsageError& error) {
    throw UsageError(fmt::format("{}: {}", file, error.what()));
  }
  if (after != before) write_named_file(file, after);
  print("{}: {}\n", file, after == before ? "its tables are up to date" : "tables made anew");
}

}  // namespace

int report_command(const ReportArguments& arguments) {
  if (arguments.places.empty() && arguments.update.empty())
    throw UsageError("report: name run folders, folders that hold them, or CSV files of --csv");
  for (const std::string& file : arguments.update) update_file(file);
  if (arguments.places.empty()) return 0;
  const Report report = gather_report(arguments.places, arguments.config);
  const bool terminal = isatty(STDOUT_FILENO) != 0;
  winsize size{};
  int64_t width = 120;
  if (terminal && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    width = size.ws_col;
  const char* no_color = std::getenv("NO_COLOR");
  const bool color = terminal && (no_color == nullptr || *no_color == '\0');
  // A file that is standard output gets it for itself alone.
  const auto to_output = [](const std::string& path) {
    return !path.empty() && is_standard_output(path);
  };
  const bool csv_out = to_output(arguments.csv), html_out = to_output(arguments.html);
  if (csv_out && html_out)
    throw UsageError("report: --csv and --html cannot both go to standard output");
  const bool quiet = csv_out || html_out;
  if (!quiet)
    print("{}", !arguments.matrix.empty() ? report_matrix(report, arguments.matrix)
                : arguments.markdown      ? report_markdown(report)
                                          : report_text(report, color, width));
  for (const std::string* each : {&arguments.csv, &arguments.html}) {
    const std::filesystem::path path(*each);
    if (!each->empty() && file_exists((path.parent_path() / "cell.json").string()))
      throw UsageError(fmt::format(
          "{}: lies in a run's folder, among the files that the run is made of; name another place",
          *each));
  }
  if (!arguments.csv.empty() && arguments.csv == arguments.html)
    throw UsageError(fmt::format("{}: named for both --csv and --html", arguments.csv));
  const auto write = [&](const char* what, const std::string& path, const std::string& content) {
    if (arguments.page_by_the_way) {
      try {
        write_file_atomically(path, content);
      } catch (const FileError& error) {
        if (!error.of_permission()) throw;
        log::warn("there is no {}: {}", what, error.what());
        return;
      }
    } else {
      write_named_file(path, content);
    }
    if (!quiet)
      print("{}: {}\n", what, std::filesystem::absolute(path).lexically_normal().string());
  };
  if (!arguments.csv.empty()) write("numbers", arguments.csv, report_csv(report));
  if (!arguments.html.empty()) write("page with pictures", arguments.html, report_html(report));
  return 0;
}

}  // namespace longshot
