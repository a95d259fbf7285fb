// A library for LD_PRELOAD that refuses calls of the program under test:
//
//   LONGSHOT_FAULT   KIND:N:ERRNO  refuses the N-th call of a kind, from 1 on; N = 0: all of them
//   LONGSHOT_UNDER   the folder whose files count; files elsewhere are left alone
//   LONGSHOT_REACHED a file that is made when a call has been refused
//
// Kinds: open (for reading), create (for writing), write, sync, rename, mkdir, mmap, lock, memory
// (pieces of at least 32 KiB). ERRNO is a number. Only the thread-safe and malloc-free is used, for
// malloc itself is among the calls.
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace {

struct Settings {
  char kind[16] = {}, under[512] = {}, reached[512] = {};
  long n = -1, error = 0;
};

Settings read_settings() {
  Settings settings;
  const char* fault = std::getenv("LONGSHOT_FAULT");
  const char* under = std::getenv("LONGSHOT_UNDER");
  const char* reached = std::getenv("LONGSHOT_REACHED");
  if (fault == nullptr || under == nullptr || reached == nullptr) return settings;
  const char* colon = std::strchr(fault, ':');
  if (colon == nullptr || size_t(colon - fault) >= sizeof settings.kind) return settings;
  std::memcpy(settings.kind, fault, size_t(colon - fault));
  char* end = nullptr;
  settings.n = std::strtol(colon + 1, &end, 10);
  settings.error = std::strtol(end + 1, nullptr, 10);
  std::strncpy(settings.under, under, sizeof settings.under - 1);
  std::strncpy(settings.reached, reached, sizeof settings.reached - 1);
  return settings;
}

const Settings& settings() {
  static const Settings read = read_settings();
  return read;
}

std::atomic<long> calls = 0;

bool under(const char* path) {
  const size_t size = std::strlen(settings().under);
  return path != nullptr && size > 0 && std::strncmp(path, settings().under, size) == 0;
}

bool under(int descriptor) {
  char link[64], path[1024];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  const ssize_t size = readlink(link, path, sizeof path - 1);
  if (size <= 0) return false;
  path[size] = 0;
  return under(path);
}

bool is_kind(const char* kind) {
  return settings().n >= 0 && std::strcmp(settings().kind, kind) == 0;
}

// Counts the call; true: it is refused, with errno set.
bool refused() {
  const long call = ++calls;
  if (settings().n != 0 && call != settings().n) return false;
  const long made = syscall(SYS_openat, AT_FDCWD, settings().reached, O_WRONLY | O_CREAT, 0644);
  if (made >= 0) syscall(SYS_close, made);
  errno = int(settings().error);
  return true;
}

template <class F>
F next(const char* name) {
  return reinterpret_cast<F>(dlsym(RTLD_NEXT, name));
}

bool writes(int flags) {
  return (flags & O_ACCMODE) != O_RDONLY;
}

bool refuse_open(const char* path, bool write) {
  return is_kind(write ? "create" : "open") && under(path) && refused();
}

mode_t mode_of(int flags, va_list arguments) {
  return (flags & (O_CREAT | O_TMPFILE)) != 0 ? mode_t(va_arg(arguments, unsigned)) : 0;
}

bool refuse_write(int descriptor) {
  return is_kind("write") && under(descriptor) && refused();
}

bool refuse_memory(size_t bytes) {
  return bytes >= 32768 && is_kind("memory") && refused();
}

}  // namespace

