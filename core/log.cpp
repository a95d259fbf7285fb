#include "core/log.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <spdlog/cfg/env.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/dist_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include "core/streams.h"

namespace longshot::log {
namespace {

struct Logger {
  std::shared_ptr<spdlog::sinks::dist_sink_mt> sinks =
      std::make_shared<spdlog::sinks::dist_sink_mt>();
  std::shared_ptr<spdlog::sinks::dist_sink_mt> files =
      std::make_shared<spdlog::sinks::dist_sink_mt>();
  std::shared_ptr<spdlog::logger> logger, file_logger;

  Logger() {
    const char* setting = std::getenv("NO_COLOR");
    const bool no_color = setting != nullptr && *setting != '\0';
    auto terminal = std::make_shared<spdlog::sinks::stderr_color_sink_mt>(
        no_color ? spdlog::color_mode::never : spdlog::color_mode::automatic);
    sinks->add_sink(std::move(terminal));
    sinks->add_sink(files);
    logger = std::make_shared<spdlog::logger>("longshot", sinks);
    file_logger = std::make_shared<spdlog::logger>("longshot files", files);
    logger->set_pattern("%H:%M:%S %^%l%$ %v");
    logger->flush_on(spdlog::level::info);
    file_logger->flush_on(spdlog::level::info);
    // A log that cannot be written (a full disk) is said once and stops nothing.
    const auto lost = [](const std::string& reason) {
      static std::once_flag once;
      std::call_once(once, [&] { say("the log cannot be written: {}\n", reason); });
    };
    logger->set_error_handler(lost);
    file_logger->set_error_handler(lost);
    spdlog::set_default_logger(logger);
    spdlog::cfg::load_env_levels();
  }
};

Logger& instance() {
  static Logger logger;
  return logger;
}

}  // namespace

void initialize() {
  instance();
}

FileSink::FileSink(const std::string& path) {
  try {
    auto sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(path);
    sink->set_pattern("%Y-%m-%d %H:%M:%S %l %v");
    instance().files->add_sink(sink);
    sink_ = sink.get();
  } catch (const spdlog::spdlog_ex& error) {
    warn("without a log file: {}", error.what());
  }
}

FileSink::~FileSink() {
  auto& sinks = instance().files->sinks();
  const auto found = std::find_if(sinks.begin(), sinks.end(),
                                  [this](const auto& sink) { return sink.get() == sink_; });
  if (found != sinks.end()) instance().files->remove_sink(*found);
}

void note(std::string_view message) {
  instance().file_logger->info(printable(message));
}
void debug(std::string_view message) {
  instance().logger->debug(printable(message));
}
void info(std::string_view message) {
  instance().logger->info(printable(message));
}
void warn(std::string_view message) {
  instance().logger->warn(printable(message));
}
void error(std::string_view message) {
  instance().logger->error(printable(message));
}

}  // namespace longshot::log
