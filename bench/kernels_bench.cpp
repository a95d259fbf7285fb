// Memory-bound kernels: layer norm, cross-entropy, GELU, AdamW, and a plain copy beside them.
//
// Every benchmark reports bytes_per_second of the traffic that the kernel cannot avoid, counting
// what a store really costs: a line that is written without having been read is first fetched
// (write-allocate), so it counts twice. A kernel at the limit shows the copy's figure; one at 1
// / 1.3 of it takes 1.3 times as long as the memory alone needs. Arrays exceed the last-level
// cache.
#include <benchmark/benchmark.h>
#include <cstdint>
#include <vector>

#include "core/cpu/activation.h"
#include "core/cpu/cross_entropy.h"
#include "core/cpu/dropout.h"
#include "core/cpu/elementwise.h"
#include "core/cpu/norm.h"
#include "core/cpu/optimizer.h"

namespace longshot {
namespace {

constexpr int64_t kElements = int64_t(96) << 20;  // 384 MB of f32

std::vector<float> filled(int64_t n) {
  std::vector<float> values(static_cast<size_t>(n));
  for (size_t i = 0; i < values.size(); ++i) values[i] = float(i % 1021) * 0.004f - 2.0f;
  return values;
}

// `streams`: arrays read, plus two for each array that is only written.
void count(benchmark::State& state, int64_t elements, int64_t streams) {
  state.SetBytesProcessed(state.iterations() * elements * streams * int64_t(sizeof(float)));
}

void copy(benchmark::State& state) {
  const auto x = filled(kElements);
  std::vector<float> y(x.size());
  AffineArgs args;
  args.n = kElements, args.x = x.data(), args.y = y.data();
  for (auto _ : state) cpu::affine<float>(args);
  count(state, kElements, 3);
}

void gelu(benchmark::State& state) {
  const auto x = filled(kElements);
  std::vector<float> y(x.size());
  UnaryArgs args;
  args.op = Unary::gelu, args.n = kElements, args.x = x.data(), args.y = y.data();
  for (auto _ : state) cpu::unary<float>(args);
  count(state, kElements, 3);
}

void gelu_backward(benchmark::State& state) {
  const auto x = filled(kElements);
  std::vector<float> dx(x.size());
  UnaryBackwardArgs args;
  args.op = Unary::gelu, args.n = kElements, args.x = x.data(), args.dy = x.data(),
  args.dx = dx.data();
  for (auto _ : state) cpu::unary_backward<float>(args);
  count(state, kElements, 3);
}

void dropout(benchmark::State& state) {
  const auto x = filled(kElements);
  std::vector<float> y(x.size());
  StepState step;
  step.training = 1;
  DropoutArgs args;
  args.n = kElements, args.x = x.data(), args.y = y.data();
  args.dropout.p = 0.1f, args.dropout.state = &step;
  for (auto _ : state) cpu::dropout<float>(args);
  count(state, kElements, 3);
}

void layer_norm(benchmark::State& state) {
  const int64_t columns = state.range(0), rows = kElements / columns;
  const auto x = filled(kElements), gain = filled(columns), bias = filled(columns);
  std::vector<float> y(x.size()), mean(size_t(rows), 0.0f), inverse(size_t(rows), 0.0f);
  NormArgs args;
  args.rows = rows, args.columns = columns, args.x = x.data(), args.y = y.data();
  args.gain = gain.data(), args.bias = bias.data();
  args.mean = mean.data(), args.inverse_deviation = inverse.data();
  for (auto _ : state) cpu::norm<float>(args);
  count(state, kElements, 3);
}

void layer_norm_backward(benchmark::State& state) {
  const int64_t columns = state.range(0), rows = kElements / columns;
  const auto x = filled(kElements), dy = filled(kElements), gain = filled(columns);
  const std::vector<float> mean(size_t(rows), 0.0f), inverse(size_t(rows), 1.0f);
  std::vector<float> dx(x.size()), dgain(gain.size()), dbias(gain.size());
  NormBackwardArgs args;
  args.rows = rows, args.columns = columns, args.sum = x.data(), args.dy = dy.data();
  args.gain = gain.data(), args.mean = mean.data(), args.inverse_deviation = inverse.data();
  args.dx = dx.data(), args.dgain = dgain.data(), args.dbias = dbias.data();
  for (auto _ : state) cpu::norm_backward<float>(args);
  count(state, kElements, 4);
}

struct CrossEntropyProblem {
  int64_t columns, rows;
  std::vector<float> logits = filled(kElements);
  std::vector<int32_t> targets;
  std::vector<float> lse, row_loss;
  float loss = 0;
  double denominator = 0;

  explicit CrossEntropyProblem(int64_t c)
      : columns(c), rows(kElements / c), lse(size_t(rows), 0.0f), row_loss(size_t(rows), 0.0f) {
    for (int64_t r = 0; r < rows; ++r) targets.push_back(int32_t(r * 7 % columns));
  }
  void forward() {
    CrossEntropyArgs args;
    args.rows = rows, args.columns = columns, args.logits = logits.data(),
    args.targets = targets.data();
    args.log_sum_exp = lse.data(), args.row_loss = row_loss.data();
    args.loss = &loss, args.denominator = &denominator;
    cpu::cross_entropy<float>(args);
  }
};

void cross_entropy(benchmark::State& state) {
  CrossEntropyProblem problem(state.range(0));
  for (auto _ : state) problem.forward();
  count(state, kElements, 1);
}

void cross_entropy_backward(benchmark::State& state) {
  CrossEntropyProblem problem(state.range(0));
  problem.forward();
  std::vector<float> dlogits(problem.logits.size());
  const float dloss = 1;
  CrossEntropyBackwardArgs args;
  args.rows = problem.rows, args.columns = problem.columns, args.logits = problem.logits.data();
  args.targets = problem.targets.data(), args.log_sum_exp = problem.lse.data();
  args.denominator = &problem.denominator, args.dloss = &dloss, args.dlogits = dlogits.data();
  for (auto _ : state) cpu::cross_entropy_backward<float>(args);
  count(state, kElements, 3);
}

void adamw(benchmark::State& state) {
  auto p = filled(kElements);
  const auto g = filled(kElements);
  std::vector<float> m(p.size()), v(p.size());
  StepState step;
  step.learning_rate = 1e-3f;
  UpdateState update;
  AdamArgs args;
  args.n = kElements, args.decayed = kElements / 2, args.weight_decay = 0.01;
  args.parameter = p.data(), args.gradient = g.data();
  args.first_moment = m.data(), args.second_moment = v.data();
  args.state = &step, args.update = &update;
  for (auto _ : state) cpu::adam<float>(args);
  count(state, kElements, 7);  // four read, three written back: nothing is fetched for a store
}

BENCHMARK(copy)->UseRealTime();
BENCHMARK(gelu)->UseRealTime();
BENCHMARK(gelu_backward)->UseRealTime();
BENCHMARK(dropout)->UseRealTime();
BENCHMARK(layer_norm)->Arg(64)->Arg(512)->Arg(4096)->UseRealTime();
BENCHMARK(layer_norm_backward)->Arg(64)->Arg(512)->UseRealTime();
BENCHMARK(cross_entropy)->Arg(16)->Arg(256)->Arg(32768)->UseRealTime();
BENCHMARK(cross_entropy_backward)->Arg(16)->Arg(256)->Arg(32768)->UseRealTime();
BENCHMARK(adamw)->UseRealTime();

}  // namespace
}  // namespace longshot
