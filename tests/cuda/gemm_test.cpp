// Matrix products through cuBLAS, CUDA against the CPU.
#include <tuple>

#include "tests/cuda/devices.h"

using namespace longshot;
using longshot::test::Devices;

TEST_CASE("cuda: matrix products with bias, activation and strides", "[cuda]") {
  const bool ta = GENERATE(false, true), tb = GENERATE(false, true);
  for (const auto& [rows, columns, inner, batch] :
       std::vector<std::tuple<int64_t, int64_t, int64_t, int64_t>>{
           {1, 1, 1, 1}, {7, 33, 5, 1}, {40, 20, 64, 3}, {3, 4, 0, 2}, {0, 4, 3, 1}}) {
    for (int form = 0; form < 3; ++form) {  // plain, accumulate, bias + activation + pre-activation
      Devices d;
      const int64_t lda = (ta ? rows : inner) + 2, ldb = (tb ? inner : columns) + 1;
      const int64_t ldc = columns + 3;
      const int64_t size_a = (ta ? inner : rows) * lda, size_b = (tb ? columns : inner) * ldb;
      const int64_t size_c = rows * ldc;
      const auto a = d.random(batch * size_a + 8), b2 = d.random(batch * size_b + 8);
      const auto bias = d.random(columns);
      const auto c = d.random(batch * size_c), pre = d.random(batch * size_c);
      d.run([&](Backend& b, int s) {
        GemmArgs args{.rows = rows,
                      .columns = columns,
                      .inner = inner,
                      .batch = batch,
                      .transpose_a = ta,
                      .transpose_b = tb,
                      .a = a[s],
                      .b = b2[s],
                      .c = c[s],
                      .lda = lda,
                      .ldb = ldb,
                      .ldc = ldc,
                      .stride_a = size_a,
                      .stride_b = size_b,
                      .stride_c = size_c,
                      .alpha = 0.75,
                      .accumulate = form == 1};
        if (form == 2) {
          args.bias = bias[s];
          args.activation = Activation::gelu;
          args.pre_activation = pre[s];
        }
        b.gemm(args);
      });
      d.check(c, "gemm", 1e-4);  // the gaps between rows stay as they were
      d.check(pre, "pre-activation", 1e-4);
    }
  }
}
