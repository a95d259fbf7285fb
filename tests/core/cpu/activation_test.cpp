// Unary functions against libm, derivatives against finite differences, bias gradients.
#include "core/cpu/activation.h"

#include "tests/core/cpu/kernel_test.h"

using namespace longshot;
using namespace longshot::test;

namespace {

const std::vector<Unary> kAll = {Unary::relu, Unary::gelu, Unary::gelu_tanh, Unary::exp,
                                 Unary::log,  Unary::tanh, Unary::sigmoid,   Unary::square};

double reference(Unary op, double x) {
  switch (op) {
    case Unary::relu:
      return x > 0 ? x : 0;
    case Unary::gelu:
      return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
    case Unary::gelu_tanh:
      return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
    case Unary::exp:
      return std::exp(x);
    case Unary::log:
      return std::log(x);
    case Unary::tanh:
      return std::tanh(x);
    case Unary::sigmoid:
      return 1 / (1 + std::exp(-x));
    case Unary::square:
      return x * x;
  }
  return 0;
}

template <class T>
std::vector<T> run(Unary op, const std::vector<T>& x) {
  Guarded<T> y(int64_t(x.size()));
  UnaryArgs args;
  args.op = op, args.n = int64_t(x.size()), args.x = x.data(), args.y = y.data();
  call_kernel<T>(&Backend::unary, args);
  return y.values();
}

// Away from 0, where relu has no derivative, and positive where the logarithm needs it.
template <class T>
std::vector<T> inputs(Unary op, int64_t n) {
  auto x = uniform<T>(n, 7, op == Unary::log ? 0.05 : -4, 4);
  for (T& value : x) {
    if (std::abs(value) < T(1e-3)) value = T(0.5);
  }
  return x;
}

}  // namespace

TEST_CASE("unary values by hand", "[activation]") {
  // gelu(1) = Phi(1) = 0.8413447461; gelu(-1) = -0.1586552539; sigmoid(0) = 1/2.
  const std::vector<float> x = {1, -1, 0};
  expect_close(run(Unary::gelu, x), std::vector<double>{0.8413447461, -0.1586552539, 0}, 2e-7,
               "gelu");
  expect_close(run(Unary::gelu_tanh, x), std::vector<double>{0.8411919906, -0.1588080094, 0}, 2e-7,
               "gelu_tanh");
  CHECK(run(Unary::relu, x) == std::vector<float>{1, 0, 0});
  CHECK(run(Unary::square, x) == std::vector<float>{1, 1, 0});
  CHECK(run(Unary::sigmoid, x)[2] == 0.5f);
}

TEST_CASE("unary at the extremes: no NaN where the limit is finite, NaN where it came in",
          "[activation]") {
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> x = {1e4f, -1e4f, 100, -100};
  expect_close(run(Unary::gelu, x), std::vector<double>{1e4, 0, 100, 0}, 1e-6, "gelu");
  expect_close(run(Unary::gelu_tanh, x), std::vector<double>{1e4, 0, 100, 0}, 1e-6, "gelu_tanh");
  expect_close(run(Unary::sigmoid, x), std::vector<double>{1, 0, 1, 0}, 1e-6, "sigmoid");
  expect_close(run(Unary::tanh, x), std::vector<double>{1, -1, 1, -1}, 1e-6, "tanh");
  CHECK(run(Unary::log, std::vector<float>{0})[0] == -inf);
  for (Unary op : kAll) CHECK(std::isnan(run(op, std::vector<float>{NAN})[0]));
}

TEMPLATE_TEST_CASE("unary against libm over odd sizes", "[activation]", float, double) {
  using T = TestType;
  for (Unary op : kAll) {
    for (int64_t n : {0, 1, 15, 17, 1009, 70001}) {
      const auto x = inputs<T>(op, n);
      std::vector<double> want;
      for (T value : x) want.push_back(reference(op, double(value)));
      expect_close(run(op, x), want, tolerance<T>(), fmt::format("unary {} n {}", int(op), n));
    }
  }
}

