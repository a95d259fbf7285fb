// Where a step's time goes: the profiler's times as a table and as JSON, each operation beside its
// own limit.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "experiments/profiling_backend.h"

namespace longshot {

struct StepProfile {
  std::vector<OperationTime> operations;
  int64_t steps = 0;
  double seconds = 0;         // of all profiled steps, host work included
  double operation_peak = 0;  // FLOP/s; what matrix products and attention are measured by
  double bandwidth = 0;       // bytes/s, from main memory: the measure of the others

  double host_seconds() const;                             // what no operation accounts for
  double share_of_limit(const OperationTime& each) const;  // of its own; negative when it has none
};

std::string profile_table(const StepProfile& profile);
std::string profile_json(const StepProfile& profile);  // a list of objects

}  // namespace longshot
