// Threads: OpenMP behind two functions. Work is cut into pieces by shape alone; which thread runs
// a piece never matters for the result, because pieces write disjoint outputs.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <omp.h>
#include <string>

#include "core/cpu/scratch.h"

namespace longshot {

int threads();                 // current number of worker threads
std::string threads_reason();  // who decided it, in words
// n >= 1; 0: OMP_NUM_THREADS, else the processors that this process may use, or fewer where a
// container has a quota (core/machine.h).
void set_threads(int n);

namespace detail {
template <class Body>
void run_pieces(const Body& body, int64_t begin, int64_t end) {
  for (int64_t piece = begin; piece < end; ++piece) body(piece);
}

// The next piece of a thread's share, on a cache line of its own.
struct alignas(64) Share {
  std::atomic<int64_t> next{0};
};

// What was thrown in a parallel region, where an exception must not leave a thread: of those that
// threw, the lowest piece's.
class RegionFailure {
 public:
  void keep(int64_t piece) noexcept;  // in a handler
  void rethrow() const {
    if (first_) std::rethrow_exception(first_);
  }

 private:
  std::mutex mutex_;
  std::exception_ptr first_;
  int64_t piece_ = 0;
};
}  // namespace detail

// Calls body(piece) for every piece in [0, pieces). `parallel` = false runs on the calling thread
// (for work too small to pay for a barrier, about 5 us). A thread takes the pieces of its own share
// in order, neighbours in memory, and then what is left of the others': processors are seldom
// equally fast (efficiency cores, a neighbour on the other hyper-thread). What a piece throws is
// thrown here, after the pieces that had begun; no further one begins.
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
  constexpr int kMostShares = 64;
  std::array<detail::Share, kMostShares> share;
  const int shares = std::min(count, kMostShares);
  const int64_t batch = std::max<int64_t>(1, pieces / (64 * shares));  // of small pieces, several
  for (int i = 0; i < shares; ++i) share[size_t(i)].next = pieces * i / shares;
  detail::RegionFailure failure;
#pragma omp parallel num_threads(count)
  {
    int64_t piece = 0;
    try {
      cpu::even_out_scratch();
      const int own = omp_get_thread_num();
      for (int i = own; i < own + shares; ++i) {
        std::atomic<int64_t>& next = share[size_t(i % shares)].next;
        const int64_t end = pieces * (i % shares + 1) / shares;
        while ((piece = next.fetch_add(batch, std::memory_order_relaxed)) < end)
          run(body, piece, std::min(piece + batch, end));
      }
    } catch (...) {
      failure.keep(piece);
      for (detail::Share& each : share) each.next = pieces;
    }
  }
  failure.rethrow();
}

}  // namespace longshot
