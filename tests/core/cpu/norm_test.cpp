// Layer norm and RMS norm, with residual and dropout: by hand, against double loops, gradients.
#include "core/cpu/norm.h"

#include <type_traits>

#include "core/cpu/dropout.h"
#include "tests/core/cpu/kernel_test.h"

using namespace longshot;
using namespace longshot::test;

namespace {

StepState training_state() {
  StepState state;
  state.seed = 11, state.step = 3, state.training = 1, state.sample_offset = 2;
  return state;
}
const StepState kState = training_state();

template <class T>
struct Problem {
  int64_t rows, columns;
  bool rms = false, with_residual = false, affine = true;
  float p = 0;
  std::vector<T> x, residual, gain, bias;

  Problem(int64_t r, int64_t c, bool is_rms, bool fused, bool has_affine, float drop)
      : rows(r), columns(c), rms(is_rms), with_residual(fused), affine(has_affine), p(drop) {
    x = uniform<T>(r * c, 1, -2, 2), residual = uniform<T>(r * c, 2);
    gain = uniform<T>(c, 3, 0.5, 1.5), bias = uniform<T>(c, 4);
  }
  DropoutSpec dropout() const {
    DropoutSpec spec;
    spec.p = p, spec.stream = 5, spec.elements_per_sample = columns, spec.state = &kState;
    return spec;
  }
  std::string name() const {
    return fmt::format("{}x{} rms {} residual {} affine {} p {}", rows, columns, rms, with_residual,
                       affine, p);
  }
  struct Result {
    std::vector<T> sum, y, mean, inverse;
  };
  Result forward() const {
    Guarded<T> y(rows * columns), sum(with_residual ? rows * columns : 0), mean(rows),
        inverse(rows);
    NormArgs args;
    args.rows = rows, args.columns = columns, args.rms = rms, args.x = x.data();
    if (with_residual) args.residual = residual.data(), args.sum = sum.data();
    args.dropout = dropout();
    if (affine) args.gain = gain.data(), args.bias = bias.data();
    args.y = y.data(), args.mean = rms ? nullptr : mean.data(),
    args.inverse_deviation = inverse.data();
    call_kernel<T>(&Backend::norm, args);
    return {with_residual ? sum.values() : x, y.values(), mean.values(), inverse.values()};
  }
  // The naive reference, in double, with the definition's two sums.
  std::vector<double> reference() const {
    std::vector<double> out;
    for (int64_t r = 0; r < rows; ++r) {
      std::vector<double> s;
      double mean = 0, square = 0;
      for (int64_t c = 0; c < columns; ++c) {
        const uint64_t element = uint64_t(r * columns + c + kState.sample_offset * columns);
        const RandomKey key{kState.seed, RandomPurpose::dropout, 5, kState.step};
        const double keep =
            p > 0 && to_unit_float(random_word(key, element)) < p ? 0 : 1 / (1 - double(p));
        s.push_back(double(x[size_t(r * columns + c)]) +
                    (with_residual ? keep * double(residual[size_t(r * columns + c)]) : 0));
        mean += s.back() / double(columns);
      }
      if (rms) mean = 0;
      for (double value : s) square += (value - mean) * (value - mean) / double(columns);
      for (int64_t c = 0; c < columns; ++c) {
        const double h = (s[size_t(c)] - mean) / std::sqrt(square + 1e-5);
        out.push_back(affine ? h * double(gain[size_t(c)]) + double(bias[size_t(c)]) : h);
      }
    }
    return out;
  }
};

struct Gradients {
  std::vector<double> dx, dresidual, dgain, dbias;
};

// start: what every gradient holds before (added to when accumulate).
template <class T>
Gradients backward(const Problem<T>& problem, const std::vector<T>& dy,
                   const std::type_identity_t<std::vector<T>>* dsum, bool accumulate,
                   std::type_identity_t<T> start = 0) {
  const auto forward = problem.forward();
  const int64_t n = problem.rows * problem.columns;
  const T fresh = accumulate ? start : T(NAN);
  Guarded<T> dx(n, fresh), dresidual(n, fresh), dgain(problem.columns, fresh),
      dbias(problem.columns, fresh);
  NormBackwardArgs args;
  args.rows = problem.rows, args.columns = problem.columns, args.rms = problem.rms;
  args.sum = forward.sum.data(), args.gain = problem.affine ? problem.gain.data() : nullptr;
  args.mean = problem.rms ? nullptr : forward.mean.data();
  args.inverse_deviation = forward.inverse.data(), args.dy = dy.data();
  args.dsum = dsum == nullptr ? nullptr : dsum->data();
  args.dropout = problem.dropout();
  args.dx = dx.data(), args.dgain = dgain.data(), args.dbias = dbias.data();
  args.dresidual = problem.with_residual ? dresidual.data() : nullptr;
  args.accumulate_dx = args.accumulate_dresidual = args.accumulate_dgain = args.accumulate_dbias =
      accumulate;
  call_kernel<T>(&Backend::norm_backward, args);
  return {widened(dx.values()), widened(dresidual.values()), widened(dgain.values()),
          widened(dbias.values())};
}

}  // namespace

