#include "train/progress.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fmt/core.h>
#include <string_view>
#include <sys/ioctl.h>
#include <unistd.h>

#include "core/log.h"
#include "core/streams.h"

namespace longshot {
namespace {
constexpr double kTerminalSeconds = 0.2;
constexpr double kLogSeconds = 5;

// A terminal that can rewrite a line.
bool on_terminal() {
  const char* kind = std::getenv("TERM");
  return isatty(STDERR_FILENO) != 0 && (kind == nullptr || std::string_view(kind) != "dumb");
}

// A line as wide as the terminal, or wider, could not be rewritten: it would have wrapped.
size_t terminal_width() {
  winsize size{};
  const bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
  return known ? size_t(size.ws_col) - 1 : 79;
}
}  // namespace

std::string format_duration(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "?";
  const int64_t total = int64_t(std::llround(seconds));
  if (seconds < 10) return fmt::format("{:.1f} s", seconds);
  if (total < 60) return fmt::format("{} s", total);
  if (total < 3600) return fmt::format("{} min {:02} s", total / 60, total % 60);
  return fmt::format("{} h {:02} min", total / 3600, total / 60 % 60);
}

Progress::Progress(int64_t first_step, int64_t steps, std::string label)
    : first_step_(first_step),
      steps_(steps),
      label_(std::move(label)),
      terminal_(on_terminal()),
      start_(Clock::now()),
      last_print_(start_) {}

Progress::~Progress() {
  clear();
}

void Progress::clear() {
  if (!line_open_) return;
  say("\r\x1b[K");
  line_open_ = false;
}

bool Progress::due() const {
  const std::chrono::duration<double> since = Clock::now() - last_print_;
  return since.count() >= (terminal_ ? kTerminalSeconds : kLogSeconds);
}

void Progress::update(int64_t step, double loss) {
  if (!due()) return;
  const Clock::time_point now = Clock::now();
  last_print_ = now;
  const double elapsed = std::chrono::duration<double>(now - start_).count();
  const double rate = elapsed > 0 ? double(step - first_step_) / elapsed : 0;
  const double left = rate > 0 ? double(steps_ - step) / rate : INFINITY;
  std::string text = fmt::format(
      "{}{}step {}/{}{}  {:.4g} steps/s  {} left", label_, label_.empty() ? "" : ": ", step, steps_,
      std::isnan(loss) ? "" : fmt::format("  loss {:.4g}", loss), rate, format_duration(left));
  if (!terminal_) {
    log::info(std::string_view(text));
    return;
  }
  text.resize(std::min(text.size(), terminal_width()));
  // Erase to the end of the line: a shorter text must not leave the tail of a longer one.
  say("\r{}\x1b[K", text);
  line_open_ = true;
}

}  // namespace longshot
