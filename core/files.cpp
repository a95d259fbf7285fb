#include "core/files.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/error.h"

namespace longshot {
namespace {

std::string folder_of(const std::string& path) {
  const size_t slash = path.find_last_of('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

[[noreturn]] void fail(const char* what, const std::string& path, int error) {
  throw Error(fmt::format("{} {}: {}", what, path, std::strerror(error)));
}

}  // namespace

AtomicFile::AtomicFile(std::string path) : path_(std::move(path)) {
  temporary_ = fmt::format("{}.{}.partial", path_, getpid());
  descriptor_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (descriptor_ < 0) fail("cannot write", path_, errno);
}

AtomicFile::~AtomicFile() {
  if (descriptor_ < 0) return;
  close(descriptor_);
  unlink(temporary_.c_str());
}

void AtomicFile::write(const void* data, size_t bytes) {
  const char* next = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = ::write(descriptor_, next, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) fail("cannot write", path_, written < 0 ? errno : ENOSPC);
    next += written;
    bytes -= size_t(written);
  }
}

void AtomicFile::commit() {
  if (fsync(descriptor_) != 0) fail("cannot write", path_, errno);
  if (close(descriptor_) != 0) {
    descriptor_ = -1;
    unlink(temporary_.c_str());
    fail("cannot write", path_, errno);
  }
  descriptor_ = -1;
  if (rename(temporary_.c_str(), path_.c_str()) != 0) {
    const int error = errno;
    unlink(temporary_.c_str());
    fail("cannot rename over", path_, error);
  }
  // The rename itself is durable once the folder is flushed.
  const int folder = open(folder_of(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder >= 0) {
    fsync(folder);
    close(folder);
  }
}

void write_file_atomically(const std::string& path, std::string_view content) {
  AtomicFile file(path);
  file.write(content);
  file.commit();
}

void remove_abandoned_files(const std::string& folder) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    // <target>.<process>.partial, as AtomicFile names them.
    const std::string name = entry.path().stem().string();
    const size_t dot = name.find_last_of('.');
    if (entry.path().extension() != ".partial" || dot == std::string::npos) continue;
    const std::string digits = name.substr(dot + 1);
    if (digits.empty() || digits.size() > 9 ||
        digits.find_first_not_of("0123456789") != std::string::npos)
      continue;
    const pid_t process = pid_t(std::stol(digits));
    const bool alive = process != getpid() && (kill(process, 0) == 0 || errno != ESRCH);
    if (!alive) unlink(entry.path().c_str());
  }
}

std::string read_file(const std::string& path) {
  std::FILE* file = std::fopen(path.c_str(), "rb");
  if (file == nullptr) fail("cannot read", path, errno);
  std::string content;
  char buffer[65536];
  size_t got;
  while ((got = std::fread(buffer, 1, sizeof buffer, file)) > 0) content.append(buffer, got);
  const int error = std::ferror(file) ? errno : 0;
  std::fclose(file);
  if (error != 0) fail("cannot read", path, error);
  return content;
}

bool file_exists(const std::string& path) {
  struct stat status;
  return stat(path.c_str(), &status) == 0;
}

}  // namespace longshot
