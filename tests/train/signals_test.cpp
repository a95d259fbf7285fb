#include "train/signals.h"

#include <csignal>

#include "tests/catch.h"

using namespace longshot;

namespace {

// What the process does with a signal, put back at the end.
class Disposition {
 public:
  Disposition(int signal, void (*handler)(int)) : signal_(signal) {
    struct sigaction action = {};
    action.sa_handler = handler;
    sigaction(signal, &action, &before_);
  }
  ~Disposition() { sigaction(signal_, &before_, nullptr); }

 private:
  int signal_;
  struct sigaction before_;
};

}  // namespace

TEST_CASE("signals: a hang-up asks for a stop, and more of them ask for no more") {
  const Disposition usual(SIGHUP, SIG_DFL);
  {
    const SignalScope scope;
    CHECK_FALSE(stop_requested());
    std::raise(SIGHUP);
    CHECK(stop_signal() == SIGHUP);
    const timespec later{0, 100'000'000};  // past what counts as one request
    nanosleep(&later, nullptr);
    std::raise(SIGHUP);
    CHECK(stop_signal() == SIGHUP);
  }
  clear_stop_request();
}

TEST_CASE("signals: under nohup a hang-up stays ignored") {
  const Disposition ignored(SIGHUP, SIG_IGN);
  {
    const SignalScope scope;
    std::raise(SIGHUP);
    CHECK_FALSE(stop_requested());
    std::raise(SIGTERM);
    CHECK(stop_signal() == SIGTERM);
  }
  clear_stop_request();
  struct sigaction after;
  sigaction(SIGHUP, nullptr, &after);
  CHECK(after.sa_handler == SIG_IGN);
}
