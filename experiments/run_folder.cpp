#include "experiments/run_folder.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <unistd.h>
#include <vector>

#include "core/error.h"
#include "core/files.h"

namespace longshot {
namespace {

constexpr std::pair<RunState, const char*> kNames[] = {
    {RunState::absent, "absent"},     {RunState::created, "created"},
    {RunState::running, "running"},   {RunState::interrupted, "interrupted"},
    {RunState::finished, "finished"}, {RunState::failed, "failed"},
    {RunState::diverged, "diverged"}};

struct flock whole_file() {
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return lock;
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
  if (status.state == RunState::running && !FolderLock::taken(folder))
    status.state = RunState::interrupted;
  return status;
}

void write_status(const std::string& folder, RunStatus status) {
  const nlohmann::ordered_json json = {
      {"state", name_of(status.state)}, {"identity", status.identity},
      {"exit_code", status.exit_code},  {"message", status.message},
      {"process", status.process},      {"started", status.started},
      {"updated", time_now()}};
  write_file_atomically(folder + "/status.json", json.dump(2) + "\n");
}

FolderLock::FolderLock(const std::string& folder) {
  descriptor_ = open((folder + "/.lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (descriptor_ < 0)
    throw UsageError(fmt::format("cannot write in {}: {}", folder, std::strerror(errno)));
  // A lock of the open file, not of the process: it can be asked about, and it ends with the
  // process.
  struct flock whole = whole_file();
  held_ = fcntl(descriptor_, F_OFD_SETLK, &whole) == 0;
}

bool FolderLock::taken(const std::string& folder) {
  const int descriptor = open((folder + "/.lock").c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return false;
  struct flock whole = whole_file();
  const bool asked = fcntl(descriptor, F_OFD_GETLK, &whole) == 0;
  close(descriptor);
  return asked && whole.l_type != F_UNLCK;
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
    for (const auto& entry : fs::directory_iterator(folder, error))
      if (file_exists(entry.path().string() + "/config.toml"))
        runs.push_back(entry.path().string());
    std::sort(runs.begin(), runs.end());
    std::string list;
    for (size_t i = 0; i < runs.size() && i < 5; ++i) list += (list.empty() ? "" : ", ") + runs[i];
    if (runs.size() > 5) list += ", ...";
    throw UsageError(fmt::format("{}: not a run folder (it has no config.toml){}{}", folder,
                                 list.empty() ? "" : "; it holds the runs ", list));
  }
  if (!file_exists(folder + "/checkpoint.safetensors"))
    throw UsageError(
        fmt::format("{}: there is no checkpoint; the run has not got that far", folder));
}

void make_folder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) throw UsageError(fmt::format("cannot make the folder {}: {}", path, error.message()));
  if (access(path.c_str(), W_OK | X_OK) != 0)
    throw UsageError(fmt::format("cannot write in {}: {}", path, std::strerror(errno)));
}

}  // namespace longshot
