#include "core/files.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/streams.h"

namespace longshot {
namespace {

std::string folder_of(const std::string& path) {
  const size_t slash = path.find_last_of('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

[[noreturn]] void fail(const char* what, const std::string& path, int error) {
  throw FileError(what, path, error);
}

void write_all(int descriptor, const std::string& path, const void* data, size_t bytes) {
  const char* next = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = ::write(descriptor, next, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) fail("cannot write", path, written < 0 ? errno : ENOSPC);
    next += written;
    bytes -= size_t(written);
  }
}

// This host's name with dots replaced, so that it is one part of a file's name.
std::string host_name() {
  char name[256] = {};
  if (gethostname(name, sizeof name - 1) != 0 || name[0] == 0) return "host";
  for (char& c : name)
    if (c == '.' || c == '/') c = '-';
  return name;
}

// Where a chain of links ends; the file there need not exist.
std::string followed(std::string path) {
  namespace fs = std::filesystem;
  std::error_code error;
  for (int i = 0; i < 40 && fs::is_symlink(fs::symlink_status(path, error)); ++i) {
    const fs::path target = fs::read_symlink(path, error);
    if (error) break;
    path = (fs::path(path).parent_path() / target).string();
  }
  return path;
}

}  // namespace

FileError::FileError(std::string_view what, const std::string& path, int error, const char* advice)
    : Error(fmt::format("{} {}: {}{}", what, path, std::strerror(error), advice)), error_(error) {}

bool FileError::of_the_disk() const {
  for (const int each : {ENOSPC, EDQUOT, EFBIG, EROFS, EIO, ENOLCK, EOPNOTSUPP, ENOSYS, EINVAL})
    if (error_ == each) return true;
  return false;
}

bool FileError::of_permission() const {
  return error_ == EACCES || error_ == EPERM || error_ == EROFS;
}

AtomicFile::AtomicFile(std::string path) : path_(std::move(path)) {
  temporary_ = fmt::format("{}.{}.{}.partial", path_, host_name(), getpid());
  descriptor_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (descriptor_ < 0) fail("cannot write", path_, errno);
}

AtomicFile::~AtomicFile() {
  if (descriptor_ < 0) return;
  close(descriptor_);
  unlink(temporary_.c_str());
}

void AtomicFile::write(const void* data, size_t bytes) {
  write_all(descriptor_, path_, data, bytes);
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
  const std::string host = host_name();
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    // <target>.<host>.<process>.partial, as AtomicFile names them.
    const std::filesystem::path name = entry.path().filename();
    const std::string digits = name.stem().extension().string();
    if (name.extension() != ".partial" || name.stem().stem().extension() != "." + host) continue;
    if (digits.size() < 2 || digits.size() > 10 ||
        digits.find_first_not_of("0123456789", 1) != std::string::npos)
      continue;
    const pid_t process = pid_t(std::stol(digits.substr(1)));
    const bool alive = process != getpid() && (kill(process, 0) == 0 || errno != ESRCH);
    if (!alive) unlink(entry.path().c_str());
  }
}

bool is_standard_output(const std::string& path) {
  if (path == "-") return true;
  struct stat file, output;
  return stat(path.c_str(), &file) == 0 && fstat(STDOUT_FILENO, &output) == 0 &&
         file.st_dev == output.st_dev && file.st_ino == output.st_ino;
}

void write_named_file(const std::string& path, std::string_view content) {
  if (is_standard_output(path)) {
    print_text(content);
    return;
  }
  try {
    struct stat status;
    const bool there = stat(path.c_str(), &status) == 0;
    if (!there && errno == ELOOP) fail("cannot write", path, errno);
    if (!there || S_ISREG(status.st_mode)) {
      write_file_atomically(followed(path), content);
      return;
    }
    const int descriptor = open(path.c_str(), O_WRONLY | O_CLOEXEC);
    if (descriptor < 0) fail("cannot write", path, errno);
    try {
      write_all(descriptor, path, content.data(), content.size());
    } catch (...) {
      close(descriptor);
      throw;
    }
    if (close(descriptor) != 0) fail("cannot write", path, errno);
  } catch (const FileError& error) {
    if (error.of_the_disk()) throw;
    throw UsageError(error.what());
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

std::vector<std::string> list_folder(const std::string& folder) {
  namespace fs = std::filesystem;
  std::vector<std::string> paths;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error))
    paths.push_back(entry->path().string());
  if (error && error.value() != ENOENT && error.value() != ENOTDIR)
    fail("cannot read the folder", folder, error.value());
  std::sort(paths.begin(), paths.end());
  return paths;
}

void remove_file(const std::string& path) {
  if (unlink(path.c_str()) != 0 && errno != ENOENT) fail("cannot remove", path, errno);
}

bool file_exists(const std::string& path) {
  struct stat status;
  return stat(path.c_str(), &status) == 0;
}

}  // namespace longshot
