// Mean squared error and binary logistic loss: by hand, masks, extremes, gradients.
#include "core/cpu/pointwise_loss.h"

#include "tests/core/cpu/kernel_test.h"

using namespace longshot;
using namespace longshot::test;

namespace {

template <class T>
struct Problem {
  bool logistic;
  std::vector<T> x, target;
  std::vector<int32_t> mask;  // empty: none
  const double* count_override = nullptr;

  struct Result {
    T loss;
    double denominator;
  };
  Result forward() const {
    Guarded<T> loss(1);
    Guarded<double> denominator(1);
    PointwiseLossArgs args;
    args.logistic = logistic, args.n = int64_t(x.size()), args.x = x.data(),
    args.target = target.data();
    args.mask = mask.empty() ? nullptr : mask.data(), args.count_override = count_override;
    args.loss = loss.data(), args.denominator = denominator.data();
    call_kernel<T>(&Backend::pointwise_loss, args);
    return {loss.values()[0], denominator.values()[0]};
  }
  std::vector<T> backward(T dloss, const std::vector<T>* base = nullptr) const {
    const Result result = forward();
    Guarded<T> dx = base != nullptr ? Guarded<T>(*base) : Guarded<T>(int64_t(x.size()));
    PointwiseLossBackwardArgs args;
    args.logistic = logistic, args.n = int64_t(x.size()), args.x = x.data(),
    args.target = target.data();
    args.mask = mask.empty() ? nullptr : mask.data(), args.denominator = &result.denominator;
    args.dloss = &dloss, args.dx = dx.data(), args.accumulate = base != nullptr;
    call_kernel<T>(&Backend::pointwise_loss_backward, args);
    return dx.values();
  }
};

}  // namespace

TEST_CASE("pointwise losses by hand", "[loss]") {
  Problem<double> mse{false, {1, 2, 5}, {0, 4, -1}, {1, 1, 0}};
  CHECK(mse.forward().loss == 2.5);  // (1 + 4) / 2
  CHECK(mse.forward().denominator == 2);
  CHECK(mse.backward(1) == std::vector<double>{1, -2, 0});
  // log(1 + exp(0)) - 0 = ln 2; x = ln 3, t = 1: ln 4 - ln 3.
  Problem<double> logistic{true, {0, std::log(3.0)}, {0.25, 1}, {}};
  CHECK(logistic.forward().loss ==
        Approx((std::log(2.0) + std::log(4.0 / 3.0)) / 2).epsilon(1e-14));
  expect_close(logistic.backward(1), std::vector<double>{0.125, -0.125}, 1e-14, "gradient");
  const double count = 10;
  mse.count_override = &count;
  CHECK(mse.forward().loss == 0.5);
}

TEST_CASE("logistic loss neither overflows nor underflows", "[loss]") {
  Problem<float> problem{true, {1000, -1000, 1000, -1000}, {1, 0, 0, 1}, {}};
  CHECK(problem.forward().loss == 500);  // 0, 0, 1000, 1000
  CHECK(problem.backward(4) == std::vector<float>{0, 0, 1, -1});
}

TEST_CASE("pointwise losses: masked elements may be NaN, everything masked gives 0", "[loss]") {
  for (bool logistic : {false, true}) {
    Problem<float> problem{logistic, {NAN, 0.5f}, {0, 1}, {0, 1}};
    CHECK(std::isfinite(problem.forward().loss));
    CHECK(problem.backward(1)[0] == 0);
    problem.mask = {0, 0};
    CHECK(problem.forward().loss == 0);
    CHECK(problem.forward().denominator == 0);
    CHECK(problem.backward(1) == std::vector<float>{0, 0});
    Problem<float> none{logistic, {}, {}, {}};
    CHECK(none.forward().loss == 0);
  }
}

TEMPLATE_TEST_CASE("pointwise losses against double loops", "[loss]", float, double) {
  using T = TestType;
  for (bool logistic : {false, true}) {
    for (int64_t n : {1, 17, 1025, 100003}) {
      for (bool masked : {false, true}) {
        Problem<T> problem{logistic, uniform<T>(n, 1, -4, 4), uniform<T>(n, 2, 0, 1), {}};
        if (masked) {
          problem.mask = integers(n, 3, 0, 1);
          problem.mask[0] = 1;
        }
        double sum = 0, count = 0;
        std::vector<double> gradient;
        for (size_t i = 0; i < size_t(n); ++i) {
          const double x = double(problem.x[i]), t = double(problem.target[i]);
          const bool kept = !masked || problem.mask[i] != 0;
          if (kept)
            sum += logistic ? std::log1p(std::exp(x)) - t * x : (x - t) * (x - t), count += 1;
          gradient.push_back(!kept ? 0 : logistic ? 1 / (1 + std::exp(-x)) - t : 2 * (x - t));
        }
        for (double& value : gradient) value *= 100 / count;
        CHECK(problem.forward().denominator == count);
        CHECK(std::abs(double(problem.forward().loss) - sum / count) <
              tolerance<T>() * (1 + sum / count));
        expect_close(problem.backward(100), gradient, tolerance<T>(), "gradient");
        const auto base = uniform<T>(n, 4);
        expect_close(problem.backward(100, &base), added(base, gradient), tolerance<T>(),
                     "gradient added");
        expect_thread_independent([&] { return std::vector<T>{problem.forward().loss}; }, "loss");
        expect_thread_independent([&] { return problem.backward(1); }, "gradient");
      }
    }
  }
}

TEST_CASE("pointwise_loss_backward against finite differences", "[loss]") {
  for (bool logistic : {false, true}) {
    Problem<double> problem{logistic, uniform<double>(21, 1, -3, 3), uniform<double>(21, 2, 0, 1),
                            integers(21, 3, 0, 1)};
    const auto gradient = problem.backward(1.5);
    expect_gradient(
        problem.x, gradient, [&] { return 1.5 * problem.forward().loss; }, "pointwise");
  }
}
