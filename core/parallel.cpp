#include "core/parallel.h"

#include <cstdlib>

#include "core/error.h"
#include "core/machine.h"

namespace longshot {
namespace {
ThreadChoice chosen;  // count 0: not yet

ThreadChoice automatic() {
  return choose_threads(omp_get_num_procs(), std::getenv("OMP_NUM_THREADS"), processor_quota());
}
}  // namespace

int threads() {
  if (chosen.count == 0) chosen = automatic();
  return chosen.count;
}

std::string threads_reason() {
  threads();
  return chosen.reason;
}

void set_threads(int n) {
  LONGSHOT_CHECK(n >= 0 && n <= 1024, "set_threads: {} is not a number of threads (0 to 1024)", n);
  chosen = n == 0 ? automatic() : ThreadChoice{n, "as asked for"};
}

namespace detail {
void RegionFailure::keep(int64_t piece) noexcept {
  const std::lock_guard lock(mutex_);
  if (first_ && piece_ <= piece) return;
  first_ = std::current_exception();
  piece_ = piece;
}
}  // namespace detail

}  // namespace longshot
