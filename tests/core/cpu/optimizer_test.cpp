// Clip decision and AdamW: by hand, against a double reference, skipped steps.
#include "core/cpu/optimizer.h"

#include "tests/core/cpu/kernel_test.h"

using namespace longshot;
using namespace longshot::test;

namespace {

template <class T>
UpdateState clipped(const std::vector<T>& gradient, double max_norm, double targets = 1) {
  StepState state;
  state.target_count = targets;
  UpdateState update;
  ClipArgs args;
  args.n = int64_t(gradient.size()), args.gradient = gradient.data(), args.max_norm = max_norm;
  args.state = &state, args.update = &update;
  call_kernel<T>(&Backend::clip, args);
  return update;
}

}  // namespace

TEST_CASE("clip by hand", "[optimizer]") {
  const std::vector<double> gradient = {3, 0, 4};
  CHECK(clipped(gradient, 1).squared_norm == 25);
  CHECK(clipped(gradient, 1).scale == 0.2f);
  CHECK(clipped(gradient, 1).skip == 0);
  CHECK(clipped(gradient, 5).scale == 1);
  CHECK(clipped(gradient, 0).scale == 1);
  CHECK(clipped(std::vector<double>{0, 0}, 1).scale == 1);
  CHECK(clipped(std::vector<double>{}, 1).squared_norm == 0);
  CHECK(clipped(gradient, 1, 0).skip == 1);
}

TEST_CASE("clip skips what is not finite, and only that", "[optimizer]") {
  const float inf = std::numeric_limits<float>::infinity();
  for (float bad : {inf, -inf, NAN}) {
    for (size_t at : {0, 17, 4999}) {
      std::vector<float> gradient(5000, 0.1f);
      gradient[at] = bad;
      CHECK(clipped(gradient, 1).skip == 1);
    }
  }
  // The square of 1e30 is not an f32, but the norm is.
  const auto huge = clipped(std::vector<float>{1e30f}, 1);
  CHECK(huge.skip == 0);
  CHECK(huge.scale == Approx(1e-30f));
}

TEMPLATE_TEST_CASE("clip: the norm of odd sizes, thread-independent", "[optimizer]", float,
                   double) {
  using T = TestType;
  for (int64_t n : {1, 15, 33, 4097, 300007}) {
    const auto gradient = uniform<T>(n, 1);
    double want = 0;
    for (T g : gradient) want += double(g) * double(g);
    CHECK(clipped(gradient, 1).squared_norm == Approx(want).epsilon(1e-12));
    expect_thread_independent(
        [&] { return std::vector<double>{clipped(gradient, 1).squared_norm}; }, "norm");
  }
}

TEST_CASE("AdamW by hand: decayed and not", "[optimizer]") {
  // First step: m / (1 - beta1) = g, v / (1 - beta2) = g^2, so the update is lr g / (|g| +
  // epsilon). 1 - 0.01 * 0.1 - 0.01 * 0.1 / (0.1 + 1e-8) = 0.989000001; without decay 0.990000001.
  Guarded<double> p(std::vector<double>{1, 1}), m(std::vector<double>{0, 0}),
      v(std::vector<double>{0, 0});
  const std::vector<double> g = {0.1, 0.1};
  StepState state;
  state.learning_rate = 0.01f;
  UpdateState update;
  AdamArgs args;
  args.n = 2, args.decayed = 1, args.weight_decay = 0.1, args.parameter = p.data(),
  args.gradient = g.data();
  args.first_moment = m.data(), args.second_moment = v.data(), args.state = &state,
  args.update = &update;
  call_kernel<double>(&Backend::adam, args);
  expect_close(p.values(), std::vector<double>{0.989000001, 0.990000001}, 1e-9, "AdamW");
  expect_close(m.values(), std::vector<double>{0.01, 0.01}, 1e-15, "first moment");
  expect_close(v.values(), std::vector<double>{1e-5, 1e-5}, 1e-15, "second moment");
  CHECK(update.adam_step == 1);
}

TEST_CASE("a skipped step changes nothing but the count of skipped steps", "[optimizer]") {
  auto p = uniform<float>(100, 1), m = uniform<float>(100, 2), v = uniform<float>(100, 3, 0, 1);
  const auto p0 = p, m0 = m, v0 = v;
  const std::vector<float> g(100, NAN);
  StepState state;
  state.learning_rate = 1;
  UpdateState update;
  update.skip = 1, update.adam_step = 5;
  AdamArgs args;
  args.n = 100, args.parameter = p.data(), args.gradient = g.data(), args.first_moment = m.data();
  args.second_moment = v.data(), args.state = &state, args.update = &update;
  call_kernel<float>(&Backend::adam, args);
  CHECK(p == p0);
  CHECK(m == m0);
  CHECK(v == v0);
  CHECK(update.adam_step == 5);
  CHECK(update.skipped_steps == 1);
}

TEMPLATE_TEST_CASE("Adam over several steps against a double reference", "[optimizer]", float,
                   double) {
  using T = TestType;
  struct Case {
    int64_t n, decayed;
  };
  for (auto [n, decayed] : {Case{1, 0}, {37, 20}, {100003, 50001}, {64, 64}, {0, 0}}) {
    for (bool coupled : {false, true}) {
      const auto run = [&, n = n, decayed = decayed] {
        Guarded<T> p(uniform<T>(n, 1)), m(n, T(0)), v(n, T(0));
        StepState state;
        state.learning_rate = 0.03f;
        UpdateState update;
        update.scale = 0.5f;
        AdamArgs args;
        args.n = n, args.decayed = decayed, args.weight_decay = 0.2, args.coupled = coupled;
        args.parameter = p.data(), args.first_moment = m.data(), args.second_moment = v.data();
        args.state = &state, args.update = &update;
        for (uint32_t step = 0; step < 4; ++step) {
          const auto g = uniform<T>(n, 10 + step);
          args.gradient = g.data();
          call_kernel<T>(&Backend::adam, args);
        }
        return p.values();
      };
      std::vector<double> p = widened(uniform<T>(n, 1)), m(size_t(n), 0.0), v = m;
      for (uint32_t step = 0; step < 4; ++step) {
        const auto g = uniform<T>(n, 10 + step);
        const double t = step + 1, lr = double(0.03f);
        for (size_t i = 0; i < size_t(n); ++i) {
          const double wd = int64_t(i) < decayed ? 0.2 : 0;
          const double gi = 0.5 * double(g[i]) + (coupled ? wd * p[i] : 0);
          m[i] = 0.9 * m[i] + 0.1 * gi;
          v[i] = 0.999 * v[i] + 0.001 * gi * gi;
          p[i] -= lr * ((coupled ? 0 : wd * p[i]) +
                        (m[i] / (1 - std::pow(0.9, t))) /
                            (std::sqrt(v[i] / (1 - std::pow(0.999, t))) + 1e-8));
        }
      }
      expect_close(run(), p, 2 * tolerance<T>(), "Adam");
      expect_thread_independent(run, "Adam");
    }
  }
}