#define LONGSHOT_OPEN(name)                          \
  int name(const char* path, int flags, ...) {       \
    va_list arguments;                               \
    va_start(arguments, flags);                      \
    const mode_t mode = mode_of(flags, arguments);   \
    va_end(arguments);                               \
    if (refuse_open(path, writes(flags))) return -1; \
    using Open = int (*)(const char*, int, ...);     \
    static const Open original = next<Open>(#name);  \
    return original(path, flags, mode);              \
  }
#define LONGSHOT_FOPEN(name)                                                     \
  FILE* name(const char* path, const char* mode) {                               \
    if (refuse_open(path, std::strpbrk(mode, "wa+") != nullptr)) return nullptr; \
    using Open = FILE* (*)(const char*, const char*);                            \
    static const Open original = next<Open>(#name);                              \
    return original(path, mode);                                                 \
  }

extern "C" {

LONGSHOT_OPEN(open)
LONGSHOT_OPEN(open64)
LONGSHOT_FOPEN(fopen)
LONGSHOT_FOPEN(fopen64)

ssize_t write(int descriptor, const void* data, size_t bytes) {
  if (refuse_write(descriptor)) return -1;
  using Write = ssize_t (*)(int, const void*, size_t);
  static const Write original = next<Write>("write");
  return original(descriptor, data, bytes);
}

// stdio's own calls of write() cannot be seen from here: its functions stand in for them.
size_t fwrite(const void* data, size_t size, size_t count, FILE* file) {
  if (file != stdout && file != stderr && refuse_write(fileno(file))) return 0;
  using Write = size_t (*)(const void*, size_t, size_t, FILE*);
  static const Write original = next<Write>("fwrite");
  return original(data, size, count, file);
}
int fflush(FILE* file) {
  if (file != nullptr && file != stdout && file != stderr && refuse_write(fileno(file))) return EOF;
  using Flush = int (*)(FILE*);
  static const Flush original = next<Flush>("fflush");
  return original(file);
}

int fsync(int descriptor) {
  if (is_kind("sync") && under(descriptor) && refused()) return -1;
  using Sync = int (*)(int);
  static const Sync original = next<Sync>("fsync");
  return original(descriptor);
}
int fdatasync(int descriptor) {
  if (is_kind("sync") && under(descriptor) && refused()) return -1;
  using Sync = int (*)(int);
  static const Sync original = next<Sync>("fdatasync");
  return original(descriptor);
}

int rename(const char* from, const char* to) {
  if (is_kind("rename") && under(to) && refused()) return -1;
  using Rename = int (*)(const char*, const char*);
  static const Rename original = next<Rename>("rename");
  return original(from, to);
}
int mkdir(const char* path, mode_t mode) {
  if (is_kind("mkdir") && under(path) && refused()) return -1;
  using Mkdir = int (*)(const char*, mode_t);
  static const Mkdir original = next<Mkdir>("mkdir");
  return original(path, mode);
}

void* mmap(void* address, size_t bytes, int protection, int flags, int descriptor, off_t offset) {
  if (descriptor >= 0 && is_kind("mmap") && under(descriptor) && refused()) return MAP_FAILED;
  using Map = void* (*)(void*, size_t, int, int, int, off_t);
  static const Map original = next<Map>("mmap");
  return original(address, bytes, protection, flags, descriptor, offset);
}

int fcntl(int descriptor, int command, ...) {
  va_list arguments;
  va_start(arguments, command);
  void* argument = va_arg(arguments, void*);
  va_end(arguments);
  const bool lock = command == F_OFD_SETLK || command == F_OFD_GETLK;
  if (lock && is_kind("lock") && under(descriptor) && refused()) return -1;
  using Control = int (*)(int, int, ...);
  static const Control original = next<Control>("fcntl");
  return original(descriptor, command, argument);
}
int fcntl64(int descriptor, int command, ...) {
  va_list arguments;
  va_start(arguments, command);
  void* argument = va_arg(arguments, void*);
  va_end(arguments);
  return fcntl(descriptor, command, argument);
}

// glibc's own names: dlsym itself may ask for memory.
void* __libc_malloc(size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);

void* malloc(size_t bytes) {
  return refuse_memory(bytes) ? nullptr : __libc_malloc(bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) {
  return refuse_memory(bytes) ? nullptr : __libc_memalign(alignment, bytes);
}

}  // extern "C"