TEST_CASE("unary_backward against finite differences, written and added", "[activation]") {
  for (Unary op : kAll) {
    auto x = inputs<double>(op, 37);
    const auto dy = uniform<double>(37, 2), y = run(op, x), base = uniform<double>(37, 3);
    for (bool accumulate : {false, true}) {
      Guarded<double> dx = accumulate ? Guarded<double>(base) : Guarded<double>(37);
      UnaryBackwardArgs args;
      args.op = op, args.n = 37, args.x = x.data(), args.y = y.data(), args.dy = dy.data();
      args.dx = dx.data(), args.accumulate = accumulate;
      call_kernel<double>(&Backend::unary_backward, args);
      auto gradient = dx.values();
      if (accumulate) {
        for (size_t i = 0; i < gradient.size(); ++i) gradient[i] -= base[i];
      }
      expect_gradient(
          x, gradient, [&] { return dot(run(op, x), dy); }, fmt::format("unary {}", int(op)));
    }
    // f32 agrees with f64.
    const std::vector<float> xf(x.begin(), x.end()), yf(y.begin(), y.end()),
        dyf(dy.begin(), dy.end());
    Guarded<float> dxf(37);
    Guarded<double> dxd(37);
    UnaryBackwardArgs args;
    args.op = op, args.n = 37;
    args.x = x.data(), args.y = y.data(), args.dy = dy.data(), args.dx = dxd.data();
    call_kernel<double>(&Backend::unary_backward, args);
    args.x = xf.data(), args.y = yf.data(), args.dy = dyf.data(), args.dx = dxf.data();
    call_kernel<float>(&Backend::unary_backward, args);
    expect_close(dxf.values(), dxd.values(), 1e-5, "unary_backward f32");
  }
}

TEST_CASE("activation_backward: gradient, bias gradient, either alone", "[activation]") {
  struct Case {
    int64_t rows, columns;
  };
  const std::pair<Activation, Unary> pairs[] = {{Activation::none, Unary::square},
                                                {Activation::relu, Unary::relu},
                                                {Activation::gelu, Unary::gelu},
                                                {Activation::gelu_tanh, Unary::gelu_tanh}};
  for (auto [rows, columns] : {Case{1, 1}, {37, 5}, {300, 67}, {2049, 33}, {0, 3}, {3, 0}}) {
    for (auto [activation, op] : pairs) {
      const int64_t n = rows * columns;
      const auto pre = inputs<double>(op, n), dy = uniform<double>(n, 2);
      std::vector<double> want(static_cast<size_t>(n)),
          want_bias(static_cast<size_t>(columns), 0.0);
      UnaryBackwardArgs unary;
      unary.op = op, unary.n = n, unary.x = pre.data(), unary.dy = dy.data(),
      unary.dx = want.data();
      if (activation == Activation::none) {
        want = dy;
      } else {
        call_kernel<double>(&Backend::unary_backward,
                            unary);  // checked against finite differences above
      }
      for (int64_t i = 0; i < n; ++i) want_bias[size_t(i % columns)] += want[size_t(i)];
      for (bool with_dx : {true, false}) {
        for (bool accumulate : {false, true}) {
          const std::vector<double> base = uniform<double>(columns, 5);
          expect_thread_independent(
              [&, rows = rows, columns = columns, activation = activation] {
                Guarded<double> dx(n);
                Guarded<double> dbias =
                    accumulate ? Guarded<double>(base) : Guarded<double>(columns);
                ActivationBackwardArgs args;
                args.activation = activation, args.rows = rows, args.columns = columns;
                args.pre_activation = activation == Activation::none ? nullptr : pre.data();
                args.dy = dy.data(), args.dx = with_dx ? dx.data() : nullptr;
                args.dbias = dbias.data(), args.accumulate_dbias = accumulate;
                call_kernel<double>(&Backend::activation_backward, args);
                if (with_dx) expect_close(dx.values(), want, 0, "dx");
                expect_close(dbias.values(), accumulate ? added(base, want_bias) : want_bias, 1e-12,
                             "dbias");
                return dbias.values();
              },
              "activation_backward");
        }
      }
      Guarded<double> dx(n);
      ActivationBackwardArgs args;
      args.activation = activation, args.rows = rows, args.columns = columns;
      args.pre_activation = pre.data(), args.dy = dy.data(), args.dx = dx.data();
      call_kernel<double>(&Backend::activation_backward, args);
      expect_close(dx.values(), want, 0, "dx without bias");
    }
  }
}