TEST_CASE("layer norm by hand", "[norm]") {
  // mean 1/4, biased variance 3/16: 0.75 / sqrt(0.1875 + 1e-5) and -0.25 / the same.
  Problem<double> problem(1, 4, false, false, false, 0);
  problem.x = {1, 0, 0, 0};
  const auto result = problem.forward();
  expect_close(result.y, std::vector<double>{1.73200462, -0.57733487, -0.57733487, -0.57733487},
               5e-9, "y");
  CHECK(result.mean[0] == 0.25);
  // RMS norm of (3, 4): divided by sqrt(12.5 + 1e-5).
  Problem<double> rms(1, 2, true, false, false, 0);
  rms.x = {3, 4};
  expect_close(rms.forward().y,
               std::vector<double>{3 / std::sqrt(12.50001), 4 / std::sqrt(12.50001)}, 1e-14, "rms");
}

TEST_CASE("layer norm of a far-off row keeps its precision", "[norm]") {
  // 1e4 + (1, 0, 0, 0): the one-pass formula mean(x^2) - mean(x)^2 would lose every digit in f32.
  Problem<float> problem(1, 4, false, false, false, 0);
  problem.x = {10001, 10000, 10000, 10000};
  expect_close(problem.forward().y,
               std::vector<double>{1.73200462, -0.57733487, -0.57733487, -0.57733487}, 1e-6, "y");
}

TEMPLATE_TEST_CASE("norm against double loops", "[norm]", float, double) {
  using T = TestType;
  struct Case {
    int64_t rows, columns;
  };
  for (auto [R, C] : {Case{1, 1}, {3, 7}, {129, 64}, {67, 130}, {5, 1031}, {0, 8}, {8, 0}}) {
    for (bool rms : {false, true}) {
      for (bool fused : {false, true}) {
        for (bool affine : {false, true}) {
          const Problem<T> problem(R, C, rms, fused, affine, fused ? 0.3f : 0.0f);
          expect_close(problem.forward().y, problem.reference(), 4 * tolerance<T>(),
                       problem.name());
          expect_thread_independent([&] { return problem.forward().y; }, problem.name());
        }
      }
    }
  }
}

TEST_CASE("norm with only a gain or only a bias", "[norm]") {
  const Problem<double> plain(5, 19, false, false, false, 0), both(5, 19, false, false, true, 0);
  const auto h = plain.forward().y;
  for (bool with_gain : {true, false}) {
    Guarded<double> y(5 * 19), mean(5), inverse(5);
    NormArgs args;
    args.rows = 5, args.columns = 19, args.x = both.x.data(), args.y = y.data();
    args.mean = mean.data(), args.inverse_deviation = inverse.data();
    (with_gain ? args.gain : args.bias) = (with_gain ? both.gain : both.bias).data();
    call_kernel<double>(&Backend::norm, args);
    std::vector<double> want = h;
    for (size_t i = 0; i < want.size(); ++i) {
      want[i] = with_gain ? h[i] * both.gain[i % 19] : h[i] + both.bias[i % 19];
    }
    expect_close(y.values(), want, 1e-13, "gain or bias alone");
  }
}

