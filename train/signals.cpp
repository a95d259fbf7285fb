#include "train/signals.h"

#include <csignal>
#include <unistd.h>

namespace longshot {
namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGUSR1};
volatile std::sig_atomic_t received = 0;
struct sigaction before[3];

extern "C" void longshot_on_signal(int signal) {
  if (received != 0) _exit(128 + signal);
  received = signal;
}

}  // namespace

SignalScope::SignalScope() {
  received = 0;
  struct sigaction action = {};
  action.sa_handler = longshot_on_signal;
  sigemptyset(&action.sa_mask);
  for (int i = 0; i < 3; ++i) sigaction(kSignals[i], &action, &before[i]);
}

SignalScope::~SignalScope() {
  for (int i = 0; i < 3; ++i) sigaction(kSignals[i], &before[i], nullptr);
}

bool stop_requested() { return received != 0; }
int stop_signal() { return received; }
void request_stop() { received = SIGTERM; }
void clear_stop_request() { received = 0; }

}  // namespace longshot
