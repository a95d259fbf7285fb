#include "core/parallel.h"

#include <omp.h>

#include "core/error.h"

namespace longshot {
namespace {
int configured_threads = 0;
}

int threads() {
  if (configured_threads == 0) configured_threads = omp_get_num_procs();
  return configured_threads;
}

void set_threads(int n) {
  LONGSHOT_CHECK(n >= 0 && n <= 1024, "set_threads: {} is not a number of threads (0 to 1024)", n);
  configured_threads = n == 0 ? omp_get_num_procs() : n;
}

}  // namespace longshot
