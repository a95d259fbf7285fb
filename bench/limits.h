// What the kernels are measured against: this machine's FMA peak and memory bandwidth.
#pragma once

#include <benchmark/benchmark.h>
#include <cstdint>
#include <vector>

namespace longshot::bench {

struct Limits {
  double flops = 0;      // FLOP/s, f32
  double bandwidth = 0;  // bytes/s
};
const Limits& limits();  // as measured when the program began

// Adds the counters GFLOP/s and share_of_peak. The peak is measured again after the kernel and the
// higher of that and the first one counts, so that a slower clock does not flatter.
void report_flops(benchmark::State& state, double flops_per_iteration);

std::vector<float> random_floats(int64_t n, uint32_t stream);

}  // namespace longshot::bench
