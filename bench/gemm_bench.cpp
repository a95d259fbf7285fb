// Matrix products of the models' forward and backward passes, ours and OpenBLAS's.
// Names: gemm/rows x inner x columns, N or T for each operand; a batch where there is one.
#include <fmt/core.h>

#include "bench/limits.h"
#include "core/cpu/gemm.h"
#include "core/parallel.h"

#if defined(LONGSHOT_BENCH_OPENBLAS)
#include <cblas.h>
#endif

namespace longshot::bench {
namespace {

struct Shape3 {
  int64_t rows, inner, columns;
  bool transpose_a = false, transpose_b = false;
  int64_t batch = 1;
};

constexpr Shape3 kShapes[] = {
    // forward
    {5120, 64, 256},
    {5120, 256, 64},
    {5120, 64, 192},
    {5120, 64, 64},
    {4096, 128, 512},
    {8192, 512, 512},
    {8192, 512, 2048},
    {8192, 2048, 512},
    // dX = dY W^T
    {5120, 256, 64, false, true},
    {5120, 64, 256, false, true},
    {5120, 192, 64, false, true},
    {8192, 2048, 512, false, true},
    {8192, 512, 2048, false, true},
    // dW = X^T dY
    {64, 5120, 256, true},
    {256, 5120, 64, true},
    {64, 5120, 192, true},
    {128, 4096, 512, true},
    {512, 8192, 512, true},
    {512, 8192, 2048, true},
    {2048, 8192, 512, true},
    // many small ones
    {40, 8, 40, false, true, 1024},
    {40, 40, 8, false, false, 1024},
    {256, 32, 256, false, true, 128},
};

struct Operands {
  explicit Operands(const Shape3& s)
      : a(random_floats(s.rows * s.inner * s.batch, 1)),
        b(random_floats(s.inner * s.columns * s.batch, 2)),
        c(size_t(s.rows * s.columns * s.batch)) {}
  Floats a, b, c;
};

double flops(const Shape3& s) {
  return 2.0 * double(s.rows) * double(s.inner) * double(s.columns) * double(s.batch);
}

void ours(benchmark::State& state, const Shape3& s) {
  Operands m(s);
  GemmArgs g;
  g.rows = s.rows, g.inner = s.inner, g.columns = s.columns, g.batch = s.batch;
  g.transpose_a = s.transpose_a, g.transpose_b = s.transpose_b;
  g.a = m.a.data(), g.b = m.b.data(), g.c = m.c.data();
  g.lda = s.transpose_a ? s.rows : s.inner;
  g.ldb = s.transpose_b ? s.inner : s.columns;
  g.ldc = s.columns;
  g.stride_a = s.rows * s.inner, g.stride_b = s.inner * s.columns, g.stride_c = s.rows * s.columns;
  against_peak(state, flops(s), [&] { cpu::gemm(g); });
}

#if defined(LONGSHOT_BENCH_OPENBLAS)
// Not in turn with ours: its idle threads spin for a while and would take time from ours. They take
// it from the peak's slices too, so no share is said.
void openblas(benchmark::State& state, const Shape3& s) {
  Operands m(s);
  openblas_set_num_threads(threads());
  const int rows = int(s.rows), inner = int(s.inner), columns = int(s.columns);
  against_peak(state, flops(s), [&] {
    for (int64_t i = 0; i < s.batch; ++i)
      cblas_sgemm(CblasRowMajor, s.transpose_a ? CblasTrans : CblasNoTrans,
                  s.transpose_b ? CblasTrans : CblasNoTrans, rows, columns, inner, 1.0f,
                  m.a.data() + i * rows * inner, s.transpose_a ? rows : inner,
                  m.b.data() + i * inner * columns, s.transpose_b ? inner : columns, 0.0f,
                  m.c.data() + i * rows * columns, columns);
  });
  state.counters["share_of_peak"] = 0;
}
#endif

const bool registered = [] {
#if defined(LONGSHOT_BENCH_OPENBLAS)
  benchmark::AddCustomContext("openblas_kernels", openblas_get_corename());
#endif
  for (const Shape3& s : kShapes) {
    const std::string name =
        fmt::format("{}x{}x{}/{}{}{}", s.rows, s.inner, s.columns, s.transpose_a ? "T" : "N",
                    s.transpose_b ? "T" : "N", s.batch > 1 ? fmt::format("/{}", s.batch) : "");
    benchmark::RegisterBenchmark(("gemm/" + name).c_str(), ours, s)->UseManualTime()->Iterations(1);
#if defined(LONGSHOT_BENCH_OPENBLAS)
    benchmark::RegisterBenchmark(("openblas/" + name).c_str(), openblas, s)
        ->UseManualTime()
        ->Iterations(1);
#endif
  }
  return true;
}();

}  // namespace
}  // namespace longshot::bench
