// One value an element, CUDA against the CPU: functions with their gradients, sums of two arrays,
// scaling, dropout.
#include <tuple>

#include "tests/cuda/devices.h"
#include "tests/cuda/step_state.h"

using namespace longshot;
using longshot::test::Devices;
using longshot::test::drop_out;
using longshot::test::step_state;

TEST_CASE("cuda: unary functions and gradients", "[cuda]") {
  const auto op = GENERATE(Unary::relu, Unary::gelu, Unary::gelu_tanh, Unary::exp, Unary::log,
                           Unary::tanh, Unary::sigmoid, Unary::square);
  for (int64_t n : {0, 1, 255, 1000}) {
    for (bool accumulate : {false, true}) {
      Devices d;
      const double low = op == Unary::log ? 0.1 : -3;
      const auto x = d.random(n, low, 3), y = d.output(n), dy = d.random(n);
      const auto dx = d.output(n, accumulate);
      d.run([&](Backend& b, int s) {
        b.unary({.op = op, .n = n, .x = x[s], .y = y[s]});
        b.unary_backward({.op = op,
                          .n = n,
                          .x = x[s],
                          .y = y[s],
                          .dy = dy[s],
                          .dx = dx[s],
                          .accumulate = accumulate});
      });
      d.check(y, "unary " + std::to_string(int(op)));
      d.check(dx, "unary_backward " + std::to_string(int(op)));
    }
  }
}

TEST_CASE("cuda: activation gradient with the bias gradient", "[cuda]") {
  const auto activation =
      GENERATE(Activation::none, Activation::relu, Activation::gelu, Activation::gelu_tanh);
  for (const auto& [rows, columns] :
       std::vector<std::tuple<int64_t, int64_t>>{{1, 1}, {0, 5}, {7, 33}, {203, 70}}) {
    for (bool accumulate : {false, true}) {
      Devices d;
      const auto pre = d.random(rows * columns, -3, 3), dy = d.random(rows * columns);
      const auto dx = d.output(rows * columns), dbias = d.output(columns, accumulate);
      const auto only = d.output(columns);
      d.run([&](Backend& b, int s) {
        b.activation_backward({.activation = activation,
                               .rows = rows,
                               .columns = columns,
                               .pre_activation = pre[s],
                               .dy = dy[s],
                               .dx = dx[s],
                               .dbias = dbias[s],
                               .accumulate_dbias = accumulate});
        b.activation_backward({.activation = activation,
                               .rows = rows,
                               .columns = columns,
                               .pre_activation = pre[s],
                               .dy = dy[s],
                               .dbias = only[s]});
      });
      d.check(dx, "dx");
      d.check(dbias, "dbias", 1e-4);
      d.check(only, "dbias alone", 1e-4);
    }
  }
}

TEST_CASE("cuda: affine, binary, row scaling and repetition", "[cuda]") {
  const bool accumulate = GENERATE(false, true);
  Devices d;
  const int64_t rows = 13, columns = 37, n = rows * columns;
  const auto x = d.random(n), row = d.random(columns), scale = d.random(rows);
  const auto y = d.output(n, accumulate), scaled = d.output(n, accumulate);
  d.run([&](Backend& b, int s) {
    b.affine({.n = n, .x = x[s], .y = y[s], .alpha = 1.5, .beta = -0.25, .accumulate = accumulate});
    b.scale_rows({.rows = rows,
                  .columns = columns,
                  .x = x[s],
                  .scale = scale[s],
                  .out = scaled[s],
                  .accumulate = accumulate});
  });
  d.check(y, "affine");
  d.check(scaled, "scale_rows");
  for (Binary op : {Binary::add, Binary::sub, Binary::mul}) {
    for (int64_t period : {columns, n}) {
      const auto b2 = period == n ? d.random(n) : row, out = d.output(n, accumulate);
      d.run([&](Backend& b, int s) {
        b.binary({.op = op,
                  .n = n,
                  .period = period,
                  .a = x[s],
                  .b = b2[s],
                  .out = out[s],
                  .accumulate = accumulate});
      });
      d.check(out, "binary");
    }
  }
  const auto wide = d.output(rows * 3 * columns, accumulate);
  d.run([&](Backend& b, int s) {
    b.expand({.outer = rows,
              .repeat = 3,
              .inner = columns,
              .x = x[s],
              .out = wide[s],
              .alpha = 0.5,
              .accumulate = accumulate});
  });
  d.check(wide, "expand");
}

TEST_CASE("cuda: dropout keeps the same elements as the CPU", "[cuda]") {
  const uint32_t training = GENERATE(0u, 1u);
  Devices d;
  const int64_t n = 1003;
  const auto state = step_state(d, training), x = d.random(n), y = d.output(n);
  const auto added = d.output(n, true);
  d.run([&](Backend& b, int s) {
    b.dropout({.n = n, .x = x[s], .y = y[s], .dropout = drop_out(state, s, 0.3f)});
    b.dropout({.n = n,
               .x = x[s],
               .y = added[s],
               .dropout = drop_out(state, s, 0.3f),
               .accumulate = true});
  });
  d.check(y, "dropout", 1e-6);
  d.check(added, "dropout added", 1e-6);
  int64_t zeros = 0;
  for (float value : d.read(y, 1)) zeros += value == 0;
  if (training) CHECK(std::abs(double(zeros) / double(n) - 0.3) < 0.06);
  if (!training) CHECK(zeros == 0);
}
