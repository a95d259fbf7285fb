// Progress away from a terminal: a log line every few seconds, not one for every step.
#include "train/progress.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fcntl.h>
#include <string>
#include <thread>
#include <unistd.h>

#include "core/files.h"
#include "tests/catch.h"
#include "tests/train/small_run.h"

using namespace longshot;
using namespace longshot::test;

namespace {

// Standard error goes to a file while this lives.
class ErrorsInFile {
 public:
  explicit ErrorsInFile(const std::string& path) : kept_(dup(STDERR_FILENO)) {
    std::fflush(stderr);
    const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    REQUIRE(file >= 0);
    dup2(file, STDERR_FILENO);
    close(file);
  }
  ~ErrorsInFile() {
    std::fflush(stderr);
    dup2(kept_, STDERR_FILENO);
    close(kept_);
  }

 private:
  int kept_;
};

}  // namespace

TEST_CASE("away from a terminal, progress is a log line every few seconds", "[progress]") {
  const std::string path = fresh_folder("progress") + "/log";
  {
    const ErrorsInFile redirected(path);
    Progress progress(100, 400, "a run");
    const auto begin = std::chrono::steady_clock::now();
    int64_t step = 100;
    const auto update_until = [&](double seconds) {
      // At least once: the machine may have held this process up for longer.
      do {
        progress.update(++step < 300 ? step : 300, 0.25);
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
      } while (std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() <
               seconds);
    };
    update_until(1);
    CHECK(read_file(path).empty());
    update_until(5.2);
  }
  const std::string text = read_file(path);
  INFO(text);
  CHECK(std::count(text.begin(), text.end(), '\n') == 1);
  CHECK_THAT(text, ContainsSubstring("a run: step ") && ContainsSubstring("/400") &&
                       ContainsSubstring("loss 0.25") && ContainsSubstring("steps/s") &&
                       ContainsSubstring(" left"));
  CHECK_THAT(text, !ContainsSubstring("\r") && !ContainsSubstring("\x1b[K"));
}
