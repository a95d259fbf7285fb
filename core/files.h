// Files that are never half written: bytes go to a temporary file in the same folder, which is
// flushed to the disk and renamed over the target. A kill at any moment leaves the old file or the
// new one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"

namespace longshot {

// A file that could not be read or written, with the system's reason.
class FileError : public Error {
 public:
  // "cannot write PATH: No space left on device"
  FileError(std::string_view what, const std::string& path, int error, const char* advice = "");
  int error() const { return error_; }  // errno
  // The reason is the disk and not this one file: it is full, read-only, failing, has no locks. The
  // next file would meet the same.
  bool of_the_disk() const;
  // The reason is that this user may only read here.
  bool of_permission() const;

 private:
  int error_;
};

class AtomicFile {
 public:
  // Throws FileError, as all members do, when the folder cannot be written.
  explicit AtomicFile(std::string path);
  ~AtomicFile();  // without commit(): the temporary file is removed, the target untouched
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(const void* data, size_t bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }
  void commit();

 private:
  std::string path_, temporary_;
  int descriptor_ = -1;
};

void write_file_atomically(const std::string& path, std::string_view content);
// Removes temporary files that killed processes of this host left in a folder. (Their names hold
// host and process: another host's may be at work on a shared file system.)
void remove_abandoned_files(const std::string& folder);

// For a file that a person named. "-" is standard output. A link is followed, and the file it leads
// to replaced as a whole. What is no regular file (a FIFO, a device) is written into. Throws
// UsageError where the name is the mistake, FileError where the disk is.
void write_named_file(const std::string& path, std::string_view content);
// "-", or another name of what standard output writes to (/dev/stdout).
bool is_standard_output(const std::string& path);

std::string read_file(const std::string& path);  // or FileError
// Paths of what is in a folder, sorted; empty where there is no such folder. FileError where it
// cannot be read: what is in it must not count as missing.
std::vector<std::string> list_folder(const std::string& folder);
void remove_file(const std::string& path);  // or FileError; one that is not there is removed
bool file_exists(const std::string& path);

}  // namespace longshot
