// Softmax cross-entropy: by hand, ignored targets, smoothing, counts, gradients.
#include "core/cpu/cross_entropy.h"

#include "tests/core/cpu/kernel_test.h"

using namespace longshot;
using namespace longshot::test;

namespace {

template <class T>
struct Problem {
  int64_t rows, columns;
  std::vector<T> logits;
  std::vector<int32_t> targets;
  double smoothing = 0;
  const double* count_override = nullptr;

  struct Result {
    std::vector<T> loss, row_loss, lse;
    double denominator;
  };
  Result forward() const {
    Guarded<T> loss(1), row_loss(rows), lse(rows);
    Guarded<double> denominator(1);
    CrossEntropyArgs args;
    args.rows = rows, args.columns = columns, args.logits = logits.data(),
    args.targets = targets.data();
    args.smoothing = smoothing, args.count_override = count_override;
    args.log_sum_exp = lse.data(), args.row_loss = row_loss.data(), args.loss = loss.data();
    args.denominator = denominator.data();
    call_kernel<T>(&Backend::cross_entropy, args);
    return {loss.values(), row_loss.values(), lse.values(), denominator.values()[0]};
  }
  std::vector<T> backward(T dloss, const std::vector<T>* base = nullptr) const {
    const Result result = forward();
    Guarded<T> dlogits = base != nullptr ? Guarded<T>(*base) : Guarded<T>(rows * columns);
    CrossEntropyBackwardArgs args;
    args.rows = rows, args.columns = columns, args.logits = logits.data(),
    args.targets = targets.data();
    args.smoothing = smoothing, args.log_sum_exp = result.lse.data(),
    args.denominator = &result.denominator;
    args.dloss = &dloss, args.dlogits = dlogits.data(), args.accumulate = base != nullptr;
    call_kernel<T>(&Backend::cross_entropy_backward, args);
    return dlogits.values();
  }
};

}  // namespace

TEST_CASE("cross-entropy by hand", "[loss]") {
  // Probabilities 1/8, 2/8, 5/8: losses ln 8 for class 0 and ln 1.6 for class 2; row 2 is ignored.
  const double ln2 = std::log(2.0), ln5 = std::log(5.0), ln8 = std::log(8.0);
  Problem<double> problem{3, 3, {0, ln2, ln5, 0, ln2, ln5, 7, 8, 9}, {0, 2, -1}};
  auto result = problem.forward();
  expect_close(result.row_loss, std::vector<double>{ln8, std::log(1.6), 0}, 1e-14, "row loss");
  expect_close(result.loss, std::vector<double>{(ln8 + std::log(1.6)) / 2}, 1e-14, "loss");
  CHECK(result.denominator == 2);
  expect_close(problem.backward(1),
               std::vector<double>{-7 / 16., 2 / 16., 5 / 16., 1 / 16., 2 / 16., -3 / 16., 0, 0, 0},
               1e-14, "dlogits");

  // Smoothing 0.3: 0.7 nll + 0.3 mean of -log p, where the -log p are ln 8, ln 4, ln 1.6.
  problem.smoothing = 0.3;
  const double mean = (ln8 + std::log(4.0) + std::log(1.6)) / 3;
  result = problem.forward();
  expect_close(result.row_loss,
               std::vector<double>{0.7 * ln8 + 0.3 * mean, 0.7 * std::log(1.6) + 0.3 * mean, 0},
               1e-14, "smoothed");
  problem.smoothing = 0;
  const double count = 8;  // of the whole optimizer step
  problem.count_override = &count;
  result = problem.forward();
  expect_close(result.loss, std::vector<double>{(ln8 + std::log(1.6)) / 8}, 1e-14,
               "with a count given");
  CHECK(result.denominator == 8);
}

TEST_CASE("cross-entropy with every target ignored: loss 0, denominator 0, zero gradients",
          "[loss]") {
  Problem<float> problem{4, 5, uniform<float>(20, 1), {-1, -1, -1, -1}};
  const auto result = problem.forward();
  CHECK(result.loss[0] == 0);
  CHECK(result.denominator == 0);
  CHECK(problem.backward(1) == std::vector<float>(20, 0.0f));
  const auto base = uniform<float>(20, 2);
  CHECK(problem.backward(1, &base) == base);
  Problem<float> none{0, 5, {}, {}};
  CHECK(none.forward().loss[0] == 0);
  CHECK(none.backward(1).empty());
}

TEST_CASE("cross-entropy survives large logits", "[loss]") {
  Problem<float> problem{1, 3, {1e4f, 0, -1e4f}, {1}};
  CHECK(problem.forward().loss[0] == 1e4f);
  CHECK(problem.backward(1) == std::vector<float>{1, -1, 0});
}

