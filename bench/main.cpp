// bench_kernels: measures the machine's limits, then each kernel as a share of them.
#include <chrono>
#include <cstdlib>
#include <fmt/core.h>
#include <string>

#include "bench/limits.h"
#include "core/cpu/elementwise.h"
#include "core/cpu/peak.h"
#include "core/cpu/simd.h"
#include "core/parallel.h"
#include "core/random.h"

namespace longshot::bench {

double peak_slice() {
  return cpu::measure_fma_peak(0, 1);
}

namespace {
const Floats& source() {
  static const Floats values(size_t(kElements), 1.0f);
  return values;
}
template <class Work>
double rate(double arrays, const Work& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
  return arrays * sizeof(float) * double(kElements) / passed.count();
}
}  // namespace

double copy_slice() {
  static Floats to(source().size());
  AffineArgs args;
  args.n = kElements, args.x = source().data(), args.y = to.data();
  return rate(3, [&] { cpu::affine<float>(args); });
}

double read_slice() {
  using V = cpu::Vec<float>;
  const Floats& from = source();
  constexpr int64_t kPiece = int64_t(1) << 18;
  return rate(1, [&] {
    parallel_for(kElements / kPiece, [&](int64_t piece) {
      const float* part = from.data() + piece * kPiece;
      V sum = V::zero();
      for (int64_t i = 0; i < kPiece; i += V::kWidth) {
        __builtin_prefetch(part + i + 1024, 0, 3);
        sum += V::load(part + i);
      }
      benchmark::DoNotOptimize(sum);
    });
  });
}

Floats random_floats(int64_t n, uint32_t stream) {
  RandomSequence random(RandomKey{.seed = 1, .stream = stream});
  Floats values(static_cast<size_t>(n));
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
      fmt::print(stderr, "bench_kernels: {} is set: OpenBLAS does not choose for itself\n", name);
  benchmark::AddCustomContext("threads", fmt::format("{}", longshot::threads()));
  benchmark::AddCustomContext("fma_peak_gflops",
                              fmt::format("{:.1f}", longshot::cpu::measure_fma_peak() * 1e-9));
  benchmark::AddCustomContext("bandwidth_gb_per_s",
                              fmt::format("{:.2f}", longshot::cpu::measure_bandwidth() * 1e-9));
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
