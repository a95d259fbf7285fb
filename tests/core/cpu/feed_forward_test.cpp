// Both layers in one kernel against plain loops in double precision: values, every gradient, each
// gradient alone, written and added; guard values; equal bits for any number of threads.
#include "core/cpu/feed_forward.h"

#include <cmath>
#include <vector>

#include "tests/core/cpu/kernel_test.h"

namespace longshot::test {
namespace {

double activate(Activation activation, double z) {
  switch (activation) {
    case Activation::none:
      return z;
    case Activation::relu:
      return z > 0 ? z : 0;
    case Activation::gelu:
      return 0.5 * z * std::erfc(-z / std::sqrt(2.0));
    case Activation::gelu_tanh:
      return z / (1 + std::exp(-2 * std::sqrt(2 / M_PI) * (z + 0.044715 * z * z * z)));
  }
  return NAN;
}
double slope(Activation activation, double z) {
  switch (activation) {
    case Activation::none:
      return 1;
    case Activation::relu:
      return z > 0 ? 1 : 0;
    case Activation::gelu:
      return 0.5 * std::erfc(-z / std::sqrt(2.0)) + z * std::exp(-z * z / 2) / std::sqrt(2 * M_PI);
    case Activation::gelu_tanh: {  // z s(2 u), s the logistic function: s + z 2 u' s (1 - s)
      const double root = std::sqrt(2 / M_PI);
      const double s = 1 / (1 + std::exp(-2 * root * (z + 0.044715 * z * z * z)));
      return s + z * 2 * root * (1 + 3 * 0.044715 * z * z) * s * (1 - s);
    }
  }
  return NAN;
}

struct Sizes {
  int64_t rows, inner, hidden, columns;
};

// Everything by loops: y and the five gradients.
struct Expected {
  std::vector<double> y, dx, dup, dup_bias, ddown, ddown_bias;
};
Expected by_loops(const Sizes& s, Activation activation, const std::vector<double>& x,
                  const std::vector<double>& up, const std::vector<double>& up_bias,
                  const std::vector<double>& down, const std::vector<double>& down_bias,
                  const std::vector<double>& dy) {
  Expected e;
  e.y.assign(size_t(s.rows * s.columns), 0);
  e.dx.assign(x.size(), 0);
  e.dup.assign(up.size(), 0);
  e.dup_bias.assign(size_t(s.hidden), 0);
  e.ddown.assign(down.size(), 0);
  e.ddown_bias.assign(size_t(s.columns), 0);
  for (int64_t r = 0; r < s.rows; ++r) {
    for (int64_t c = 0; c < s.columns; ++c) {
      e.y[size_t(r * s.columns + c)] = down_bias.empty() ? 0 : down_bias[size_t(c)];
      e.ddown_bias[size_t(c)] += dy[size_t(r * s.columns + c)];
    }
    for (int64_t h = 0; h < s.hidden; ++h) {
      double z = up_bias.empty() ? 0 : up_bias[size_t(h)];
      for (int64_t i = 0; i < s.inner; ++i)
        z += x[size_t(r * s.inner + i)] * up[size_t(h * s.inner + i)];
      const double value = activate(activation, z);
      double dvalue = 0;
      for (int64_t c = 0; c < s.columns; ++c) {
        const double weight = down[size_t(c * s.hidden + h)], d = dy[size_t(r * s.columns + c)];
        e.y[size_t(r * s.columns + c)] += value * weight;
        dvalue += d * weight;
        e.ddown[size_t(c * s.hidden + h)] += d * value;
      }
      const double dz = dvalue * slope(activation, z);
      e.dup_bias[size_t(h)] += dz;
      for (int64_t i = 0; i < s.inner; ++i) {
        e.dup[size_t(h * s.inner + i)] += dz * x[size_t(r * s.inner + i)];
        e.dx[size_t(r * s.inner + i)] += dz * up[size_t(h * s.inner + i)];
      }
    }
  }
  return e;
}

template <class T>
void check_case(const Sizes& s, Activation activation, bool bias, unsigned wanted,
                bool accumulate) {
  INFO(s.rows << " x " << s.inner << " x " << s.hidden << " x " << s.columns << ", activation "
              << int(activation) << ", bias " << bias << ", wanted " << wanted << ", added "
              << accumulate);
  const auto x = uniform<T>(s.rows * s.inner, 1), up = uniform<T>(s.hidden * s.inner, 2),
             up_bias = uniform<T>(bias ? s.hidden : 0, 3),
             down = uniform<T>(s.columns * s.hidden, 4),
             down_bias = uniform<T>(bias ? s.columns : 0, 5),
             dy = uniform<T>(s.rows * s.columns, 6);
  const Expected want = by_loops(s, activation, widened(x), widened(up), widened(up_bias),
                                 widened(down), widened(down_bias), widened(dy));
  FeedForwardArgs f;
  f.dtype = dtype_of<T>();
  f.rows = s.rows, f.inner = s.inner, f.hidden = s.hidden, f.columns = s.columns;
  f.activation = activation;
  f.x = x.data(), f.weight_up = up.data(), f.weight_down = down.data();
  f.bias_up = bias ? up_bias.data() : nullptr;
  f.bias_down = bias ? down_bias.data() : nullptr;
  // Rounding of a sum grows with the root of its terms' number.
  const double unit =
      (sizeof(T) == 4 ? 1.5e-6 : 1e-14) * (1 + std::sqrt(double(s.inner + s.hidden + s.columns)));
  const double sums = unit * (1 + std::sqrt(double(s.rows)));

  expect_thread_independent(
      [&] {
        Guarded<T> y(s.rows * s.columns);
        FeedForwardArgs args = f;
        args.y = y.data();
        cpu::feed_forward<T>(args);
        return y.values();
      },
      "feed_forward");
  Guarded<T> y(s.rows * s.columns);
  f.y = y.data();
  cpu::feed_forward<T>(f);
  expect_close(y.values(), want.y, unit, "y");
  f.y = nullptr;  // backward does not read it

  const std::vector<double>* expected[] = {&want.dx, &want.dup, &want.dup_bias, &want.ddown,
                                           &want.ddown_bias};
  const char* names[] = {"dx", "dweight_up", "dbias_up", "dweight_down", "dbias_down"};
  expect_thread_independent(
      [&] {
        std::vector<Guarded<T>> out;
        std::vector<std::vector<T>> base;
        for (int i = 0; i < 5; ++i) {
          const int64_t n = int64_t(expected[i]->size());
          base.push_back(accumulate ? uniform<T>(n, uint32_t(20 + i))
                                    : std::vector<T>(size_t(n), T(0)));
          out.push_back(accumulate ? Guarded<T>(base.back()) : Guarded<T>(n));
        }
        const auto target = [&](int i) {
          return (wanted >> i & 1) != 0 ? static_cast<void*>(out[size_t(i)].data()) : nullptr;
        };
        FeedForwardBackwardArgs args;
        args.forward = f;
        args.dy = dy.data();
        args.dx = target(0), args.dweight_up = target(1), args.dbias_up = target(2);
        args.dweight_down = target(3), args.dbias_down = target(4);
        args.accumulate_dx = args.accumulate_dweight_up = args.accumulate_dbias_up = accumulate;
        args.accumulate_dweight_down = args.accumulate_dbias_down = accumulate;
        cpu::feed_forward_backward<T>(args);
        std::vector<T> all;
        for (int i = 0; i < 5; ++i) {
          if ((wanted >> i & 1) == 0) continue;
          const std::vector<T> got = out[size_t(i)].values(names[i]);
          expect_close(got, added(base[size_t(i)], *expected[i]), i == 0 ? unit : sums, names[i]);
          all.insert(all.end(), got.begin(), got.end());
        }
        return all;
      },
      "feed_forward_backward");
}

const Activation kActivations[] = {Activation::none, Activation::relu, Activation::gelu,
                                   Activation::gelu_tanh};

TEMPLATE_TEST_CASE("feed_forward: one layer's numbers by hand", "[cpu][feed_forward]", float,
                   double) {
  using T = TestType;
  // x = (1, -1); up = (2 0; 0 3), bias (0, 1): z = (2, -2), relu (2, 0); down = (5 7), bias 1: 11.
  const T x[] = {1, -1}, up[] = {2, 0, 0, 3}, up_bias[] = {0, 1}, down[] = {5, 7},
          down_bias[] = {1};
  Guarded<T> y(1), dx(2), dup(4), dup_bias(2), ddown(2), ddown_bias(1);
  FeedForwardArgs f;
  f.dtype = dtype_of<T>();
  f.rows = 1, f.inner = 2, f.hidden = 2, f.columns = 1, f.activation = Activation::relu;
  f.x = x, f.weight_up = up, f.bias_up = up_bias, f.weight_down = down, f.bias_down = down_bias;
  f.y = y.data();
  cpu::feed_forward<T>(f);
  CHECK(y.values() == std::vector<T>{11});
  // dy = 10: dh = (50, 70), dz = (50, 0), dx = 50 (2, 0), dup = dz x^T, ddown = 10 (2, 0).
  const T dy[] = {10};
  FeedForwardBackwardArgs b;
  b.forward = f;
  b.dy = dy, b.dx = dx.data(), b.dweight_up = dup.data(), b.dbias_up = dup_bias.data();
  b.dweight_down = ddown.data(), b.dbias_down = ddown_bias.data();
  cpu::feed_forward_backward<T>(b);
  CHECK(dx.values() == std::vector<T>{100, 0});
  CHECK(dup.values() == std::vector<T>{50, -50, 0, 0});
  CHECK(dup_bias.values() == std::vector<T>{50, 0});
  CHECK(ddown.values() == std::vector<T>{20, 0});
  CHECK(ddown_bias.values() == std::vector<T>{10});
}

TEMPLATE_TEST_CASE("feed_forward against loops over odd shapes", "[cpu][feed_forward]", float,
                   double) {
  const Sizes shapes[] = {{1, 1, 1, 1},    {2, 3, 5, 7},     {15, 17, 33, 16}, {113, 16, 31, 19},
                          {229, 8, 40, 5}, {59, 37, 70, 33}, {3, 0, 4, 2},     {3, 2, 0, 4}};
  for (const Sizes& s : shapes)
    for (const Activation activation : kActivations)
      for (const bool bias : {false, true})
        check_case<TestType>(s, activation, bias, 31, bias && s.rows % 2 == 1);
}

TEMPLATE_TEST_CASE("feed_forward: several pieces of rows", "[cpu][feed_forward]", float, double) {
  check_case<TestType>({1931, 13, 29, 11}, Activation::gelu, true, 31, false);
  check_case<TestType>({1345, 32, 64, 32}, Activation::relu, true, 31, true);
}

TEST_CASE("feed_forward: every choice of gradients", "[cpu][feed_forward]") {
  for (unsigned wanted = 0; wanted < 32; ++wanted)
    check_case<double>({130, 5, 9, 4}, Activation::gelu, true, wanted, wanted % 3 == 0);
}

TEST_CASE("feed_forward: no rows give zero parameter gradients", "[cpu][feed_forward]") {
  check_case<float>({0, 3, 4, 2}, Activation::gelu, true, 31, false);
  check_case<float>({0, 3, 4, 2}, Activation::gelu, true, 31, true);
}

}  // namespace
}  // namespace longshot::test
