#include "core/machine.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <limits>
#include <sstream>
#include <sys/resource.h>
#include <unistd.h>
#include <vector>

namespace longshot {
namespace {

constexpr double kNone = std::numeric_limits<double>::infinity();

// The numbers in a file; "max" and a negative one stand for none.
std::vector<double> numbers(const std::string& path) {
  std::vector<double> result;
  std::ifstream file(path);
  for (std::string word; file >> word;) {
    char* end = nullptr;
    const double value = std::strtod(word.c_str(), &end);
    result.push_back(*end != 0 || value < 0 ? kNone : value);
  }
  return result;
}

double number(const std::string& path) {
  const std::vector<double> found = numbers(path);
  return found.empty() ? kNone : found.front();
}

// The least that `limit` gives for the folders of this process's group, from its own up to the
// root. `controller` is "" for version 2.
double least(const std::string& root, const std::string& controller,
             const std::function<double(const std::string& folder)>& limit) {
  double result = kNone;
  std::ifstream groups(root + "/proc/self/cgroup");  // lines "number:controllers:path"
  for (std::string line; std::getline(groups, line);) {
    std::istringstream parts(line);
    std::string id, controllers, path;
    std::getline(parts, id, ':');
    std::getline(parts, controllers, ':');
    std::getline(parts, path);
    const bool ours = controller.empty() ? controllers.empty()
                                         : ("," + controllers + ",").find("," + controller + ",") !=
                                               std::string::npos;
    if (!ours) continue;
    const std::string mount =
        root + "/sys/fs/cgroup" + (controller.empty() ? "" : "/" + controller);
    // In a container the path may be that of the host, with only its end to be seen here.
    for (;; path = path.substr(0, path.rfind('/'))) {
      result = std::min(result, limit(mount + path));
      if (path.find('/') == std::string::npos) break;
    }
  }
  return result;
}

}  // namespace

double processor_quota(const std::string& root) {
  const double second = least(root, "", [](const std::string& folder) {
    const std::vector<double> quota = numbers(folder + "/cpu.max");  // quota and period
    return quota.size() == 2 && quota[1] > 0 ? quota[0] / quota[1] : kNone;
  });
  const double first = least(root, "cpu", [](const std::string& folder) {
    const double quota = number(folder + "/cpu.cfs_quota_us");
    const double period = number(folder + "/cpu.cfs_period_us");
    return std::isfinite(quota) && std::isfinite(period) && period > 0 ? quota / period : kNone;
  });
  return std::min(first, second);
}

MemoryLimit memory_limit(const std::string& root) {
  double swap = 0;
  std::ifstream memory(root + "/proc/meminfo");  // lines "SwapTotal:   1024 kB"
  for (std::string line; std::getline(memory, line);)
    if (line.starts_with("SwapTotal:")) swap = 1024 * std::strtod(line.c_str() + 10, nullptr);
  MemoryLimit result{double(sysconf(_SC_PHYS_PAGES)) * double(sysconf(_SC_PAGESIZE)) + swap,
                     "this machine's memory"};
  const auto also = [&](double bytes, const char* reason) {
    if (bytes < result.bytes) result = {bytes, reason};
  };
  also(swap +
           std::min(least(root, "",
                          [](const std::string& folder) { return number(folder + "/memory.max"); }),
                    least(root, "memory",
                          [](const std::string& folder) {
                            return number(folder + "/memory.limit_in_bytes");
                          })),
       "the container's memory limit");
  rlimit address_space{};
  if (getrlimit(RLIMIT_AS, &address_space) == 0 && address_space.rlim_cur != RLIM_INFINITY)
    also(double(address_space.rlim_cur), "the limit on this process's memory (ulimit -v)");
  return result;
}

ThreadChoice choose_threads(int processors, const char* omp_num_threads, double quota) {
  if (omp_num_threads != nullptr) {
    char* end = nullptr;
    const long asked = std::strtol(omp_num_threads, &end, 10);  // "4", or "4,2": the outer level's
    if (end != omp_num_threads && asked >= 1)
      return {int(std::min(asked, 1024L)), "OMP_NUM_THREADS"};
  }
  if (quota < double(processors))
    return {std::max(1, int(quota)), "the container's processor quota"};
  return {processors, "processors that this process may use"};
}

}  // namespace longshot
