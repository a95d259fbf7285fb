// What works along rows or an axis, CUDA against the CPU: sums, softmax, argmax, normalisation.
#include <tuple>

#include "tests/cuda/devices.h"
#include "tests/cuda/step_state.h"

using namespace longshot;
using longshot::test::Devices;
using longshot::test::drop_out;
using longshot::test::step_state;

TEST_CASE("cuda: sums over an axis", "[cuda]") {
  for (const auto& [outer, reduced, inner] : std::vector<std::tuple<int64_t, int64_t, int64_t>>{
           {1, 1, 1}, {1, 5000, 1}, {5, 33, 1}, {3, 700, 7}, {2, 1, 40}, {4, 0, 3}, {0, 4, 3}}) {
    for (bool accumulate : {false, true}) {
      Devices d;
      const int64_t n = outer * reduced * inner;
      const auto x = d.random(n), weight = d.random(n);
      const auto plain = d.output(outer * inner, accumulate), dot = d.output(outer * inner);
      d.run([&](Backend& b, int s) {
        b.reduce({.outer = outer,
                  .reduced = reduced,
                  .inner = inner,
                  .x = x[s],
                  .out = plain[s],
                  .alpha = 0.5,
                  .accumulate = accumulate});
        b.reduce({.outer = outer,
                  .reduced = reduced,
                  .inner = inner,
                  .x = x[s],
                  .weight = weight[s],
                  .out = dot[s]});
      });
      d.check(plain, "reduce", 1e-4);
      d.check(dot, "weighted reduce", 1e-4);
    }
  }
}

TEST_CASE("cuda: softmax, its gradient and argmax", "[cuda]") {
  for (const auto& [rows, columns] :
       std::vector<std::tuple<int64_t, int64_t>>{{1, 1}, {5, 3}, {9, 100}, {0, 4}}) {
    for (bool log : {false, true}) {
      Devices d;
      const int64_t n = rows * columns;
      const auto x = d.random(n, -20, 20), y = d.output(n), dy = d.random(n);
      const auto dx = d.output(n), added = d.output(n, true);
      d.run([&](Backend& b, int s) {
        b.softmax({.rows = rows, .columns = columns, .log = log, .x = x[s], .y = y[s]});
        b.softmax_backward(
            {.rows = rows, .columns = columns, .log = log, .y = y[s], .dy = dy[s], .dx = dx[s]});
        b.softmax_backward({.rows = rows,
                            .columns = columns,
                            .log = log,
                            .y = y[s],
                            .dy = dy[s],
                            .dx = added[s],
                            .accumulate = true});
      });
      d.check(y, "softmax");
      d.check(dx, "softmax_backward");
      d.check(added, "softmax_backward added");
    }
  }
  Devices d;
  // Ties in one lane and across lanes: the first wins.
  std::vector<float> x(3 * 70, 0.0f);
  x[5] = x[37] = x[69] = 2;
  x[70 + 33] = x[70 + 34] = 1;
  const auto values = d.put(x), out = d.put(std::vector<int32_t>(3, -7));
  d.run([&](Backend& b, int s) {
    b.argmax({.rows = 3, .columns = 70, .x = values[s], .out = out.i(s)});
  });
  CHECK(d.read<int32_t>(out, 1) == std::vector<int32_t>{5, 33, 0});
  CHECK(d.read<int32_t>(out, 0) == std::vector<int32_t>{5, 33, 0});
}

TEST_CASE("cuda: norm with residual and dropout, and its gradient", "[cuda]") {
  const bool rms = GENERATE(false, true);
  const float p = GENERATE(0.0f, 0.25f);
  for (const auto& [rows, columns] :
       std::vector<std::tuple<int64_t, int64_t>>{{1, 2}, {9, 33}, {70, 64}, {0, 8}}) {
    for (bool accumulate : {false, true}) {
      Devices d;
      const int64_t n = rows * columns;
      const auto state = step_state(d, 1);
      const auto x = d.random(n), residual = d.random(n), gain = d.random(columns);
      const auto bias = d.random(columns), dy = d.random(n), dsum = d.random(n);
      const auto sum = d.output(n), y = d.output(n), mean = d.output(rows, true);
      const auto inverse = d.output(rows);
      const auto dx = d.output(n, accumulate), dresidual = d.output(n, accumulate);
      const auto dgain = d.output(columns, accumulate), dbias = d.output(columns, accumulate);
      d.run([&](Backend& b, int s) {
        b.norm({.rows = rows,
                .columns = columns,
                .rms = rms,
                .x = x[s],
                .residual = residual[s],
                .dropout = drop_out(state, s, p),
                .gain = gain[s],
                .bias = bias[s],
                .sum = sum[s],
                .y = y[s],
                .mean = mean[s],
                .inverse_deviation = inverse[s]});
        b.norm_backward({.rows = rows,
                         .columns = columns,
                         .rms = rms,
                         .sum = sum[s],
                         .gain = gain[s],
                         .mean = mean[s],
                         .inverse_deviation = inverse[s],
                         .dy = dy[s],
                         .dsum = dsum[s],
                         .dropout = drop_out(state, s, p),
                         .dx = dx[s],
                         .accumulate_dx = accumulate,
                         .dresidual = dresidual[s],
                         .accumulate_dresidual = accumulate,
                         .dgain = dgain[s],
                         .accumulate_dgain = accumulate,
                         .dbias = dbias[s],
                         .accumulate_dbias = accumulate});
      });
      d.check(sum, "sum");
      d.check(y, "y", 1e-4);
      d.check(mean, "mean");  // untouched for RMS norm: both keep what they were given
      d.check(inverse, "inverse deviation", 1e-4);
      d.check(dx, "dx", 2e-4);
      d.check(dresidual, "dresidual", 2e-4);
      d.check(dgain, "dgain", 2e-4);
      d.check(dbias, "dbias", 1e-4);
    }
  }
  // Plain: no residual, no gain, no bias, no stored sum; only dx wanted.
  Devices d;
  const auto x = d.random(5 * 40), y = d.output(5 * 40), dy = d.random(5 * 40);
  const auto mean = d.output(5), inverse = d.output(5), dx = d.output(5 * 40);
  d.run([&](Backend& b, int s) {
    b.norm({.rows = 5,
            .columns = 40,
            .rms = rms,
            .x = x[s],
            .dropout = {},
            .y = y[s],
            .mean = mean[s],
            .inverse_deviation = inverse[s]});
    b.norm_backward({.rows = 5,
                     .columns = 40,
                     .rms = rms,
                     .sum = x[s],
                     .mean = mean[s],
                     .inverse_deviation = inverse[s],
                     .dy = dy[s],
                     .dropout = {},
                     .dx = dx[s]});
  });
  d.check(y, "plain norm", 1e-4);
  d.check(dx, "plain norm gradient", 2e-4);
}