TEST_CASE("cross-entropy: a class of logit -infinity has probability 0, NaN stays NaN", "[loss]") {
  const float infinity = std::numeric_limits<float>::infinity();
  for (int64_t columns : {3, 40, 400}) {
    std::vector<float> logits(size_t(columns), -infinity);
    logits[0] = logits[2] = 1.5f;
    Problem<float> problem{1, columns, logits, {2}};
    CHECK(std::abs(problem.forward().loss[0] - std::log(2.0f)) < 1e-6f);
    const auto gradient = problem.backward(1);
    CHECK(std::abs(gradient[0] - 0.5f) < 1e-6f);
    CHECK(gradient[1] == 0);
    problem.logits[1] = NAN;
    CHECK(std::isnan(problem.forward().loss[0]));
  }
}

// log softmax is -infinity - (-infinity).
TEST_CASE("cross-entropy: a row of logits -infinity has no loss, whatever its length", "[loss]") {
  const float infinity = std::numeric_limits<float>::infinity();
  for (int64_t columns : {1, 3, 8, 9, 16, 17, 40, 400}) {
    Problem<float> problem{1, columns, std::vector<float>(size_t(columns), -infinity), {0}};
    CHECK(std::isnan(problem.forward().loss[0]));
  }
}

TEMPLATE_TEST_CASE("cross-entropy against double loops", "[loss]", float, double) {
  using T = TestType;
  struct Case {
    int64_t rows, columns;
  };
  // Columns round one vector (16 of f32) and round the blocks of 32 vectors, rows round 16 and 64.
  for (auto [R, C] : {Case{1, 1},
                      {5000, 3},
                      {63, 8},
                      {66, 9},
                      {65, 16},
                      {130, 17},
                      {129, 32},
                      {20, 33},
                      {70, 256},
                      {301, 37},
                      {7, 1009},
                      {64, 128},
                      {17, 528},
                      {15, 529},
                      {3, 50021}}) {
    for (double e : {0.0, 0.1}) {
      Problem<T> problem{R, C, uniform<T>(R * C, 1, -5, 5), integers(R, 2, -1, int(C) - 1), e};
      double sum = 0, count = 0;
      std::vector<double> rows, gradient;
      std::vector<double> p(static_cast<size_t>(C));
      for (int64_t r = 0; r < R; ++r) count += problem.targets[size_t(r)] >= 0;
      for (int64_t r = 0; r < R; ++r) {
        double z = 0, mean = 0;
        const int32_t target = problem.targets[size_t(r)];
        for (int64_t c = 0; c < C; ++c) z += std::exp(double(problem.logits[size_t(r * C + c)]));
        for (int64_t c = 0; c < C; ++c) {
          p[size_t(c)] = std::exp(double(problem.logits[size_t(r * C + c)])) / z;
          mean -= std::log(p[size_t(c)]) / double(C);
          gradient.push_back(target < 0 ? 0
                                        : (p[size_t(c)] - (1 - e) * (c == target) - e / double(C)) /
                                              count * 3);
        }
        rows.push_back(target < 0 ? 0 : -(1 - e) * std::log(p[size_t(target)]) + e * mean);
        sum += rows.back();
      }
      const auto result = problem.forward();
      expect_close(result.row_loss, rows, 2 * tolerance<T>(), "row loss");
      expect_close(result.loss, std::vector<double>{count == 0 ? 0 : sum / count}, tolerance<T>(),
                   "loss");
      CHECK(result.denominator == count);
      if (count > 0) expect_close(problem.backward(3), gradient, tolerance<T>(), "dlogits");
      const auto base = uniform<T>(R * C, 4);
      if (count > 0)
        expect_close(problem.backward(3, &base), added(base, gradient), tolerance<T>(), "added");
      expect_thread_independent([&] { return problem.forward().loss; }, "loss");
      expect_thread_independent([&] { return problem.backward(1); }, "dlogits");
    }
  }
}

TEST_CASE("cross_entropy_backward against finite differences", "[loss]") {
  const double count = 5;
  for (double e : {0.0, 0.2}) {
    for (const double* override_count : {static_cast<const double*>(nullptr), &count}) {
      Problem<double> problem{
          4, 7, uniform<double>(28, 1, -2, 2), {3, -1, 0, 6}, e, override_count};
      const auto gradient = problem.backward(2.0);
      expect_gradient(
          problem.logits, gradient, [&] { return 2 * problem.forward().loss[0]; }, "cross-entropy");
    }
  }
}
