// A run's folder and what state the run in it is in.
//
//   config.toml                  everything resolved; loads back to the same run
//   status.json                  state, process, times; replaced as a whole
//   summary.json                 the result
//   evaluations/*.json           later results of `longshot eval`, beside the first
//   metrics.jsonl, timing.jsonl, log.txt, checkpoint.safetensors, training_state.safetensors
//
// A lock on the folder's .lock file is held while a process works in it: two processes never write
// one run, and none is evaluated while it trains.
#pragma once

#include <string>

namespace longshot {

enum class RunState { absent, created, running, interrupted, finished, failed, diverged };
const char* name_of(RunState state);

struct RunStatus {
  RunState state = RunState::absent;
  std::string identity;
  std::string message;
  std::string started, updated;  // ISO 8601, UTC
  int exit_code = 0;
  int64_t process = 0;
};

// What status.json says; `running` only while some process holds the folder's lock, otherwise
// `interrupted` (where locks cannot be asked, as it stands there). A folder with a config but no
// readable status counts as `created`; no folder or no config as `absent`.
RunStatus read_status(const std::string& folder);
void write_status(const std::string& folder, RunStatus status);  // fills in `updated`
// The step that training_state.safetensors is of, from its header alone; 0 without a readable one.
int64_t trained_steps(const std::string& folder);

// Held while a process works in a folder. Where the file system has no locks, taking or asking
// throws FileError that says so, and turn_off() lets everything go on without.
class FolderLock {
 public:
  enum class Kind { write, read };  // many readers, or one writer
  // The folder must exist. A reader who may not write there takes the lock that is there, or none.
  explicit FolderLock(const std::string& folder, Kind kind = Kind::write);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  bool held() const { return held_; }  // false: another process has it
  // Whether some process holds it, without taking it for a moment; needs no write access.
  static bool taken(const std::string& folder);
  // --no-locks: every lock counts as held, and none as taken. Warns.
  static void turn_off();
  static bool off();

 private:
  int descriptor_ = -1;
  bool held_ = false;
};

// A run folder with a checkpoint; UsageError saying what the folder is otherwise.
void check_trained(const std::string& folder);

// Makes the folder and everything above it; UsageError with the system's reason, FileError where
// the disk is the reason.
void make_folder(const std::string& path);
std::string time_now();

}  // namespace longshot
