// What a container's files say, read from folders made for it.
#include "core/machine.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <stdlib.h>
#include <string>

#include "core/error.h"
#include "core/parallel.h"
#include "tests/catch.h"

namespace {

using namespace longshot;
namespace fs = std::filesystem;

struct Root {
  Root() {
    std::string name = (fs::temp_directory_path() / "longshot-root-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw Error("cannot make a temporary folder");
    path = name;
  }
  ~Root() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  Root& write(const std::string& name, const std::string& text) {
    fs::create_directories(fs::path(path + name).parent_path());
    std::ofstream(path + name) << text;
    return *this;
  }
  std::string path;
};

constexpr double kGiB = 1073741824.0;

}  // namespace

TEST_CASE("a processor quota of either version, of the group or of one above it", "[machine]") {
  CHECK(std::isinf(processor_quota(Root().path)));
  {
    Root root;  // version 2, seen from inside the container
    root.write("/proc/self/cgroup", "0::/\n").write("/sys/fs/cgroup/cpu.max", "250000 100000\n");
    CHECK(processor_quota(root.path) == 2.5);
    root.write("/sys/fs/cgroup/cpu.max", "max 100000\n");
    CHECK(std::isinf(processor_quota(root.path)));
  }
  {
    Root root;  // the least of the group's own and those above
    root.write("/proc/self/cgroup", "0::/jobs/mine\n")
        .write("/sys/fs/cgroup/jobs/mine/cpu.max", "400000 100000\n")
        .write("/sys/fs/cgroup/jobs/cpu.max", "50000 50000\n");
    CHECK(processor_quota(root.path) == 1.0);
  }
  {
    Root root;  // version 1, with the path of the host
    root.write("/proc/self/cgroup", "5:memory:/docker/abc\n3:cpu,cpuacct:/docker/abc\n")
        .write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "150000\n")
        .write("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    CHECK(processor_quota(root.path) == 1.5);
    root.write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
    CHECK(std::isinf(processor_quota(root.path)));
  }
}

TEST_CASE("the container's memory limit counts where it is below the machine's", "[machine]") {
  const MemoryLimit machine = memory_limit(Root().path);
  CHECK(machine.bytes > 0);
  Root second, first, none;
  second.write("/proc/self/cgroup", "0::/a\n")
      .write("/sys/fs/cgroup/a/memory.max", "max\n")
      .write("/sys/fs/cgroup/memory.max", "1048576\n");
  CHECK(memory_limit(second.path).bytes == 1048576);
  CHECK(memory_limit(second.path).reason == "the container's memory limit");
  second.write("/proc/meminfo", "MemTotal: 8 kB\nSwapTotal:       3 kB\n");
  CHECK(memory_limit(second.path).bytes == 1048576 + 3072);
  first.write("/proc/self/cgroup", "9:memory:/x\n")
      .write("/sys/fs/cgroup/memory/x/memory.limit_in_bytes", "2097152\n");
  CHECK(memory_limit(first.path).bytes == 2097152);
  none.write("/proc/self/cgroup", "9:memory:/x\n")
      .write("/sys/fs/cgroup/memory/x/memory.limit_in_bytes", "9223372036854771712\n");
  CHECK(memory_limit(none.path).bytes == machine.bytes);
  CHECK(memory_limit(none.path).bytes > kGiB / 64);
}

TEST_CASE("threads: OMP_NUM_THREADS, else the quota, else the processors", "[machine]") {
  const double none = std::numeric_limits<double>::infinity();
  const auto choice = [](int processors, const char* variable, double quota) {
    const ThreadChoice chosen = choose_threads(processors, variable, quota);
    return std::to_string(chosen.count) + " " + chosen.reason;
  };
  CHECK(choice(8, nullptr, none) == "8 processors that this process may use");
  CHECK(choice(8, "1", none) == "1 OMP_NUM_THREADS");
  CHECK(choice(8, "3,2", 1.0) == "3 OMP_NUM_THREADS");
  CHECK(choice(8, nullptr, 2.5) == "2 the container's processor quota");
  CHECK(choice(8, nullptr, 0.25) == "1 the container's processor quota");
  CHECK(choice(8, nullptr, 8.0) == "8 processors that this process may use");
  for (const char* nonsense : {"", "0", "-2", "many"})
    CHECK(choice(4, nonsense, none) == "4 processors that this process may use");
}

TEST_CASE("threads: who decided is said", "[machine]") {
  set_threads(3);
  CHECK(threads() == 3);
  CHECK(threads_reason() == "as asked for");
  set_threads(0);
  CHECK(threads() >= 1);
  CHECK(threads_reason() != "as asked for");
}
