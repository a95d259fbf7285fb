// `longshot run`: one run, or every cell of a sweep. Finished cells are skipped, interrupted ones resumed; a
// failed cell is reported and the rest goes on. With --jobs, cells are child processes side by side.
#include <fcntl.h>
#include <fmt/core.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>
#include <thread>

#include "core/log.h"
#include "core/parallel.h"
#include "experiments/commands.h"
#include "experiments/sweep_plan.h"
#include "train/progress.h"
#include "train/signals.h"

extern char** environ;

namespace longshot {
namespace {

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void print_dry_run(const SweepPlan& plan, const RunArguments& arguments) {
  const std::vector<double> seconds = estimate_seconds(plan, arguments.retry_failed);
  size_t width = 4;
  for (const PlannedCell& cell : plan.cells) width = std::max(width, cell.run.cell.size());
  fmt::print("{}: {} cell(s) in {}\n", plan.study, plan.cells.size(), plan.folder);
  double total = 0;
  for (size_t i = 0; i < plan.cells.size(); ++i) {
    const PlannedCell& cell = plan.cells[i];
    std::string state = cell.evaluate_again ? "to evaluate again" : name_of(cell.status.state);
    if (cell.status.state == RunState::absent) state = "to run";
    const bool work = cell.needs_work(arguments.retry_failed);
    fmt::print("  {:<{}}  {:<18} {}\n", cell.run.cell, width, state,
               work ? "about " + format_duration(seconds[i]) : "nothing to do");
    total += seconds[i];
  }
  const double jobs = double(std::min<int64_t>(arguments.jobs, int64_t(plan.cells.size())));
  fmt::print("about {} on this machine ({} thread(s) a cell", format_duration(total / jobs), threads());
  if (arguments.jobs > 1) fmt::print(", {} cells at once", arguments.jobs);
  fmt::print("); an estimate from a few steps of each kind of cell\n");
}

std::string describe(int code, const std::string& folder) {
  if (code == kExitDone) {
    const Summary summary = read_summary(folder);
    const StoredEvaluation& evaluation = summary.evaluations.front();
    const bool sliding = evaluation.scores.in_range.front().sliding;
    const Score* inside = in_range(evaluation, sliding);
    const double outside = out_of_range(summary, evaluation, sliding);
    const auto show = [&](double value) {
      if (!std::isfinite(value)) return std::string("-");
      return summary.metric == "loss" ? fmt::format("{:.3f}", value)
                                      : fmt::format("{:.1f} %", 100 * value);
    };
    return fmt::format("in range {}, beyond {}", show(metric_of(summary, *inside)), show(outside));
  }
  if (code == kExitDiverged) return "diverged";
  if (code == kExitStopped) return "stopped";
  const RunStatus status = read_status(folder);
  return fmt::format("failed (exit code {}){}", code,
                     status.message.empty() ? "" : ": " + status.message);
}

// Runs cells and counts how they ended.
class SweepRunner {
 public:
  SweepRunner(SweepPlan& plan, const RunArguments& arguments) : plan_(plan), arguments_(arguments) {
    for (PlannedCell& cell : plan_.cells) {
      if (cell.needs_work(arguments.retry_failed)) {
        todo_.push_back(&cell);
      } else if (cell.status.state == RunState::failed || cell.status.state == RunState::diverged) {
        ++failed_;
        fmt::print(stderr, "{}: {} before; --retry-failed runs it again\n", cell.run.cell,
                   name_of(cell.status.state));
        if (cell.status.state == RunState::diverged) diverged_ = true;
      } else if (cell.status.state == RunState::running) {
        fmt::print(stderr, "{}: another process is working on it; skipped\n", cell.run.cell);
      }
    }
  }

  int run() {
    if (arguments_.jobs <= 1 || todo_.size() <= 1) {
      run_here();
    } else {
      run_children();
    }
    if (stopped_) return kExitStopped;
    if (failed_ == 0) return kExitDone;
    // One run alone reports its own code; a sweep says that something failed.
    if (plan_.cells.size() == 1) return diverged_ ? kExitDiverged : last_failure_;
    return kExitFailed;
  }

 private:
  void prepare(PlannedCell& cell) {
    if (cell.status.state == RunState::failed || cell.status.state == RunState::diverged) {
      // Retrying starts over: what is there led to the failure.
      for (const char* file : {"training_state.safetensors", "checkpoint.safetensors", "metrics.jsonl",
                               "timing.jsonl", "status.json"}) {
        std::filesystem::remove(cell.run.folder + "/" + file);
      }
    }
    write_cell(cell.run);
  }

  void ended(const PlannedCell& cell, int code, double seconds) {
    ++done_;
    if (code == kExitStopped) {
      stopped_ = true;
    } else if (code != kExitDone) {
      ++failed_;
      last_failure_ = code;
      if (code == kExitDiverged) diverged_ = true;
    }
    if (plan_.cells.size() > 1 || code != kExitDone) {
      fmt::print(stderr, "[{}/{}] {}: {} ({})\n", done_, todo_.size(), cell.run.cell,
                 describe(code, cell.run.folder), format_duration(seconds));
    }
  }

