#include "core/cpu/peak.h"

#include <algorithm>
#include <chrono>
#include <memory>

#include "core/cpu/pages.h"
#include "core/cpu/simd.h"
#include "core/cpu/tile.h"
#include "core/error.h"
#include "core/parallel.h"

namespace longshot::cpu {
namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

constexpr int kChains = kVectorRegisters == 32 ? 20 : 10;  // hides 4 cycles x 2 units amply

// kChains independent chains of multiply-adds; the result is returned so that it must be computed.
float spin(int64_t rounds) {
  Vec<float> sum[kChains];
#pragma GCC unroll 32
  for (int i = 0; i < kChains; ++i) sum[i] = Vec<float>(float(i));
  Vec<float> factor(0.999f), addend(0.001f);
  for (int64_t round = 0; round < rounds; ++round)
#pragma GCC unroll 32
    for (int i = 0; i < kChains; ++i) sum[i] = fma(sum[i], factor, addend);
  Vec<float> total = Vec<float>::zero();
#pragma GCC unroll 32
  for (int i = 0; i < kChains; ++i) total += sum[i];
  return total[0];
}

int resolve(int thread_count) {
  return thread_count > 0 ? thread_count : threads();
}

struct Free {
  void operator()(float* p) const { release_pages(p); }
};

}  // namespace

double measure_fma_peak(int thread_count, int attempts) {
  [[maybe_unused]] const int count = resolve(thread_count);  // only pragmas read it
  constexpr int64_t kRounds = 400000;                        // about 2 ms
  double best = 1e30;
  float sink = 0;
  for (int attempt = 0; attempt < attempts; ++attempt) {
    const auto start = Clock::now();
#pragma omp parallel num_threads(count)
    {
      const float value = spin(kRounds);
#pragma omp critical(longshot_peak)
      sink = std::max(sink, value);
    }
    best = std::min(best, seconds_since(start));
  }
  LONGSHOT_CHECK(sink > 0, "peak measurement: impossible sum {}", sink);
  return 2.0 * kChains * Vec<float>::kWidth * double(kRounds) * count / best;
}

double measure_bandwidth(int thread_count) {
  [[maybe_unused]] const int count = resolve(thread_count);  // only pragmas read it
  constexpr int64_t kBytes = int64_t(512) << 20;
  constexpr int64_t kElements = kBytes / 4;
  std::unique_ptr<float, Free> memory[3];
  for (auto& array : memory) {
    array.reset(static_cast<float*>(allocate_pages(size_t(kBytes))));
    LONGSHOT_CHECK(array != nullptr, "bandwidth measurement: no memory for 3 x {} bytes", kBytes);
  }
  float* a = memory[0].get();
  float* b = memory[1].get();
  float* c = memory[2].get();
  double best = 1e30;
  for (int pass = 0; pass < 5; ++pass) {  // the first also writes b and c
    const auto start = Clock::now();
#pragma omp parallel for schedule(static) num_threads(count)
    for (int64_t i = 0; i < kElements; i += Vec<float>::kWidth) {
      if (pass == 0) {
        Vec<float>(1.0f).store(b + i);
        Vec<float>(2.0f).store(c + i);
      }
      fma(Vec<float>(0.5f), Vec<float>::load(c + i), Vec<float>::load(b + i)).store(a + i);
    }
    if (pass > 0) best = std::min(best, seconds_since(start));
  }
  return 4.0 * double(kBytes) / best;
}

}  // namespace longshot::cpu
