// Progress on standard error: on a terminal one line that is rewritten, with step, loss, rate and
// time left; elsewhere a log line every few seconds, so that log files are not flooded.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace longshot {

class Progress {
 public:
  // Steps already done count for the time left, not for the rate.
  // `label` opens every line: which run this is. "": none.
  Progress(int64_t first_step, int64_t steps, std::string label = "");
  ~Progress();  // ends the terminal line
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  bool due() const;                        // whether it is time to print
  void update(int64_t step, double loss);  // prints when it is time; NaN: not known yet
  void clear();                            // removes the terminal line before other output

 private:
  using Clock = std::chrono::steady_clock;
  int64_t first_step_, steps_;
  std::string label_;
  bool terminal_;
  bool line_open_ = false;
  Clock::time_point start_, last_print_;
};

std::string format_duration(double seconds);  // "42 s", "3 min 05 s", "2 h 10 min"

}  // namespace longshot
