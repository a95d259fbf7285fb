// gemm against a plain triple loop in double precision over odd shapes, every transposition,
// leading dimensions, batches, epilogues; guard values round the result; equal bits for any
// threads.
#include "core/cpu/gemm.h"

#include <cmath>
#include <cstring>
#include <vector>

#include "core/error.h"
#include "core/parallel.h"
#include "core/random.h"
#include "tests/catch.h"
#include "tests/support/kernel_call.h"

namespace longshot::cpu {
namespace {

template <class T>
std::vector<T> random_values(int64_t n, uint32_t stream) {
  RandomSequence random(RandomKey{.seed = 5, .stream = stream});
  std::vector<T> values(static_cast<size_t>(n));
  for (T& value : values) value = T(random.uniform() * 2 - 1);
  return values;
}

double activate(Activation activation, double x) {
  switch (activation) {
    case Activation::none:
      return x;
    case Activation::relu:
      return x > 0 ? x : 0;
    case Activation::gelu:
      return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
    case Activation::gelu_tanh:
      return x / (1 + std::exp(-2 * std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
  }
  return NAN;
}

struct Case {
  int64_t rows, inner, columns, batch = 1;
  bool transpose_a = false, transpose_b = false, accumulate = false, bias = false, pre = false;
  Activation activation = Activation::none;
  double alpha = 1;
  int64_t padding = 0;  // extra elements at the end of every row
  bool share_b = false;
};

constexpr double kGuard = -12345;

template <class T>
std::vector<T> run_case(const Case& c, std::vector<T>* pre_out = nullptr) {
  GemmArgs g;
  g.dtype = dtype_of<T>();
  g.rows = c.rows, g.columns = c.columns, g.inner = c.inner, g.batch = c.batch;
  g.transpose_a = c.transpose_a, g.transpose_b = c.transpose_b;
  g.lda = (c.transpose_a ? c.rows : c.inner) + c.padding;
  g.ldb = (c.transpose_b ? c.inner : c.columns) + c.padding;
  g.ldc = c.columns + c.padding;
  g.stride_a = g.lda * (c.transpose_a ? c.inner : c.rows);
  g.stride_b = c.share_b ? 0 : g.ldb * (c.transpose_b ? c.columns : c.inner);
  g.stride_c = g.ldc * c.rows;
  const auto a = random_values<T>(g.stride_a * c.batch, 1);
  const auto b = random_values<T>(g.ldb * (c.transpose_b ? c.columns : c.inner) * c.batch, 2);
  const auto bias = random_values<T>(c.columns, 3);
  auto out = random_values<T>(g.stride_c * c.batch + 40, 4);
  for (int64_t i = 0; i < int64_t(out.size()); ++i)
    if (i >= g.stride_c * c.batch || i % g.ldc >= c.columns) out[size_t(i)] = T(kGuard);
  auto pre = out;
  g.a = a.data(), g.b = b.data(), g.c = out.data();
  g.alpha = c.alpha, g.accumulate = c.accumulate, g.activation = c.activation;
  if (c.bias) g.bias = bias.data();
  if (c.pre) g.pre_activation = pre.data();
  const auto before = out;
  testing::call_kernel(&Backend::gemm, g);

  double worst = 0;
  bool guards = true;
  for (int64_t n = 0; n < c.batch; ++n)
    for (int64_t i = 0; i < c.rows; ++i)
      for (int64_t j = 0; j < g.ldc; ++j) {
        const size_t at = size_t(n * g.stride_c + i * g.ldc + j);
        if (j >= c.columns) {
          guards = guards && out[at] == T(kGuard) && pre[at] == T(kGuard);
          continue;
        }
        double sum = 0;
        for (int64_t k = 0; k < c.inner; ++k) {
          const double x =
              double(a[size_t(n * g.stride_a + (c.transpose_a ? k * g.lda + i : i * g.lda + k))]);
          const double y =
              double(b[size_t(n * g.stride_b + (c.transpose_b ? j * g.ldb + k : k * g.ldb + j))]);
          sum += x * y;
        }
        sum *= c.alpha;
        if (c.accumulate) sum += double(before[at]);
        if (c.bias) sum += double(bias[size_t(j)]);
        if (c.pre) worst = std::max(worst, std::abs(double(pre[at]) - sum));
        worst = std::max(worst, std::abs(double(out[at]) - activate(c.activation, sum)));
      }
  for (size_t i = size_t(g.stride_c * c.batch); i < out.size(); ++i)
    guards = guards && out[i] == T(kGuard) && pre[i] == T(kGuard);
  CAPTURE(c.rows, c.inner, c.columns, c.batch, c.transpose_a, c.transpose_b, c.padding);
  CHECK(guards);
  const double unit = sizeof(T) == 4 ? 6e-8 : 2e-16;
  CHECK(worst <= unit * (16 + double(c.inner)));
  if (pre_out != nullptr) *pre_out = pre;
  return out;
}

TEST_CASE("gemm: hand-worked product") {
  const float a[] = {1, 2, 3, 4, 5, 6};     // (2, 3)
  const float b[] = {7, 8, 9, 10, 11, 12};  // (3, 2)
  float c[] = {1, 1, 1, 1};
  GemmArgs g;
  g.rows = 2, g.inner = 3, g.columns = 2, g.a = a, g.b = b, g.c = c;
  g.lda = 3, g.ldb = 2, g.ldc = 2, g.alpha = 2, g.accumulate = true;
  testing::call_kernel(&Backend::gemm, g);  // products 58 64 139 154, times 2, plus 1
  CHECK(c[0] == 117);
  CHECK(c[1] == 129);
  CHECK(c[2] == 279);
  CHECK(c[3] == 309);
}

TEMPLATE_TEST_CASE("gemm matches a triple loop over odd shapes", "", float, double) {
  const int64_t rows[] = {1, 2, 7, 14, 15, 29, 61}, inners[] = {1, 3, 16, 33},
                columns[] = {1, 5, 16, 17, 31, 32, 47, 67};
  for (int64_t m : rows)
    for (int64_t k : inners)
      for (int64_t n : columns)
        for (int t = 0; t < 4; ++t)
          run_case<TestType>({.rows = m,
                              .inner = k,
                              .columns = n,
                              .transpose_a = t % 2 == 1,
                              .transpose_b = t >= 2,
                              .padding = (m + n) % 3});
}

TEMPLATE_TEST_CASE("gemm across blocks, chunks and pieces", "", float, double) {
  for (int t = 0; t < 4; ++t) {
    const bool ta = t % 2 == 1, tb = t >= 2;
    run_case<TestType>({.rows = 131,
                        .inner = 521,
                        .columns = 103,
                        .transpose_a = ta,
                        .transpose_b = tb,
                        .padding = 1});
    run_case<TestType>({.rows = 37,
                        .inner = 1031,
                        .columns = 41,
                        .transpose_a = ta,
                        .transpose_b = tb,
                        .alpha = -0.5});
    run_case<TestType>({.rows = 64,
                        .inner = 2048,
                        .columns = 48,
                        .transpose_a = ta,
                        .transpose_b = tb,
                        .accumulate = true});
    run_case<TestType>(
        {.rows = 30, .inner = 1024, .columns = 1100, .transpose_a = ta, .transpose_b = tb});
  }
  // Packed B larger than one chunk: 700 x 7000 elements of 4 or 8 bytes exceed 8 MiB.
  run_case<TestType>({.rows = 3, .inner = 700, .columns = 7000, .accumulate = true, .alpha = 0.25});
}

TEMPLATE_TEST_CASE("gemm epilogues", "", float, double) {
  for (Activation activation :
       {Activation::none, Activation::relu, Activation::gelu, Activation::gelu_tanh})
    for (int64_t inner : {0, 5, 300, 1500})
      for (bool bias : {false, true})
        run_case<TestType>({.rows = 29,
                            .inner = inner,
                            .columns = 37,
                            .bias = bias,
                            .pre = bias,
                            .activation = activation,
                            .alpha = 0.5,
                            .padding = 2});
}

TEMPLATE_TEST_CASE("gemm batches", "", float, double) {
  for (int64_t batch : {2, 3, 16, 35})
    for (int t = 0; t < 4; ++t)
      run_case<TestType>({.rows = 19,
                          .inner = 8,
                          .columns = 40,
                          .batch = batch,
                          .transpose_a = t % 2 == 1,
                          .transpose_b = t >= 2,
                          .accumulate = t == 0,
                          .padding = t});
  run_case<TestType>({.rows = 9,
                      .inner = 12,
                      .columns = 20,
                      .batch = 5,
                      .bias = true,
                      .pre = true,
                      .share_b = true});
  run_case<TestType>({.rows = 9,
                      .inner = 12,
                      .columns = 20,
                      .batch = 17,
                      .transpose_b = true,
                      .padding = 1,
                      .share_b = true});
}

TEST_CASE("gemm: empty extents") {
  run_case<float>({.rows = 0, .inner = 4, .columns = 5});
  run_case<float>({.rows = 3, .inner = 4, .columns = 0});
  run_case<float>({.rows = 3, .inner = 0, .columns = 5});
  run_case<float>({.rows = 3, .inner = 0, .columns = 5, .accumulate = true});
  run_case<double>({.rows = 3, .inner = 0, .columns = 5, .batch = 20, .bias = true});
  run_case<double>({.rows = 3, .inner = 2, .columns = 5, .batch = 0});
}

TEST_CASE("gemm: bits do not depend on the number of threads") {
  const Case cases[] = {{.rows = 517, .inner = 300, .columns = 131},
                        {.rows = 64, .inner = 2600, .columns = 96, .transpose_a = true},
                        {.rows = 90, .inner = 33, .columns = 800, .transpose_b = true},
                        {.rows = 40, .inner = 8, .columns = 40, .batch = 64, .transpose_b = true}};
  for (const Case& c : cases) {
    set_threads(1);
    const auto expected = run_case<float>(c);
    for (int n : {2, 3, 4}) {
      set_threads(n);
      const auto got = run_case<float>(c);
      CHECK(std::memcmp(got.data(), expected.data(), got.size() * sizeof(float)) == 0);
    }
    set_threads(0);
  }
}

TEST_CASE("gemm refuses wrong use", "[cpu]") {
  float x[16] = {};
  GemmArgs g;
  g.rows = g.columns = g.inner = 4, g.a = x, g.b = x, g.c = x;
  g.lda = 3, g.ldb = 4, g.ldc = 4;
  CHECK_THROWS_WITH(gemm(g), ContainsSubstring("lda 3"));
  g.lda = 4;
  g.accumulate = true, g.bias = x;
  CHECK_THROWS_WITH(gemm(g), ContainsSubstring("accumulate = false"));
  g.bias = nullptr, g.c = nullptr;
  CHECK_THROWS_WITH(gemm(g), ContainsSubstring("null"));
  g.c = x, g.dtype = DType::i32;
  CHECK_THROWS_WITH(gemm(g), ContainsSubstring("i32"));
  g.dtype = DType::f32, g.rows = -1;
  CHECK_THROWS_WITH(gemm(g), ContainsSubstring("rows -1"));
}

}  // namespace
}  // namespace longshot::cpu
