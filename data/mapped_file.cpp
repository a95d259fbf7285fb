#include "data/mapped_file.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "core/files.h"

namespace longshot {
namespace {

// A wrong name or missing rights are the user's to mend; anything else is the machine's failure.
[[noreturn]] void refuse(const char* what, const std::string& path, int error) {
  for (const int mistake : {ENOENT, ENOTDIR, EISDIR, EACCES, EPERM, ELOOP, ENAMETOOLONG})
    if (error == mistake)
      throw UsageError(fmt::format("{}: {}: {}", path, what, std::strerror(error)));
  throw FileError(what, path, error);
}

}  // namespace

MappedFile::MappedFile(const std::string& path) {
  const int descriptor =
      ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a FIFO must not wait
  if (descriptor < 0) refuse("cannot open", path, errno);
  struct stat status {};
  if (::fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) {
    ::close(descriptor);
    throw UsageError(fmt::format("{}: is not a regular file", path));
  }
  size_ = size_t(status.st_size);
  if (size_ > 0) {
    void* mapping = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, descriptor, 0);
    const int error = errno;
    ::close(descriptor);
    if (mapping == MAP_FAILED) refuse("cannot map", path, error);
    data_ = static_cast<const uint8_t*>(mapping);
  } else {
    ::close(descriptor);
  }
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<uint8_t*>(data_), size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

}  // namespace longshot
