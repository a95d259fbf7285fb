// Threads: OpenMP behind two functions. Work is cut into pieces by shape alone; which thread runs
// a piece never matters for the result, because pieces write disjoint outputs.
#pragma once

#include <cstdint>

namespace longshot {

int threads();             // current number of worker threads
void set_threads(int n);   // n >= 1; 0 = all processors this process may use

// Calls body(piece) for every piece in [0, pieces). `parallel` = false runs on the calling thread
// (for work too small to pay for a barrier, about 5 us).
template <class Body>
void parallel_for(int64_t pieces, const Body& body, bool parallel = true) {
  // One thread takes the parallel region too: the loop below would be a second compiled copy of the
  // body, in which the compiler may contract a * b + c differently, and bits would depend on the
  // number of threads (seen with GCC 12). This choice depends on the shape alone.
  if (pieces <= 1 || !parallel) {
    for (int64_t piece = 0; piece < pieces; ++piece) body(piece);
    return;
  }
#pragma omp parallel for schedule(static) num_threads(threads())
  for (int64_t piece = 0; piece < pieces; ++piece) body(piece);
}

}  // namespace longshot
