// No allocation from the system after the second identical training step; and each allocation
// refused in turn.
//
// A program of its own, because it replaces malloc and its kin (operator new ends there too) to
// count calls and to refuse them. Not built with sanitizers, which bring their own.

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <exception>
#include <limits>
#include <malloc.h>
#include <string>

#include "core/cpu/scratch.h"
#include "core/parallel.h"
#include "tests/support/op_test.h"
#include "tests/support/small_network.h"

namespace {
std::atomic<long> allocations{0};
std::atomic<long> refused_from{0}, refused_until{0};  // by number; none while both are 0

bool refused() {
  const long number = ++allocations;
  return number >= refused_from && number < refused_until;
}
}  // namespace

// glibc's own entry points, for programs that put themselves in front of malloc.
extern "C" {
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* pointer, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);

void* malloc(size_t bytes) {
  if (refused()) return nullptr;
  return __libc_malloc(bytes);
}
void* calloc(size_t count, size_t bytes) {
  if (refused()) return nullptr;
  return __libc_calloc(count, bytes);
}
void* realloc(void* pointer, size_t bytes) {
  if (refused()) return nullptr;
  return __libc_realloc(pointer, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) {
  if (refused()) return nullptr;
  return __libc_memalign(alignment, bytes);
}
void* memalign(size_t alignment, size_t bytes) {
  if (refused()) return nullptr;
  return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** result, size_t alignment, size_t bytes) {
  if (refused()) return ENOMEM;
  *result = __libc_memalign(alignment, bytes);
  return *result == nullptr ? ENOMEM : 0;
}
}

namespace longshot::testing {
namespace {

TEST_CASE("the counter counts") {
  const long before = allocations;
  auto* number = new double(1);
  auto text = std::string(1000, 'x');
  CHECK(allocations >= before + 2);
  CHECK(text.size() == 1000);
  delete number;
}

TEST_CASE("no allocation from the system after the second identical training step") {
  for (const int count : {1, 2}) {
    set_threads(count);
    Context context(cpu_backend(), ContextOptions{DType::f32, {}});
    SmallNetwork network(context);
    float loss = 0;
    network.step(0, &loss);
    network.step(0, &loss);
    const long before = allocations;
    for (int i = 0; i < 3; ++i) network.step(0, &loss);
    const long after = allocations;
    CHECK(after - before == 0);
  }
  set_threads(0);
}

// One step in which the n-th allocation is refused, or that and all after it; what it threw.
struct Attempt {
  bool refused = false;  // the step had so many allocations
  std::string error;
};
Attempt step_without(SmallNetwork& network, long n, bool all, float* loss) {
  Attempt attempt;
  std::exception_ptr thrown;
  const long first = allocations + n;
  refused_from = first;
  refused_until = all ? std::numeric_limits<long>::max() : first + 1;
  try {
    network.step(0, loss);
  } catch (...) {
    thrown = std::current_exception();
  }
  refused_until = 0;
  attempt.refused = allocations >= first;
  try {
    if (thrown) std::rethrow_exception(thrown);
  } catch (const std::exception& error) {
    attempt.error = error.what();
  }
  return attempt;
}

TEST_CASE("each allocation of a step refused in turn: an exception, and the next step is right") {
  for (const int count : {1, 2}) {
    set_threads(count);
    float expected = 0;
    {
      Context context(cpu_backend(), ContextOptions{DType::f32, {}});
      SmallNetwork(context).step(0, &expected);  // OpenMP has its threads from here on
    }
    for (const bool all : {false, true}) {
      bool told = false;
      long n = 1;
      for (bool refused = true; refused; ++n) {
#pragma omp parallel num_threads(count)
        cpu::release_scratch();
        Context context(cpu_backend(), ContextOptions{DType::f32, {}});
        SmallNetwork network(context);
        float loss = 0;
        const Attempt attempt = step_without(network, n, all, &loss);
        refused = attempt.refused;
        // Some memory a step can do without: then its result is right.
        if (attempt.error.empty()) CHECK(loss == expected);
        if (!refused) CHECK(attempt.error.empty());
        told = told || attempt.error.find("scratch memory of a kernel") != std::string::npos;
        network.step(0, &loss);
        CHECK(loss == expected);
      }
      CHECK(n > 10);
      // Where all is refused there is no memory for the sentence either.
      if (!all) CHECK(told);
    }
  }
  set_threads(0);
}

}  // namespace
}  // namespace longshot::testing