TEST_CASE("norm_backward against finite differences, through y and sum, with dropout", "[norm]") {
  for (bool rms : {false, true}) {
    for (bool fused : {false, true}) {
      for (bool affine : {false, true}) {
        for (auto [R, C] : {std::pair<int64_t, int64_t>{3, 5}, {2, 17}, {1, 2}}) {
          Problem<double> problem(R, C, rms, fused, affine, fused ? 0.4f : 0.0f);
          const auto dy = uniform<double>(R * C, 7), dsum = uniform<double>(R * C, 8);
          const auto loss = [&] {
            const auto result = problem.forward();
            return dot(result.y, dy) + (fused ? dot(result.sum, dsum) : 0);
          };
          for (bool accumulate : {false, true}) {
            auto g = backward(problem, dy, fused ? &dsum : nullptr, accumulate, 0.5);
            for (auto* gradient : {&g.dx, &g.dresidual, &g.dgain, &g.dbias}) {
              if (accumulate) {
                for (double& value : *gradient) value -= 0.5;
              }
            }
            expect_gradient(problem.x, g.dx, loss, problem.name() + " dx");
            if (fused)
              expect_gradient(problem.residual, g.dresidual, loss, problem.name() + " dresidual");
            if (affine) {
              expect_gradient(problem.gain, g.dgain, loss, problem.name() + " dgain");
              expect_gradient(problem.bias, g.dbias, loss, problem.name() + " dbias");
            }
          }
        }
      }
    }
  }
}

TEST_CASE("norm_backward: f32 follows f64, bits do not depend on threads", "[norm]") {
  for (auto [R, C] : {std::pair<int64_t, int64_t>{2500, 64}, {301, 129}, {17, 1}}) {
    const Problem<float> problem(R, C, false, true, true, 0.1f);
    Problem<double> wide(R, C, false, true, true, 0.1f);
    wide.x = widened(problem.x), wide.residual = widened(problem.residual);
    wide.gain = widened(problem.gain), wide.bias = widened(problem.bias);
    const auto dy = uniform<float>(R * C, 7);
    const auto want = backward(wide, widened(dy), nullptr, false);
    const auto got = backward(problem, dy, nullptr, false);
    if (C > 1) expect_close(got.dx, want.dx, 3e-5, "dx");
    expect_close(got.dgain, want.dgain, 3e-5, "dgain");
    expect_close(got.dbias, want.dbias, 3e-5, "dbias");
    for (int which = 0; which < 4; ++which) {
      expect_thread_independent(
          [&] {
            auto g = backward(problem, dy, nullptr, false);
            return which == 0 ? g.dx : which == 1 ? g.dresidual : which == 2 ? g.dgain : g.dbias;
          },
          "norm_backward");
    }
  }
}

TEST_CASE("norm_backward: any of the gradients may be left out", "[norm]") {
  const Problem<double> problem(20, 9, false, true, true, 0.2f);
  const auto dy = uniform<double>(180, 7);
  const auto all = backward(problem, dy, nullptr, false);
  const auto forward = problem.forward();
  for (int which = 0; which < 4; ++which) {
    Guarded<double> out(which < 2 ? 180 : 9);
    NormBackwardArgs args;
    args.rows = 20, args.columns = 9, args.sum = forward.sum.data(),
    args.gain = problem.gain.data();
    args.mean = forward.mean.data(), args.inverse_deviation = forward.inverse.data(),
    args.dy = dy.data();
    args.dropout = problem.dropout();
    (which == 0   ? args.dx
     : which == 1 ? args.dresidual
     : which == 2 ? args.dgain
                  : args.dbias) = out.data();
    call_kernel<double>(&Backend::norm_backward, args);
    expect_close(out.values(),
                 which == 0   ? all.dx
                 : which == 1 ? all.dresidual
                 : which == 2 ? all.dgain
                              : all.dbias,
                 0, "one gradient alone");
  }
}
