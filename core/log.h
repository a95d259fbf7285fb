// Logging: spdlog behind one header. Everything goes to standard error; results go to standard
// output and never through here. A log that cannot be written never stops a run.
#pragma once

#include <fmt/core.h>
#include <string>
#include <string_view>
#include <utility>

namespace longshot::log {

// Level from the environment variable SPDLOG_LEVEL (trace, debug, info, warn, error, off);
// default info. Colour only on a terminal and when NO_COLOR is not set. Safe to call twice.
void initialize();

// Also appends every message to `path` until the returned guard dies. Used for a run's log.txt.
// Without the file, where it cannot be opened; that is said.
class FileSink {
 public:
  explicit FileSink(const std::string& path);
  ~FileSink();
  FileSink(const FileSink&) = delete;
  FileSink& operator=(const FileSink&) = delete;

 private:
  void* sink_ = nullptr;
};

// Into the open FileSinks alone: what belongs into a run's log.txt but would be noise on a screen.
void note(std::string_view message);
void debug(std::string_view message);
void info(std::string_view message);
void warn(std::string_view message);
void error(std::string_view message);

template <class... Args>
void note(fmt::format_string<Args...> format, Args&&... args) requires(sizeof...(Args) > 0) {
  note(std::string_view(fmt::format(format, std::forward<Args>(args)...)));
}
template <class... Args>
void debug(fmt::format_string<Args...> format, Args&&... args) requires(sizeof...(Args) > 0) {
  debug(std::string_view(fmt::format(format, std::forward<Args>(args)...)));
}
template <class... Args>
void info(fmt::format_string<Args...> format, Args&&... args) requires(sizeof...(Args) > 0) {
  info(std::string_view(fmt::format(format, std::forward<Args>(args)...)));
}
template <class... Args>
void warn(fmt::format_string<Args...> format, Args&&... args) requires(sizeof...(Args) > 0) {
  warn(std::string_view(fmt::format(format, std::forward<Args>(args)...)));
}
template <class... Args>
void error(fmt::format_string<Args...> format, Args&&... args) requires(sizeof...(Args) > 0) {
  error(std::string_view(fmt::format(format, std::forward<Args>(args)...)));
}

}  // namespace longshot::log
