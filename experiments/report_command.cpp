// `longshot report DIR...`: tables on standard output, and a page or a CSV file when asked.
#include <cstdlib>
#include <filesystem>
#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "core/error.h"
#include "core/files.h"
#include "experiments/commands.h"
#include "experiments/report.h"

namespace longshot {

int report_command(const ReportArguments& arguments) {
  const Report report = gather_report(arguments.folders);
  const bool terminal = isatty(STDOUT_FILENO) != 0;
  winsize size{};
  int64_t width = 120;
  if (terminal && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    width = size.ws_col;
  const bool color = terminal && std::getenv("NO_COLOR") == nullptr;
  fmt::print("{}",
             arguments.markdown ? report_markdown(report) : report_text(report, color, width));
  const auto write = [](const char* what, const std::string& path, const std::string& content) {
    try {
      write_file_atomically(path, content);
    } catch (const Error& error) {
      throw UsageError(error.what());
    }
    fmt::print("{}: {}\n", what, std::filesystem::absolute(path).lexically_normal().string());
  };
  if (!arguments.csv.empty()) write("numbers", arguments.csv, report_csv(report));
  if (!arguments.html.empty()) write("page with pictures", arguments.html, report_html(report));
  return 0;
}

}  // namespace longshot
