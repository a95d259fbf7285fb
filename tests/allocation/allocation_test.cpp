// No allocation from the system after the second identical training step.
//
// A program of its own, because it replaces malloc and its kin (operator new ends there too) to
// count calls. Not built with sanitizers, which bring their own.

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <malloc.h>

#include "core/parallel.h"
#include "tests/support/op_test.h"
#include "tests/support/small_network.h"

namespace {
std::atomic<long> allocations{0};
}

// glibc's own entry points, for programs that put themselves in front of malloc.
extern "C" {
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* pointer, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);

void* malloc(size_t bytes) {
  ++allocations;
  return __libc_malloc(bytes);
}
void* calloc(size_t count, size_t bytes) {
  ++allocations;
  return __libc_calloc(count, bytes);
}
void* realloc(void* pointer, size_t bytes) {
  ++allocations;
  return __libc_realloc(pointer, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) {
  ++allocations;
  return __libc_memalign(alignment, bytes);
}
void* memalign(size_t alignment, size_t bytes) {
  ++allocations;
  return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** result, size_t alignment, size_t bytes) {
  ++allocations;
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

}  // namespace
}  // namespace longshot::testing
