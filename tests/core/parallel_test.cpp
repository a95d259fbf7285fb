// Work in pieces: each piece once, whatever the number of threads; a slow thread's share is done by
// the others; and scratch memory does not depend on who did what.
#include "core/parallel.h"

#include <atomic>
#include <chrono>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "core/cpu/scratch.h"
#include "core/error.h"
#include "tests/catch.h"

namespace {

using namespace longshot;

// Waits until `value` is `wanted`; false after a minute.
bool reaches(const std::atomic<int>& value, int wanted) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (value != wanted) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::yield();
  }
  return true;
}

TEST_CASE("parallel_for runs every piece once", "[parallel]") {
  for (const int count : {1, 2, 3, 5, 70})
    for (const int pieces : {0, 1, 2, 3, 7, 64, 1000}) {
      set_threads(count);
      std::vector<std::atomic<int>> runs(static_cast<size_t>(pieces));
      parallel_for(pieces, [&](int64_t piece) { ++runs[size_t(piece)]; });
      for (const std::atomic<int>& n : runs) CHECK(n == 1);
    }
  set_threads(0);
}

TEST_CASE("parallel_for: the pieces of a thread that is held up are run by another", "[parallel]") {
  set_threads(2);
  std::atomic<int> others = 0;
  bool done = false;
  parallel_for(10, [&](int64_t piece) {
    if (piece == 0)
      done = reaches(others, 9);  // 1 to 4 are of the same share
    else
      ++others;
  });
  CHECK(done);
  set_threads(0);
}

TEST_CASE("scratch: every thread holds what one of them has needed in a piece", "[parallel]") {
  constexpr int kThreads = 3;
  constexpr int64_t kBytes = 9 << 20;
  set_threads(kThreads);
  cpu::release_scratch();
  parallel_for(2, [&](int64_t piece) {
    cpu::ScratchScope scratch;
    if (piece == 0) scratch.allocate_bytes(kBytes);
  });
  // A piece for each thread: all wait for the last to begin.
  std::atomic<int> begun = 0;
  std::vector<int64_t> held(kThreads);
  parallel_for(kThreads, [&](int64_t piece) {
    ++begun;
    reaches(begun, kThreads);
    held[size_t(piece)] = cpu::scratch_bytes();
  });
  for (const int64_t bytes : held) CHECK(bytes >= kBytes);
  set_threads(0);
}

TEST_CASE("parallel_for: what a piece throws is thrown by the call", "[parallel]") {
  for (const int count : {1, 2, 4}) {
    set_threads(count);
    CAPTURE(count);
    const auto thrown = [](const auto& body) -> std::string {
      try {
        parallel_for(1000, body);
      } catch (const Error& error) {
        return error.what();
      }
      return "nothing";
    };
    CHECK(thrown([](int64_t piece) { LONGSHOT_CHECK(piece != 640, "piece {}", piece); }) ==
          "piece 640");
    // Of several the lowest of those that had begun; every thread's first piece has.
    std::atomic<int> runs = 0;
    const std::string one = thrown([&](int64_t) {
      ++runs;
      throw Error("all");
    });
    CHECK(one == "all");
    CHECK(runs <= count);
    // Not only errors of ours, and the next region is as good as new.
    CHECK_THROWS_AS(parallel_for(64, [](int64_t) { throw std::bad_alloc(); }), std::bad_alloc);
    std::atomic<int> pieces = 0;
    parallel_for(1000, [&](int64_t) { ++pieces; });
    CHECK(pieces == 1000);
  }
  set_threads(0);
}

TEST_CASE("parallel_for: the exception of the lowest piece is the one that comes out",
          "[parallel]") {
  set_threads(2);
  std::atomic<int> begun = 0;
  // Both threads are in their first piece before either throws.
  CHECK_THROWS_WITH(parallel_for(2,
                                 [&](int64_t piece) {
                                   ++begun;
                                   reaches(begun, 2);
                                   throw Error("piece " + std::to_string(piece));
                                 }),
                    ContainsSubstring("piece 0"));
  set_threads(0);
}

TEST_CASE("scratch: refused memory is an error that says how much, from any thread", "[parallel]") {
  for (const int count : {1, 2, 4}) {
    set_threads(count);
    CAPTURE(count);
    CHECK_THROWS_WITH(parallel_for(8,
                                   [](int64_t) {
                                     cpu::ScratchScope scratch;
                                     scratch.allocate_bytes(int64_t(1) << 60);
                                   }),
                      ContainsSubstring("cpu: out of memory: 1152921504606846976 bytes") &&
                          ContainsSubstring("scratch memory of a kernel"));
    std::atomic<int> given = 0;
    parallel_for(8, [&](int64_t) {
      cpu::ScratchScope scratch;
      given += scratch.allocate_bytes(64) != nullptr;
    });
    CHECK(given == 8);
  }
  set_threads(0);
}

}  // namespace