  bool give_up() const { return stopped_ || (arguments_.fail_fast && failed_ > 0); }

  void run_here() {
    for (PlannedCell* cell : todo_) {
      if (give_up()) break;
      if (stop_requested()) {
        stopped_ = true;
        break;
      }
      const double begin = now_seconds();
      int code = kExitFailed;
      try {
        prepare(*cell);
        code = run_cell(cell->run, true);
      } catch (const UsageError& error) {
        log::error("{}: {}", cell->run.cell, error.what());
        code = kExitUsage;
      }
      ended(*cell, code, now_seconds() - begin);
    }
  }

  void run_children() {
    struct Child {
      PlannedCell* cell;
      double begin;
    };
    std::map<pid_t, Child> children;
    size_t next = 0;
    bool told = false;
    while (!children.empty() || (next < todo_.size() && !give_up() && !stop_requested())) {
      while (next < todo_.size() && int64_t(children.size()) < arguments_.jobs && !give_up() &&
             !stop_requested()) {
        PlannedCell* cell = todo_[next++];
        try {
          prepare(*cell);
          children[start(cell->run.folder)] = {cell, now_seconds()};
        } catch (const UsageError& error) {
          log::error("{}: {}", cell->run.cell, error.what());
          ended(*cell, kExitUsage, 0);
        }
      }
      if (children.empty()) continue;
      if ((stop_requested() || (arguments_.fail_fast && failed_ > 0)) && !told) {
        for (const auto& [pid, child] : children) kill(pid, SIGTERM);
        told = true;
      }
      int status = 0;
      const pid_t pid = waitpid(-1, &status, WNOHANG);
      if (pid <= 0) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        continue;
      }
      const auto found = children.find(pid);
      if (found == children.end()) continue;
      int code = WIFEXITED(status) ? WEXITSTATUS(status) : kExitFailed;
      if (WIFSIGNALED(status)) {
        RunStatus written = read_status(found->second.cell->run.folder);
        written.message = fmt::format("killed by signal {}", WTERMSIG(status));
        written.state = RunState::interrupted;
        write_status(found->second.cell->run.folder, written);
      }
      ended(*found->second.cell, code, now_seconds() - found->second.begin);
      children.erase(found);
    }
    if (stop_requested()) stopped_ = true;
  }

  // A child's log goes to its log.txt; its standard error is not mixed with the others'.
  pid_t start(const std::string& folder) {
    const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
    const std::string threads_text = std::to_string(threads());
    std::vector<std::string> words = {program, "cell", folder, "--threads", threads_text};
    std::vector<char*> pointers;
    for (std::string& word : words) pointers.push_back(word.data());
    pointers.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    pid_t pid = 0;
    const int error = posix_spawn(&pid, program.c_str(), &actions, nullptr, pointers.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    if (error != 0)
      throw UsageError(fmt::format("cannot start {}: {}", program, std::strerror(error)));
    return pid;
  }

  SweepPlan& plan_;
  const RunArguments& arguments_;
  std::vector<PlannedCell*> todo_;
  size_t done_ = 0;
  int failed_ = 0, last_failure_ = kExitFailed;
  bool stopped_ = false, diverged_ = false;
};

}  // namespace

int run_command(const RunArguments& arguments) {
  if (arguments.jobs < 1) throw UsageError(fmt::format("--jobs: {} is less than 1", arguments.jobs));
  set_threads(int(arguments.threads > 0 ? arguments.threads : 0));
  if (arguments.threads == 0 && arguments.jobs > 1)
    set_threads(int(std::max<int64_t>(1, threads() / arguments.jobs)));
  SweepPlan plan = plan_sweep(arguments);
  if (arguments.dry_run) {
    print_dry_run(plan, arguments);
    return kExitDone;
  }
  make_folder(plan.folder);
  SignalScope signals;
  const int code = SweepRunner(plan, arguments).run();
  if (code == kExitStopped) {
    fmt::print(stderr, "stopped; the same command goes on where it was\n");
    return code;
  }
  // Whatever is finished is shown, failures or not.
  ReportArguments report;
  report.folders = {plan.folder};
  report.html = arguments.html.empty() ? plan.folder + "/report.html" : arguments.html;
  const bool any = std::any_of(plan.cells.begin(), plan.cells.end(), [](const PlannedCell& cell) {
    return read_status(cell.run.folder).state == RunState::finished;
  });
  if (any) report_command(report);
  return code;
}

int cell_command(const std::string& folder, int64_t thread_count) {
  set_threads(int(thread_count));
  SignalScope signals;
  return run_cell(read_cell(folder), false);
}

}  // namespace longshot
