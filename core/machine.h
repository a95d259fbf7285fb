// What the machine lets this process use. A container's limits lie in the files of its control
// group (cgroup, versions 1 and 2), where the process's own group and each one above it count.
//
// `root` is the folder in which /proc and /sys are looked up: "" but for tests.
#pragma once

#include <string>

namespace longshot {

// Processors' worth of time that the container may use; infinite without a quota.
double processor_quota(const std::string& root = "");

// The least of the limits on memory, and which it is. Swap space counts as memory.
struct MemoryLimit {
  double bytes = 0;
  std::string reason;
};
MemoryLimit memory_limit(const std::string& root = "");

struct ThreadChoice {
  int count = 0;
  std::string reason;
};
// OMP_NUM_THREADS (null: not set) where it is a number, else the processors, or the whole ones of a
// smaller quota (at least one).
ThreadChoice choose_threads(int processors, const char* omp_num_threads, double quota);

}  // namespace longshot
