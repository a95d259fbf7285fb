#include "experiments/run_folder.h"

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <unistd.h>
#include <vector>

#include "core/error.h"
#include "core/files.h"
#include "core/log.h"
#include "train/json_text.h"

namespace longshot {
namespace {

constexpr std::pair<RunState, const char*> kNames[] = {
    {RunState::absent, "absent"},     {RunState::created, "created"},
    {RunState::running, "running"},   {RunState::interrupted, "interrupted"},
    {RunState::finished, "finished"}, {RunState::failed, "failed"},
    {RunState::diverged, "diverged"}};

bool locks_off = false;

struct flock whole_file(FolderLock::Kind kind = FolderLock::Kind::write) {
  struct flock lock = {};
  lock.l_type = kind == FolderLock::Kind::write ? F_WRLCK : F_RDLCK;
  lock.l_whence = SEEK_SET;
  return lock;
}

[[noreturn]] void no_locks(const std::string& path, int error) {
  throw FileError("cannot lock", path, error,
                  "; --no-locks goes on without: see to it then that only one program at a time "
                  "works on the study");
}

}  // namespace

const char* name_of(RunState state) {
  for (const auto& [value, name] : kNames)
    if (value == state) return name;
  return "?";
}

std::string time_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

RunStatus read_status(const std::string& folder) {
  RunStatus status;
  if (!file_exists(folder + "/config.toml")) return status;
  status.state = RunState::created;
  const std::string path = folder + "/status.json";
  if (!file_exists(path)) return status;
  try {
    const auto json = nlohmann::json::parse(read_file(path));
    const std::string state = json.at("state");
    for (const auto& [value, name] : kNames)
      if (state == name) status.state = value;
    status.identity = json.value("identity", "");
    status.message = json.value("message", "");
    status.started = json.value("started", "");
    status.updated = json.value("updated", "");
    status.exit_code = json.value("exit_code", 0);
    status.process = json.value("process", int64_t(0));
  } catch (const nlohmann::json::exception&) {
    return status;  // damaged: the run starts from its last checkpoint, which has its own checks
  }
  try {
    if (status.state == RunState::running && !FolderLock::taken(folder))
      status.state = RunState::interrupted;
  } catch (const FileError&) {  // not known whether a process is at work
  }
  return status;
}

void write_status(const std::string& folder, RunStatus status) {
  const nlohmann::ordered_json json = {
      {"state", name_of(status.state)}, {"identity", status.identity},
      {"exit_code", status.exit_code},  {"message", status.message},
      {"process", status.process},      {"started", status.started},
      {"updated", time_now()}};
  write_file_atomically(folder + "/status.json", json_text(json, 2));
}

int64_t trained_steps(const std::string& folder) {
  std::ifstream file(folder + "/training_state.safetensors", std::ios::binary);
  uint64_t size = 0;
  constexpr uint64_t kLargestHeader = 100'000'000;  // as safetensors limits it
  if (!file.read(reinterpret_cast<char*>(&size), sizeof size) || size > kLargestHeader) return 0;
  std::string header(size, ' ');
  if (!file.read(header.data(), std::streamsize(size))) return 0;
  try {
    const auto state = nlohmann::json::parse(header).at("__metadata__").at("state");
    return nlohmann::json::parse(state.get<std::string>()).at("step").get<int64_t>();
  } catch (const nlohmann::json::exception&) {
    return 0;
  }
}

FolderLock::FolderLock(const std::string& folder, Kind kind) {
  if (locks_off) {
    held_ = true;
    return;
  }
  const std::string path = folder + "/.lock";
  descriptor_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (descriptor_ < 0) {
    const FileError reason("cannot write", path, errno);
    if (kind == Kind::write || !reason.of_permission()) throw reason;
    descriptor_ = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor_ < 0) {  // nothing that could be locked
      held_ = true;
      return;
    }
  }
  // A lock of the open file, not of the process: it can be asked about, and it ends with the
  // process.
  struct flock whole = whole_file(kind);
  held_ = fcntl(descriptor_, F_OFD_SETLK, &whole) == 0;
  const int error = errno;
  if (held_ || error == EAGAIN || error == EACCES) return;  // another process has it
  close(descriptor_);
  no_locks(path, error);
}

bool FolderLock::taken(const std::string& folder) {
  if (locks_off) return false;
  const std::string path = folder + "/.lock";
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0 && errno == ENOENT) return false;
  if (descriptor < 0) throw FileError("cannot read", path, errno);
  struct flock whole = whole_file();
  const bool asked = fcntl(descriptor, F_OFD_GETLK, &whole) == 0;
  const int error = errno;
  close(descriptor);
  if (!asked) no_locks(path, error);
  return whole.l_type != F_UNLCK;
}

void FolderLock::turn_off() {
  locks_off = true;
  log::warn(
      "working without locks: two programs on one study at the same time spoil each other's runs");
}

bool FolderLock::off() {
  return locks_off;
}

FolderLock::~FolderLock() {
  if (descriptor_ >= 0) close(descriptor_);  // releases the lock
}

void check_trained(const std::string& folder) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (!fs::is_directory(folder, error)) throw UsageError(fmt::format("{}: no such folder", folder));
  if (!file_exists(folder + "/config.toml")) {
    std::vector<std::string> runs;
    for (const std::string& each : list_folder(folder))
      if (file_exists(each + "/config.toml")) runs.push_back(each);
    std::string list;
    for (size_t i = 0; i < runs.size() && i < 5; ++i) list += (list.empty() ? "" : ", ") + runs[i];
    if (runs.size() > 5) list += ", ...";
    throw UsageError(fmt::format("{}: not a run folder (it has no config.toml){}{}", folder,
                                 list.empty() ? "" : "; it holds the runs ", list));
  }
  if (!file_exists(folder + "/checkpoint.safetensors"))
    throw UsageError(
        file_exists(folder + "/training_state.safetensors")
            ? fmt::format("{}: its checkpoint is gone; `longshot run` of its config writes it anew",
                          folder)
            : fmt::format("{}: there is no checkpoint; the run has not got that far", folder));
}

void make_folder(const std::string& path) {
  const auto refuse = [](const FileError& reason) {
    if (reason.of_the_disk()) throw reason;
    throw UsageError(reason.what());
  };
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) refuse(FileError("cannot make the folder", path, error.value()));
  if (access(path.c_str(), W_OK | X_OK) != 0) refuse(FileError("cannot write in", path, errno));
}

}  // namespace longshot
