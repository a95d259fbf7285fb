// Seconds on a clock that never goes back, for measuring how long things take. Its zero means
// nothing: only differences do. Results never depend on it.
#pragma once

#include <chrono>

namespace longshot {

inline double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace longshot
