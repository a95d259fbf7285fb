// bench_kernels: measures the machine's limits, then each kernel as a share of them.
#include <algorithm>
#include <cstdlib>
#include <fmt/core.h>
#include <string>

#include "bench/limits.h"
#include "core/cpu/peak.h"
#include "core/parallel.h"
#include "core/random.h"

namespace longshot::bench {
namespace {
Limits measured;
}

const Limits& limits() {
  return measured;
}

void report_flops(benchmark::State& state, double flops_per_iteration) {
  const double peak = std::max(measured.flops, cpu::measure_fma_peak());
  using benchmark::Counter;
  const double total = flops_per_iteration * double(state.iterations());
  state.counters["GFLOP/s"] = Counter(total * 1e-9, Counter::kIsRate);
  state.counters["share_of_peak"] = Counter(total / peak, Counter::kIsRate);
}

std::vector<float> random_floats(int64_t n, uint32_t stream) {
  RandomSequence random(RandomKey{.seed = 1, .stream = stream});
  std::vector<float> values(static_cast<size_t>(n));
  for (float& value : values) value = float(random.uniform() - 0.5);
  return values;
}

}  // namespace longshot::bench

// Besides Google Benchmark's own options: --threads=N (0: all processors).
int main(int argc, char** argv) {
  const std::string option = "--threads=";
  for (int i = 1; i < argc; ++i)
    if (std::string(argv[i]).rfind(option, 0) == 0) {
      longshot::set_threads(std::atoi(argv[i] + option.size()));
      for (int j = i; j + 1 < argc; ++j) argv[j] = argv[j + 1];
      --argc;
      break;
    }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  for (const char* name : {"OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"})
    if (std::getenv(name) != nullptr)
      fmt::print(stderr, "bench_kernels: {} is set and handicaps OpenBLAS; unset it to compare\n",
                 name);
  auto& limits = longshot::bench::measured;
  limits.flops = longshot::cpu::measure_fma_peak();
  limits.bandwidth = longshot::cpu::measure_bandwidth();
  benchmark::AddCustomContext("threads", fmt::format("{}", longshot::threads()));
  benchmark::AddCustomContext("fma_peak_gflops", fmt::format("{:.1f}", limits.flops * 1e-9));
  benchmark::AddCustomContext("bandwidth_gb_per_s", fmt::format("{:.2f}", limits.bandwidth * 1e-9));
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
