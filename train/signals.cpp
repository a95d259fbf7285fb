#include "train/signals.h"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <ctime>
#include <iterator>
#include <unistd.h>

namespace longshot {
namespace {

constexpr int kSignals[] = {SIGHUP, SIGINT, SIGTERM, SIGUSR1};
// Read and written by a signal handler and by threads: atomics without locks serve both.
std::atomic<int> received = 0;
std::atomic<int64_t> received_at = 0;  // milliseconds; written before `received`
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<int64_t>::is_always_lock_free);
// One request can arrive twice: `timeout` signals the process and then its group, batch systems
// every process of a job while the sweep tells its cells too. So close together they count once.
constexpr int64_t kOneRequest = 50;
struct sigaction before[std::size(kSignals)];

int64_t milliseconds_now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);  // safe within a signal handler
  return int64_t(now.tv_sec) * 1000 + now.tv_nsec / 1000000;
}

extern "C" void longshot_on_signal(int signal) {
  const int64_t now = milliseconds_now();
  if (received == 0) {
    received_at = now;
    received = signal;
    constexpr char kWords[] = "stopping after what is under way; a second signal ends at once\n";
    const int error = errno;
    if (isatty(STDERR_FILENO) != 0 && write(STDERR_FILENO, kWords, sizeof kWords - 1) < 0) {
    }
    errno = error;
  } else if (signal != SIGHUP && now - received_at >= kOneRequest) {
    // A terminal that goes away hangs up more than once, and nobody waits there.
    _exit(128 + signal);
  }
}

}  // namespace

SignalScope::SignalScope() {
  received = 0;
  struct sigaction action = {};
  action.sa_handler = longshot_on_signal;
  action.sa_flags = SA_RESTART;  // a write under way goes on
  sigemptyset(&action.sa_mask);
  for (size_t i = 0; i < std::size(kSignals); ++i) {
    sigaction(kSignals[i], nullptr, &before[i]);
    // nohup: a hang-up that was ignored stays ignored.
    if (kSignals[i] == SIGHUP && before[i].sa_handler == SIG_IGN) continue;
    sigaction(kSignals[i], &action, nullptr);
  }
}

SignalScope::~SignalScope() {
  for (size_t i = 0; i < std::size(kSignals); ++i) sigaction(kSignals[i], &before[i], nullptr);
}

bool stop_requested() {
  return received != 0;
}
int stop_signal() {
  return received;
}
void request_stop() {
  received = SIGTERM;
}
void clear_stop_request() {
  received = 0;
}

}  // namespace longshot
