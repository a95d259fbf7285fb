#include "train/progress.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>

#include "core/log.h"

namespace longshot {
namespace {
constexpr double kTerminalSeconds = 0.2;
constexpr double kLogSeconds = 10;
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
      terminal_(isatty(STDERR_FILENO) != 0),
      start_(Clock::now()),
      last_print_(start_) {}

Progress::~Progress() { clear(); }

void Progress::clear() {
  if (!line_open_) return;
  std::fputs("\r\x1b[K", stderr);
  std::fflush(stderr);
  line_open_ = false;
}

void Progress::update(int64_t step, double loss) {
  const Clock::time_point now = Clock::now();
  const std::chrono::duration<double> since = now - last_print_;
  if (since.count() < (terminal_ ? kTerminalSeconds : kLogSeconds)) return;
  last_print_ = now;
  const double elapsed = std::chrono::duration<double>(now - start_).count();
  const double rate = elapsed > 0 ? double(step - first_step_) / elapsed : 0;
  const double left = rate > 0 ? double(steps_ - step) / rate : INFINITY;
  const std::string text = fmt::format("{}{}step {}/{}{}  {:.4g} steps/s  {} left", label_,
                                       label_.empty() ? "" : ": ", step, steps_,
                                       std::isnan(loss) ? "" : fmt::format("  loss {:.4g}", loss), rate,
                                       format_duration(left));
  if (!terminal_) {
    log::info(std::string_view(text));
    return;
  }
  // Erase to the end of the line: a shorter text must not leave the tail of a longer one.
  fmt::print(stderr, "\r{}\x1b[K", text);
  std::fflush(stderr);
  line_open_ = true;
}

}  // namespace longshot
