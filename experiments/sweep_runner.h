// Works off a planned sweep: cells one after another in this process, or side by side as child
// processes.
//
// A cell that fails is reported and the rest goes on. A disk that is full or fails is no cell's
// fault: the study stops, and its cells are gone on with later. A cell that another process has
// taken is left to it: each folder is locked while it is worked in, so two programs on one study
// share the cells between them.
#pragma once

#include <vector>

#include "experiments/commands.h"
#include "experiments/sweep_plan.h"

namespace longshot {

class SweepRunner {
 public:
  SweepRunner(SweepPlan& plan, const RunArguments& arguments);
  int run();  // returns the program's exit code

 private:
  enum class Prepared { ready, busy, finished };
  Prepared prepare(PlannedCell& cell);
  // prepare, and what it says is dealt with; true: go ahead.
  bool take(PlannedCell& cell);
  void ended(const PlannedCell& cell, int code, double seconds, const std::string& error = "");
  void run_here();
  void run_children();
  bool give_up() const;
  void print_begin() const;
  void print_end() const;

  SweepPlan& plan_;
  const RunArguments& arguments_;
  std::vector<PlannedCell*> todo_;
  int64_t ended_ = 0, done_ = 0, before_ = 0, failed_ = 0, failed_before_ = 0, busy_ = 0;
  int last_failure_ = 0;
  bool stopped_ = false;
  std::string disk_;  // why nothing can be written any more; "": it can
};

}  // namespace longshot
