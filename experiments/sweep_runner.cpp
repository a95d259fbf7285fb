#include "experiments/sweep_runner.h"

#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <map>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "core/clock.h"
#include "core/files.h"
#include "core/log.h"
#include "core/parallel.h"
#include "core/streams.h"
#include "train/progress.h"
#include "train/signals.h"

extern char** environ;

namespace longshot {
namespace {

std::string scores_in_words(const std::string& folder) {
  const Summary summary = read_summary(folder);
  const StoredEvaluation& evaluation = summary.evaluations.front();
  if (evaluation.scores.in_range.empty()) return "done";
  const LengthScore& inside = evaluation.scores.in_range.front();
  const double outside = mean_over(summary, evaluation, inside.sliding,
                                   lengths_beyond(summary, evaluation, inside.sliding))
                             .value;
  const auto show = [&](double value) {
    if (!std::isfinite(value)) return std::string("not measured");
    return summary.metric == "loss" ? fmt::format("loss {:.3f}", value)
                                    : fmt::format("{:.1f} %", 100 * value);
  };
  std::string text = "in range " + show(metric_of(summary, inside.score).value);
  if (std::isfinite(outside)) text += ", beyond " + show(outside);
  return text;
}

std::string describe(int code, const std::string& folder, const std::string& error) {
  if (code == kExitStopped) return "stopped";
  if (!error.empty()) return "failed: " + error;
  try {
    if (code == kExitDone) return scores_in_words(folder);
    const RunStatus status = read_status(folder);
    const char* what = code == kExitDiverged ? "diverged" : "failed";
    return status.message.empty() ? fmt::format("{} (exit code {})", what, code)
                                  : fmt::format("{}: {}", what, status.message);
  } catch (const Error& unreadable) {
    return unreadable.what();
  }
}

// A child's log goes to its log.txt; its standard error is not mixed with the others'. On its
// standard output it says why it could not go on where its folder may not know. It is in a process
// group of its own: Ctrl-C reaches this process alone, which passes it on once.
pid_t start_child(const std::string& folder, int* output) {
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  const std::string threads_text = std::to_string(threads());
  std::vector<std::string> words = {program, "cell", folder, "--threads", threads_text};
  if (FolderLock::off()) words.push_back("--no-locks");
  int ends[2];  // of a pipe: a reason is short, so the child never waits for a reader
  if (pipe2(ends, O_CLOEXEC) != 0)
    throw Error(fmt::format("cannot make a pipe: {}", std::strerror(errno)));
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  posix_spawnattr_setpgroup(&attributes, 0);
  pid_t pid = 0;
  const int error =
      posix_spawn(&pid, program.c_str(), &actions, &attributes, pointers.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  if (error != 0) {
    close(ends[0]);
    throw Error(fmt::format("cannot start {}: {}", program, std::strerror(error)));
  }
  *output = ends[0];
  return pid;
}

// What is in the pipe of a child that has ended.
std::string rest_of(int descriptor) {
  std::string text;
  char buffer[4096];
  for (ssize_t got; (got = read(descriptor, buffer, sizeof buffer)) > 0;)
    text.append(buffer, size_t(got));
  close(descriptor);
  return text;
}

std::string count(int64_t n, const char* noun) {
  return fmt::format("{} {}{}", n, noun, n == 1 ? "" : "s");
}

}  // namespace

SweepRunner::SweepRunner(SweepPlan& plan, const RunArguments& arguments)
    : plan_(plan), arguments_(arguments) {
  for (PlannedCell& cell : plan_.cells) {
    const RunState state = cell.status.state;
    if (cell.needs_work(arguments.retry_failed)) {
      todo_.push_back(&cell);
    } else if (state == RunState::finished) {
      ++before_;
    } else if (state == RunState::running) {
      FolderLock::taken(cell.run.folder);  // throws where that cannot be known
      ++busy_;
      say("{}: another process is working on it; skipped\n", cell.run.cell);
    } else {
      ++failed_before_;
      last_failure_ = cell.status.exit_code != 0 ? cell.status.exit_code : kExitFailed;
      say("{}: {} before{}{}; --retry-failed runs it again\n", cell.run.cell, name_of(state),
          cell.status.message.empty() ? "" : ": ", cell.status.message);
    }
  }
}

void SweepRunner::print_begin() const {
  for (const std::string& note : plan_.notes) say("note: {}\n", note);
  // What describes a processor says how many threads work on it.
  std::string device = plan_.device;
  const std::string count_of_threads = count(threads(), "thread");
  if (device.find(count_of_threads) == std::string::npos) device += ", " + count_of_threads;
  if (plan_.cells.size() == 1 && !todo_.empty()) {
    say("{}: {} on {}\n", plan_.study, plan_.cells.front().run.cell, device);
  } else if (!todo_.empty()) {
    const int64_t jobs = std::min<int64_t>(arguments_.jobs, int64_t(todo_.size()));
    say("{}: {}{} on {}{}\n", plan_.study, count(int64_t(todo_.size()), "cell"),
        before_ > 0 ? fmt::format(" to do ({} finished before)", before_) : "", device,
        jobs > 1 ? fmt::format(", {} side by side", jobs) : "");
  } else if (failed_before_ == 0 && busy_ == 0) {
    say("{}: finished before, nothing to do\n", plan_.study);
  }
}

void SweepRunner::print_end() const {
  if (plan_.cells.size() == 1) return;
  if (failed_ + failed_before_ + busy_ == 0 && !stopped_ && disk_.empty()) return;
  std::string text =
      fmt::format("{} of {} finished", done_ + before_, count(int64_t(plan_.cells.size()), "cell"));
  if (failed_ + failed_before_ > 0) text += fmt::format(", {} failed", failed_ + failed_before_);
  if (busy_ > 0) text += fmt::format(", {} left to another process", busy_);
  const int64_t left =
      int64_t(plan_.cells.size()) - done_ - before_ - failed_ - failed_before_ - busy_;
  if (left > 0) text += fmt::format(", {} not done yet", left);
  if (failed_ > 0) text += "; --retry-failed runs failed cells again";
  say("{}: {}\n", plan_.study, text);
}

int SweepRunner::run() {
  print_begin();
  if (arguments_.jobs <= 1 || todo_.size() <= 1) {
    run_here();
  } else {
    run_children();
  }
  print_end();
  if (!disk_.empty()) {
    say("{}: stopped: {}\nOnce that is mended, the same command goes on where it was.\n",
        plan_.study, disk_);
    return kExitDisk;
  }
  if (stopped_) return kExitStopped;
  if (failed_ + failed_before_ == 0) return kExitDone;
  // One run alone reports its own code; a sweep says that something failed.
  return plan_.cells.size() == 1 ? last_failure_ : kExitFailed;
}

SweepRunner::Prepared SweepRunner::prepare(PlannedCell& cell) {
  const std::string& folder = cell.run.folder;
  make_folder(folder);
  {
    const FolderLock lock(folder);
    if (!lock.held()) return Prepared::busy;
    // The plan is a while old: another process may have been here since.
    const RunState now = read_status(folder).state;
    if (now == RunState::finished && cell.status.state != RunState::finished &&
        file_exists(folder + "/summary.json"))
      return Prepared::finished;
    write_cell(cell.run);
  }
  // A failed run goes on from its checkpoint where that is sound (the disk was full, the memory ran
  // out). One that diverged would diverge again, and starts over.
  const RunState before = cell.status.state;
  if (before == RunState::diverged || (before == RunState::failed && !can_resume(cell.run))) {
    const FolderLock lock(folder);
    if (!lock.held()) return Prepared::busy;
    for (const char* file : {"training_state.safetensors", "checkpoint.safetensors",
                             "metrics.jsonl", "timing.jsonl", "status.json", "summary.json"})
      remove_file(folder + "/" + file);
  }
  return Prepared::ready;
}

bool SweepRunner::take(PlannedCell& cell) {
  std::string error;
  int code = kExitFailed;
  try {
    const Prepared prepared = prepare(cell);
    if (prepared == Prepared::ready) return true;
    code = prepared == Prepared::busy ? kExitBusy : kExitDone;
  } catch (const UsageError& caught) {
    code = kExitUsage;
    error = caught.what();
  } catch (const FileError& caught) {
    if (caught.of_the_disk()) code = kExitDisk;
    error = caught.what();
  } catch (const std::exception& caught) {
    error = caught.what();
  }
  ended(cell, code, 0, error);
  return false;
}

void SweepRunner::ended(const PlannedCell& cell, int code, double seconds,
                        const std::string& error) {
  if (code == kExitDisk) {  // one reason for all that were at work, said once
    if (disk_.empty()) disk_ = error.empty() ? "the disk cannot be written" : error;
    return;
  }
  ++ended_;
  if (code == kExitBusy) {
    ++busy_;
    say("{}: another process is working on it; skipped\n", cell.run.cell);
    return;
  }
  if (code == kExitStopped) {
    stopped_ = true;
  } else if (code == kExitDone) {
    ++done_;
  } else {
    ++failed_;
    last_failure_ = code;
  }
  const std::string place =
      plan_.cells.size() > 1 ? fmt::format("[{}/{}] ", ended_, todo_.size()) : std::string();
  say("{}{}: {} ({})\n", place, cell.run.cell, describe(code, cell.run.folder, error),
      format_duration(seconds));
}

bool SweepRunner::give_up() const {
  return stopped_ || !disk_.empty() || (arguments_.fail_fast && failed_ > 0);
}

void SweepRunner::run_here() {
  for (PlannedCell* cell : todo_) {
    if (give_up()) break;
    if (stop_requested()) {
      stopped_ = true;
      break;
    }
    if (!take(*cell)) continue;
    const double begin = now_seconds();
    CellDisplay display;
    if (plan_.cells.size() > 1) display.label = cell->run.cell;
    int code = kExitFailed;
    std::string error;
    try {
      code = run_cell(cell->run, display);
    } catch (const FileError& caught) {
      if (caught.of_the_disk()) code = kExitDisk;
      error = caught.what();
    } catch (const std::exception& caught) {  // not even a status could be written
      error = caught.what();
    }
    ended(*cell, code, now_seconds() - begin, error);
  }
}

void SweepRunner::run_children() {
  struct Child {
    PlannedCell* cell;
    double begin;
    int output;
  };
  std::map<pid_t, Child> children;
  size_t next = 0;
  bool told = false;
  const auto more = [&] { return next < todo_.size() && !give_up() && !stop_requested(); };
  while (!children.empty() || more()) {
    while (int64_t(children.size()) < arguments_.jobs && more()) {
      PlannedCell* cell = todo_[next++];
      if (!take(*cell)) continue;
      try {
        int output = -1;
        const pid_t pid = start_child(cell->run.folder, &output);
        children[pid] = {cell, now_seconds(), output};
      } catch (const std::exception& caught) {
        ended(*cell, kExitFailed, 0, caught.what());
      }
    }
    if ((stop_requested() || give_up()) && !told) {
      for (const auto& [pid, child] : children) kill(pid, SIGTERM);
      told = true;
    }
    int status = 0;
    const pid_t pid = waitpid(-1, &status, WNOHANG);
    const auto found = children.find(pid);
    if (pid <= 0 || found == children.end()) {
      if (!children.empty()) std::this_thread::sleep_for(std::chrono::milliseconds(20));
      continue;
    }
    PlannedCell& cell = *found->second.cell;
    std::string error = rest_of(found->second.output);
    if (WIFSIGNALED(status)) error = fmt::format("killed by signal {}", WTERMSIG(status));
    // Stopped because another cell failed: that is no wish to stop the whole.
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : kExitFailed;
    const double seconds = now_seconds() - found->second.begin;
    children.erase(found);
    if (code == kExitStopped && !stop_requested()) {
      ++ended_;
      say("[{}/{}] {}: stopped ({})\n", ended_, todo_.size(), cell.run.cell,
          format_duration(seconds));
    } else {
      ended(cell, code, seconds, error);
    }
  }
  if (stop_requested()) stopped_ = true;
}

}  // namespace longshot
