// Attention forward and backward against the FMA peak; the peer is the composition of our own
// matrix products and softmax, which writes the length x length probabilities.
// FLOPs for batch B, heads H, length T, head width D: forward 4 B H T^2 D; backward 10 B H T^2 D,
// the recomputed scores included.
#include <algorithm>
#include <cmath>
#include <fmt/core.h>

#include "bench/limits.h"
#include "core/cpu/attention.h"
#include "core/cpu/gemm.h"
#include "core/cpu/simd.h"
#include "core/parallel.h"

namespace longshot::bench {
namespace {

struct Case {
  int64_t batch, heads, length, head_dim;
  bool table = false;
  float dropout = 0;
  bool forward_only = false;
};

constexpr Case kCases[] = {
    {128, 8, 40, 8},
    {128, 8, 80, 8},
    {128, 8, 40, 8, true},
    {128, 8, 40, 8, false, 0.1f},
    {64, 4, 64, 32},
    {16, 8, 256, 32},
    {8, 8, 512, 64},
    {16, 8, 256, 32, true},
    {1, 8, 16384, 32, false, 0, true},
};

double product_flops(const Case& c) {
  return 2.0 * double(c.batch * c.heads) * double(c.length) * double(c.length) * double(c.head_dim);
}

// softmax over rows, and dS = P (dP - sum P dP), in place; as good as a plain loop gets.
void softmax_rows(float* x, int64_t rows, int64_t columns) {
  using V = cpu::Vec<float>;
  parallel_for(rows, [&](int64_t r) {
    float* row = x + r * columns;
    float top = row[0];
    for (int64_t j = 1; j < columns; ++j) top = std::max(top, row[j]);
    float sum = 0;
    for (int64_t j = 0; j < columns; j += V::kWidth) {
      const V p = exp(V::load_partial(row + j, columns - j) - V(top));
      p.store_partial(row + j, columns - j);
    }
    for (int64_t j = 0; j < columns; ++j) sum += row[j];
    for (int64_t j = 0; j < columns; ++j) row[j] /= sum;
  });
}
void softmax_backward_rows(const float* p, float* ds, int64_t rows, int64_t columns) {
  parallel_for(rows, [&](int64_t r) {
    float dot = 0;
    for (int64_t j = r * columns; j < (r + 1) * columns; ++j) dot += p[j] * ds[j];
    for (int64_t j = r * columns; j < (r + 1) * columns; ++j) ds[j] = p[j] * (ds[j] - dot);
  });
}

class Composition {
 public:
  explicit Composition(const Case& c)
      : matrices_(c.batch * c.heads), t_(c.length), d_(c.head_dim), n_(matrices_ * t_ * d_) {}

  void operator()() {
    product(t_, d_, t_, query_, false, key_, true, p_);
    softmax_rows(p_.data(), matrices_ * t_, t_);
    product(t_, t_, d_, p_, false, value_, false, out_);
    product(t_, d_, t_, dout_, false, value_, true, ds_);
    product(t_, t_, d_, p_, true, dout_, false, dvalue_);
    softmax_backward_rows(p_.data(), ds_.data(), matrices_ * t_, t_);
    product(t_, t_, d_, ds_, false, key_, false, dquery_);
    product(t_, t_, d_, ds_, true, query_, false, dkey_);
  }

 private:
  void product(int64_t rows, int64_t inner, int64_t columns, const Floats& a, bool ta,
               const Floats& b, bool tb, Floats& result) {
    GemmArgs g;
    g.rows = rows, g.inner = inner, g.columns = columns, g.batch = matrices_;
    g.transpose_a = ta, g.transpose_b = tb, g.a = a.data(), g.b = b.data(), g.c = result.data();
    g.lda = ta ? rows : inner, g.ldb = tb ? inner : columns, g.ldc = columns;
    g.stride_a = rows * inner, g.stride_b = inner * columns, g.stride_c = rows * columns;
    cpu::gemm(g);
  }

  int64_t matrices_, t_, d_, n_;
  Floats query_ = random_floats(n_, 1), key_ = random_floats(n_, 2), value_ = random_floats(n_, 3);
  Floats dout_ = random_floats(n_, 4), out_ = query_, dquery_ = out_, dkey_ = out_, dvalue_ = out_;
  Floats p_ = Floats(size_t(matrices_ * t_ * t_)), ds_ = p_;
};

void fused(benchmark::State& state, const Case& c) {
  const int64_t n = c.batch * c.heads * c.length * c.head_dim;
  const auto query = random_floats(n, 1), key = random_floats(n, 2), value = random_floats(n, 3);
  const auto dout = random_floats(n, 4);
  const auto table = random_floats(c.heads * (2 * c.length - 1), 5);
  Floats out(size_t(n), 0), log_sum(size_t(c.batch * c.heads * c.length));
  Floats dquery(out), dkey(out), dvalue(out), dtable(table);
  StepState step;
  step.training = 1;
  AttentionBackwardArgs b;
  AttentionArgs& f = b.forward;
  f.shape = {c.batch, c.heads, c.length, c.length, c.head_dim};
  f.query = query.data(), f.key = key.data(), f.value = value.data();
  f.out = out.data(), f.log_sum_exp = log_sum.data();
  f.scale = 1 / std::sqrt(double(c.head_dim));
  if (c.table) f.bias_table = table.data(), f.reach = c.length, b.dbias_table = dtable.data();
  f.dropout = {c.dropout, 1, 0, &step};
  b.dout = dout.data();
  b.dquery = dquery.data(), b.dkey = dkey.data(), b.dvalue = dvalue.data();
  if (c.forward_only) return against_peak(state, product_flops(c) * 2, [&] { cpu::attention(f); });
  const auto both = [&] { cpu::attention(f), cpu::attention_backward(b); };
  if (c.table || c.dropout > 0) return against_peak(state, product_flops(c) * 7, both);
  Composition composition(c);
  against_peak(state, product_flops(c) * 7, both, [&] { composition(); });
}

const bool registered = [] {
  for (const Case& c : kCases) {
    const std::string name = fmt::format("{}x{}x{}x{}", c.batch, c.heads, c.length, c.head_dim);
    const std::string kind =
        fmt::format("{}{}{}", c.table ? "/table" : "", c.dropout > 0 ? "/dropout" : "",
                    c.forward_only ? "/forward" : "");
    benchmark::RegisterBenchmark(("attention/" + name + kind).c_str(), fused, c)
        ->UseManualTime()
        ->Iterations(1);
  }
  return true;
}();

}  // namespace
}  // namespace longshot::bench
