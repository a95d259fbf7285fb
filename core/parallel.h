// Threads: OpenMP behind two functions. Work is cut into pieces by shape alone; which thread runs
// a piece never matters for the result, because pieces write disjoint outputs.
#pragma once

#include <cstdint>
#include <omp.h>

namespace longshot {

int threads();            // current number of worker threads
void set_threads(int n);  // n >= 1; 0 = all processors this process may use

namespace detail {
template <class Body>
void run_pieces(const Body& body, int64_t begin, int64_t end) {
  for (int64_t piece = begin; piece < end; ++piece) body(piece);
}
}  // namespace detail

// Calls body(piece) for every piece in [0, pieces). `parallel` = false runs on the calling thread
// (for work too small to pay for a barrier, about 5 us).
template <class Body>
void parallel_for(int64_t pieces, const Body& body, bool parallel = true) {
  // All ways to run go through one compiled copy of the body: in a second copy the compiler may
  // contract a * b + c differently, and bits would depend on the number of threads (seen with
  // GCC 12). Reading the pointer from a volatile keeps the compiler from making copies.
  void (*volatile run)(const Body&, int64_t, int64_t) = &detail::run_pieces<Body>;
  // One thread opens no parallel region: libgomp allocates a team for each region of one thread.
  const int count = threads();
  if (pieces <= 1 || !parallel || count == 1) {
    run(body, 0, pieces);
    return;
  }
#pragma omp parallel num_threads(count)
  {
    const int64_t thread = omp_get_thread_num(), team = omp_get_num_threads();
    run(body, pieces * thread / team, pieces * (thread + 1) / team);
  }
}

}  // namespace longshot
