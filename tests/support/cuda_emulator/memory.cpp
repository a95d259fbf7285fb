#include "memory.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include "scheduler.h"

namespace emulator {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kRegion = size_t(1) << 40;  // address space only
constexpr size_t kHugePage = size_t(2) << 20;
constexpr size_t kAlignment = 64;
constexpr size_t kFillLimit = size_t(256) << 20;  // larger allocations are filled up to here
constexpr unsigned char kCanary = 0xA7;

struct Allocation {
  size_t bytes;   // asked for
  char* pages;    // first page
  size_t mapped;  // whole pages, without the guard
};

// 4 GiB, unless a test wants a smaller device.
size_t initial_limit() {
  const char* mebibytes = std::getenv("LONGSHOT_EMULATOR_MEMORY_MB");
  return size_t(mebibytes ? std::strtoull(mebibytes, nullptr, 10) : 4096) << 20;
}

struct Memory {
  std::recursive_mutex mutex;
  std::map<char*, Allocation> live;
  char* region = nullptr;
  size_t next = 0;
  size_t used = 0;
  size_t limit = initial_limit();
  int open = 0;
};
Memory& memory() {
  static Memory* instance = new Memory;  // outlives every test's statics
  return *instance;
}

thread_local sigjmp_buf* host_fault_target = nullptr;
thread_local char host_fault_message[300];

size_t round_up(size_t value, size_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// Runs on the stack of the faulting code (SA_NODEFER, no alternate stack), so a kernel's lane can
// be abandoned from here like from any other place.
void on_fault(int signal, siginfo_t* info, void*) {
  BlockScheduler& scheduler = BlockScheduler::current();
  const char* address = static_cast<const char*>(info->si_addr);
  char text[300];
  if (scheduler.in_kernel()) {
    std::snprintf(text, sizeof text, "invalid access to %p: %s", info->si_addr,
                  in_device_region(address) ? "outside every live allocation of the device"
                                            : "not an address of the device");
    scheduler.fail(text);
  }
  if (in_device_region(address)) {
    std::snprintf(text, sizeof text, "device address %p used on the host", info->si_addr);
    if (host_fault_target) {
      std::memcpy(host_fault_message, text, sizeof text);
      siglongjmp(*host_fault_target, 1);
    }
    std::fprintf(stderr, "CUDA emulator: %s\n", text);
  }
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  sigaction(signal, &standard, nullptr);
}

// Test frameworks install handlers of their own for each test, so ours is put (back) in place
// whenever the device is about to be used.
void install_handler() {
  struct sigaction action {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  sigaction(SIGSEGV, &action, nullptr);
  sigaction(SIGBUS, &action, nullptr);
}

void start() {
  install_handler();
  Memory& m = memory();
  if (m.region) return;
  void* region =
      mmap(nullptr, kRegion, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (region == MAP_FAILED) {
    std::perror("CUDA emulator: no address space");
    std::abort();
  }
  m.region = static_cast<char*>(region);
  m.next = kPage;
}

void protect_all(int protection) {
  for (auto& [pointer, allocation] : memory().live) {
    mprotect(allocation.pages, allocation.mapped, protection);
  }
}

}  // namespace

void* device_allocate(size_t bytes) {
  Memory& m = memory();
  const std::lock_guard lock(m.mutex);
  start();
  if (bytes > m.limit || m.used + bytes > m.limit) return nullptr;
  const size_t padded = round_up(std::max<size_t>(bytes, 1), kAlignment);
  const size_t mapped = round_up(padded, kPage);
  // The whole memory is opened and closed at every wait: few large pages make that cheap.
  const bool huge = mapped >= kHugePage;
  if (huge) m.next = round_up(size_t(m.region) + m.next, kHugePage) - size_t(m.region);
  if (m.next + mapped + kPage > kRegion) return nullptr;
  char* pages = m.region + m.next;
  m.next += mapped + kPage;  // one page of guard
  if (mprotect(pages, mapped, PROT_READ | PROT_WRITE) != 0) return nullptr;
  if (huge) madvise(pages, mapped, MADV_HUGEPAGE);
  char* pointer = pages + mapped - padded;
  std::memset(pages, kCanary, size_t(pointer - pages));
  std::memset(pointer, 0xFF, std::min(bytes, kFillLimit));
  std::memset(pointer + bytes, kCanary, padded - bytes);
  if (!m.open) mprotect(pages, mapped, PROT_NONE);
  m.live[pointer] = {bytes, pages, mapped};
  m.used += bytes;
  return pointer;
}

bool device_release(void* pointer) {
  Memory& m = memory();
  const std::lock_guard lock(m.mutex);
  const auto found = m.live.find(static_cast<char*>(pointer));
  if (found == m.live.end()) return false;
  // A new mapping drops the pages and keeps the addresses reserved.
  mmap(found->second.pages, found->second.mapped, PROT_NONE,
       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  m.used -= found->second.bytes;
  m.live.erase(found);
  return true;
}

bool in_device_region(const void* pointer) {
  const Memory& m = memory();
  const char* p = static_cast<const char*>(pointer);
  return m.region && p >= m.region && p < m.region + kRegion;
}

bool is_device_pointer(const void* pointer) {
  Memory& m = memory();
  const std::lock_guard lock(m.mutex);
  char* p = static_cast<char*>(const_cast<void*>(pointer));
  auto found = m.live.upper_bound(p);
  if (found == m.live.begin()) return false;
  --found;
  return p <= found->first + found->second.bytes;
}

std::string describe_address(const void* pointer) {
  char text[160];
  std::snprintf(text, sizeof text, "%p, %s", pointer,
                !in_device_region(pointer)   ? "not an address of the device"
                : is_device_pointer(pointer) ? "an address of the device"
                                             : "outside every live allocation of the device");
  return text;
}

size_t device_memory_used() {
  return memory().used;
}
size_t device_memory_limit() {
  return memory().limit;
}
void set_device_memory_limit(size_t bytes) {
  memory().limit = bytes;
}

std::string check_allocation_ends() {
  Memory& m = memory();
  const std::lock_guard lock(m.mutex);
  for (auto& [pointer, allocation] : m.live) {
    const char* stop = allocation.pages + allocation.mapped;
    for (const char* p = pointer + allocation.bytes; p < stop; ++p) {
      if (static_cast<unsigned char>(*p) == kCanary) continue;
      char text[200];
      std::snprintf(text, sizeof text,
                    "write past the end of an allocation of %zu bytes (byte %zu)", allocation.bytes,
                    size_t(p - pointer));
      return text;
    }
    for (const char* p = allocation.pages; p < pointer; ++p) {
      if (static_cast<unsigned char>(*p) == kCanary) continue;
      char text[200];
      std::snprintf(text, sizeof text, "write %zu bytes before an allocation of %zu bytes",
                    size_t(pointer - p), allocation.bytes);
      return text;
    }
  }
  return {};
}

DeviceAccess::DeviceAccess() {
  Memory& m = memory();
  const std::lock_guard lock(m.mutex);
  if (m.open++ > 0) return;
  install_handler();
  protect_all(PROT_READ | PROT_WRITE);
}
DeviceAccess::~DeviceAccess() {
  Memory& m = memory();
  const std::lock_guard lock(m.mutex);
  if (--m.open == 0) protect_all(PROT_NONE);
}

std::string expect_host_fault(const std::function<void()>& body) {
  start();
  sigjmp_buf target;
  host_fault_target = &target;
  std::string message;
  if (sigsetjmp(target, 1) == 0) {
    body();
  } else {
    message = host_fault_message;
  }
  host_fault_target = nullptr;
  return message;
}

bool looks_like_host_pointer(const void* value) {
  const auto address = reinterpret_cast<uintptr_t>(value);
  // Programs, heaps and stacks of a 64-bit process lie high; what lies lower is a number or two
  // packed ones (and AddressSanitizer's shadow, which is mapped there, must not take them for
  // addresses).
  if (address < (uintptr_t(1) << 45) || address >= (uintptr_t(1) << 48)) return false;
  if (in_device_region(value)) return false;
  unsigned char resident = 0;
  void* page = reinterpret_cast<void*>(address & ~uintptr_t(kPage - 1));
  return mincore(page, 1, &resident) == 0;  // ENOMEM: nothing is mapped there
}

}  // namespace emulator
