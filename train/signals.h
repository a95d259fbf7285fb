// Stopping from outside: SIGHUP, SIGINT, SIGTERM and SIGUSR1 ask a run to save and stop (exit code
// 75); a second signal other than SIGHUP, 50 ms later or more, stops at once (exit code 128 +
// signal). Under nohup, SIGHUP stays ignored.
#pragma once

namespace longshot {

class SignalScope {
 public:
  SignalScope();   // installs the handlers; the request is cleared
  ~SignalScope();  // puts back what was there before
  SignalScope(const SignalScope&) = delete;
  SignalScope& operator=(const SignalScope&) = delete;
};

bool stop_requested();
int stop_signal();    // the first signal that came, 0 when none
void request_stop();  // as if a signal had come (tests, and a parent passing it on)
void clear_stop_request();

}  // namespace longshot
