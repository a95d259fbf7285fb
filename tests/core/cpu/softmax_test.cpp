// softmax and log-softmax: by hand, against double loops, finite differences.
#include "core/cpu/softmax.h"

#include "tests/core/cpu/kernel_test.h"

using namespace longshot;
using namespace longshot::test;

namespace {

template <class T>
std::vector<T> run(bool log, int64_t rows, int64_t columns, const std::vector<T>& x) {
  Guarded<T> y(rows * columns);
  SoftmaxArgs args;
  args.rows = rows, args.columns = columns, args.log = log, args.x = x.data(), args.y = y.data();
  call_kernel<T>(&Backend::softmax, args);
  return y.values();
}

}  // namespace

TEST_CASE("softmax by hand", "[softmax]") {
  // exp(0), exp(ln 2), exp(ln 5) = 1, 2, 5 of 8; also after adding 1000, where exp overflows.
  const double ln2 = std::log(2.0), ln5 = std::log(5.0);
  const std::vector<double> x = {0, ln2, ln5, 1000, 1000 + ln2, 1000 + ln5};
  const std::vector<double> p = {0.125, 0.25, 0.625, 0.125, 0.25, 0.625};
  expect_close(run(false, 2, 3, x), p, 1e-13, "softmax");
  std::vector<double> logs;
  for (double value : p) logs.push_back(std::log(value));
  expect_close(run(true, 2, 3, x), logs, 1e-13, "log-softmax");
}

TEST_CASE("softmax with -inf: masked entries get 0, a row of nothing else is 0", "[softmax]") {
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> x = {-inf, 0, -inf, 0, -inf, -inf, -inf, -inf};
  // By rows: GCC 12 with AVX-512 compiles the constant {0, h, 0, h, 0, 0, 0, 0} to {0, h} four
  // times.
  const std::vector<float> p = run(false, 2, 4, x);
  CHECK(std::vector<float>(p.begin(), p.begin() + 4) == std::vector<float>{0, 0.5f, 0, 0.5f});
  CHECK(std::vector<float>(p.begin() + 4, p.end()) == std::vector<float>(4, 0.0f));
  const auto logs = run(true, 2, 4, x);
  for (size_t i : {0, 2, 4, 5, 6, 7}) CHECK(logs[i] == -inf);
  CHECK(std::isnan(run(false, 1, 2, std::vector<float>{NAN, 1})[1]));
}

TEMPLATE_TEST_CASE("softmax against double loops", "[softmax]", float, double) {
  using T = TestType;
  struct Case {
    int64_t rows, columns;
  };
  for (auto [R, C] : {Case{1, 1}, {7, 5}, {300, 41}, {3, 16}, {64, 1000}, {0, 4}, {4, 0}}) {
    const auto x = uniform<T>(R * C, 1, -9, 9);
    std::vector<double> want, want_log;
    for (int64_t r = 0; r < R; ++r) {
      double sum = 0;
      for (int64_t c = 0; c < C; ++c) sum += std::exp(double(x[size_t(r * C + c)]));
      for (int64_t c = 0; c < C; ++c) {
        want.push_back(std::exp(double(x[size_t(r * C + c)])) / sum);
        want_log.push_back(double(x[size_t(r * C + c)]) - std::log(sum));
      }
    }
    expect_close(run(false, R, C, x), want, tolerance<T>(), "softmax");
    expect_close(run(true, R, C, x), want_log, tolerance<T>(), "log-softmax");
    expect_thread_independent([&, R = R, C = C] { return run(false, R, C, x); }, "softmax");
    expect_thread_independent([&, R = R, C = C] { return run(true, R, C, x); }, "log-softmax");
  }
}

TEST_CASE("softmax_backward against finite differences, written and added", "[softmax]") {
  for (bool log : {false, true}) {
    for (auto [R, C] : {std::pair<int64_t, int64_t>{3, 5}, {2, 19}, {1, 1}}) {
      auto x = uniform<double>(R * C, 1, -2, 2);
      const auto dy = uniform<double>(R * C, 2), base = uniform<double>(R * C, 3);
      const auto y = run(log, R, C, x);
      for (bool accumulate : {false, true}) {
        Guarded<double> dx = accumulate ? Guarded<double>(base) : Guarded<double>(R * C);
        SoftmaxBackwardArgs args;
        args.rows = R, args.columns = C, args.log = log, args.y = y.data(), args.dy = dy.data();
        args.dx = dx.data(), args.accumulate = accumulate;
        call_kernel<double>(&Backend::softmax_backward, args);
        auto gradient = dx.values();
        if (accumulate) {
          for (size_t i = 0; i < gradient.size(); ++i) gradient[i] -= base[i];
        }
        expect_gradient(
            x, gradient, [&, R = R, C = C] { return dot(run(log, R, C, x), dy); }, "softmax");
      }
    }
  }
}
