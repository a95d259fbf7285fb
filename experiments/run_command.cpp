// `longshot run`: one run, or every cell of a sweep. Finished cells are skipped, interrupted ones
// resumed; a failed cell is reported and the rest goes on. Ends with the table and the page of what
// is finished.
#include <algorithm>
#include <filesystem>
#include <fmt/core.h>
#include <signal.h>
#include <sys/prctl.h>

#include "core/files.h"
#include "core/log.h"
#include "core/parallel.h"
#include "core/streams.h"
#include "experiments/commands.h"
#include "experiments/sweep_plan.h"
#include "experiments/sweep_runner.h"
#include "train/progress.h"
#include "train/signals.h"

namespace longshot {
namespace {

void print_dry_run(const SweepPlan& plan, const RunArguments& arguments) {
  const std::vector<double> seconds = estimate_seconds(plan, arguments.retry_failed);
  std::vector<std::string> states;
  size_t width = 4, state_width = 18;
  for (const PlannedCell& cell : plan.cells) {
    std::string state = cell.evaluate_again ? "to evaluate again" : name_of(cell.status.state);
    if (cell.status.state == RunState::absent) state = "to run";
    if (cell.status.state == RunState::interrupted)
      state += fmt::format(" at step {} of {}", cell.step, cell.run.config.train.steps);
    width = std::max(width, cell.run.cell.size());
    state_width = std::max(state_width, state.size());
    states.push_back(std::move(state));
  }
  print("{}: {} {} in {}\n", plan.study, plan.cells.size(),
        plan.cells.size() == 1 ? "cell" : "cells",
        std::filesystem::absolute(plan.folder).lexically_normal().string());
  double total = 0;
  for (size_t i = 0; i < plan.cells.size(); ++i) {
    const PlannedCell& cell = plan.cells[i];
    print("  {:<{}}  {:<{}} {}\n", cell.run.cell, width, states[i], state_width,
          cell.needs_work(arguments.retry_failed) ? "about " + format_duration(seconds[i])
                                                  : "nothing to do");
    total += seconds[i];
  }
  for (const std::string& note : plan.notes) print("note: {}\n", note);
  const double jobs = double(std::min<int64_t>(arguments.jobs, int64_t(plan.cells.size())));
  print("about {} in all with {} {} a cell{}; estimated from a few steps of each kind of cell\n",
        format_duration(total / jobs), threads(), threads() == 1 ? "thread" : "threads",
        jobs > 1 ? fmt::format(" and {} cells side by side", int64_t(jobs)) : "");
}

}  // namespace

int run_command(const RunArguments& arguments) {
  if (arguments.no_locks) FolderLock::turn_off();
  if (arguments.jobs < 1)
    throw UsageError(fmt::format("--jobs: {} is less than 1", arguments.jobs));
  set_threads(int(arguments.threads > 0 ? arguments.threads : 0));
  if (arguments.threads == 0 && arguments.jobs > 1)
    set_threads(int(std::max<int64_t>(1, threads() / arguments.jobs)));
  SweepPlan plan = plan_sweep(arguments);
  if (arguments.dry_run) {
    print_dry_run(plan, arguments);
    return kExitDone;
  }
  // A finished study in a folder that may only be read is shown all the same.
  const bool work = std::any_of(plan.cells.begin(), plan.cells.end(), [&](const PlannedCell& cell) {
    return cell.needs_work(arguments.retry_failed);
  });
  if (work) {
    make_folder(plan.folder);
    remove_abandoned_files(plan.folder);
  }
  SignalScope signals;
  const int code = SweepRunner(plan, arguments).run();
  if (code == kExitStopped) {
    say("stopped by a signal; the same command goes on where it was\n");
    return code;
  }
  if (code == kExitDisk) return kExitFailed;
  // Whatever is finished is shown, failures or not.
  ReportArguments report;
  report.places = {plan.folder};
  for (const PlannedCell& cell : plan.cells) report.config.insert(cell.run.identity);
  report.html = arguments.html.empty() ? plan.folder + "/report.html" : arguments.html;
  report.page_by_the_way = arguments.html.empty();
  const bool any = std::any_of(plan.cells.begin(), plan.cells.end(), [](const PlannedCell& cell) {
    return read_status(cell.run.folder).state == RunState::finished;
  });
  if (any) report_command(report);
  return code;
}

int cell_command(const std::string& folder, int64_t thread_count, bool no_locks) {
  if (no_locks) FolderLock::turn_off();
  // When the sweep's own process dies, its cells stop as well: with a checkpoint.
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  set_threads(int(thread_count));
  SignalScope signals;
  CellDisplay display;
  display.progress = false;
  // The sweep reads the reason: with a full disk it stands nowhere else.
  try {
    return run_cell(read_cell(folder), display);
  } catch (const FileError& error) {
    print("{}", error.what());
    return error.of_the_disk() ? kExitDisk : kExitFailed;
  } catch (const UsageError& error) {
    print("{}", error.what());
    return kExitUsage;
  } catch (const std::exception& error) {
    print("{}", error.what());
    return kExitFailed;
  }
}

}  // namespace longshot
