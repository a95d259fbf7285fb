// Memory-bound kernels: layer norm, cross-entropy, GELU, AdamW, and a plain copy and a plain read
// beside them.
//
// Every benchmark reports its time over what the traffic that it cannot avoid needs at the rate of
// a plain copy (cross_entropy, which writes next to nothing, at the rate of plain reading),
// counting what a store really costs: a line that is written without having been read is first
// fetched (write-allocate), so it counts twice. Arrays exceed the last-level cache.
#include <benchmark/benchmark.h>
#include <cstdint>
#include <vector>

#include "bench/limits.h"
#include "core/cpu/activation.h"
#include "core/cpu/cross_entropy.h"
#include "core/cpu/dropout.h"
#include "core/cpu/norm.h"
#include "core/cpu/optimizer.h"

namespace longshot::bench {
namespace {

Floats filled(int64_t n) {
  Floats values(static_cast<size_t>(n));
  for (size_t i = 0; i < values.size(); ++i) values[i] = float(i % 1021) * 0.004f - 2.0f;
  return values;
}

// `streams`: arrays read, plus two for each array that is only written; `row_streams`: the same of
// the arrays that have one element for each of `rows`.
template <class Kernel>
void measure(benchmark::State& state, int streams, const Kernel& kernel, int64_t rows = 0,
             int row_streams = 0, double (*limit)() = copy_slice) {
  const double transfers = double(kElements) * streams + double(rows) * row_streams;
  against_bandwidth(state, transfers * sizeof(float), kernel, limit);
}

void copy(benchmark::State& state) {
  measure(state, 3, copy_slice);
}

// Reading alone, over the copy's rate.
void read(benchmark::State& state) {
  measure(state, 1, read_slice);
}

void gelu(benchmark::State& state) {
  const auto x = filled(kElements);
  Floats y(x.size());
  UnaryArgs args;
  args.op = Unary::gelu, args.n = kElements, args.x = x.data(), args.y = y.data();
  measure(state, 3, [&] { cpu::unary<float>(args); });
}

void gelu_backward(benchmark::State& state) {
  const auto x = filled(kElements);
  Floats dx(x.size());
  UnaryBackwardArgs args;
  args.op = Unary::gelu, args.n = kElements, args.x = x.data(), args.dy = x.data(),
  args.dx = dx.data();
  measure(state, 3, [&] { cpu::unary_backward<float>(args); });
}

void dropout(benchmark::State& state) {
  const auto x = filled(kElements);
  Floats y(x.size());
  StepState step;
  step.training = 1;
  DropoutArgs args;
  args.n = kElements, args.x = x.data(), args.y = y.data();
  args.dropout.p = 0.1f, args.dropout.state = &step;
  measure(state, 3, [&] { cpu::dropout<float>(args); });
}

void layer_norm(benchmark::State& state) {
  const int64_t columns = state.range(0), rows = kElements / columns;
  const auto x = filled(kElements), gain = filled(columns), bias = filled(columns);
  Floats y(x.size()), mean(size_t(rows), 0.0f), inverse(size_t(rows), 0.0f);
  NormArgs args;
  args.rows = rows, args.columns = columns, args.x = x.data(), args.y = y.data();
  args.gain = gain.data(), args.bias = bias.data();
  args.mean = mean.data(), args.inverse_deviation = inverse.data();
  measure(
      state, 3, [&] { cpu::norm<float>(args); }, rows, 4);
}

void layer_norm_backward(benchmark::State& state) {
  const int64_t columns = state.range(0), rows = kElements / columns;
  const auto x = filled(kElements), dy = filled(kElements), gain = filled(columns);
  const Floats mean(size_t(rows), 0.0f), inverse(size_t(rows), 1.0f);
  Floats dx(x.size()), dgain(gain.size()), dbias(gain.size());
  NormBackwardArgs args;
  args.rows = rows, args.columns = columns, args.sum = x.data(), args.dy = dy.data();
  args.gain = gain.data(), args.mean = mean.data(), args.inverse_deviation = inverse.data();
  args.dx = dx.data(), args.dgain = dgain.data(), args.dbias = dbias.data();
  measure(
      state, 4, [&] { cpu::norm_backward<float>(args); }, rows, 2);
}

struct CrossEntropyProblem {
  int64_t columns, rows;
  Floats logits = filled(kElements);
  std::vector<int32_t> targets;
  Floats lse, row_loss;
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
  measure(
      state, 1, [&] { problem.forward(); }, problem.rows, 5, read_slice);
}

void cross_entropy_backward(benchmark::State& state) {
  CrossEntropyProblem problem(state.range(0));
  problem.forward();
  Floats dlogits(problem.logits.size());
  const float dloss = 1;
  CrossEntropyBackwardArgs args;
  args.rows = problem.rows, args.columns = problem.columns, args.logits = problem.logits.data();
  args.targets = problem.targets.data(), args.log_sum_exp = problem.lse.data();
  args.denominator = &problem.denominator, args.dloss = &dloss, args.dlogits = dlogits.data();
  measure(
      state, 3, [&] { cpu::cross_entropy_backward<float>(args); }, problem.rows, 2);
}

void adamw(benchmark::State& state) {
  auto p = filled(kElements);
  const auto g = filled(kElements);
  Floats m(p.size()), v(p.size());
  StepState step;
  step.learning_rate = 1e-3f;
  UpdateState update;
  AdamArgs args;
  args.n = kElements, args.decayed = kElements / 2, args.weight_decay = 0.01;
  args.parameter = p.data(), args.gradient = g.data();
  args.first_moment = m.data(), args.second_moment = v.data();
  args.state = &step, args.update = &update;
  // Four read, three written back: nothing is fetched for a store.
  measure(state, 7, [&] { cpu::adam<float>(args); });
}

BENCHMARK(copy)->UseManualTime()->Iterations(1);
BENCHMARK(read)->UseManualTime()->Iterations(1);
BENCHMARK(gelu)->UseManualTime()->Iterations(1);
BENCHMARK(gelu_backward)->UseManualTime()->Iterations(1);
BENCHMARK(dropout)->UseManualTime()->Iterations(1);
BENCHMARK(layer_norm)->Arg(64)->Arg(512)->Arg(4096)->UseManualTime()->Iterations(1);
BENCHMARK(layer_norm_backward)->Arg(64)->Arg(512)->UseManualTime()->Iterations(1);
BENCHMARK(cross_entropy)->Arg(16)->Arg(256)->Arg(32768)->UseManualTime()->Iterations(1);
BENCHMARK(cross_entropy_backward)->Arg(16)->Arg(256)->Arg(32768)->UseManualTime()->Iterations(1);
BENCHMARK(adamw)->UseManualTime()->Iterations(1);

}  // namespace
}  // namespace longshot::bench
