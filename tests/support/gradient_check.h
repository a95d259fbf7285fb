// Gradient check: backward against central differences, in f64, for every element of every leaf.
//
// With y = f(leaves) and random cotangents c, L = sum c . y. The check compares dL/dleaf from one
// backward with (L(leaf + h) - L(leaf - h)) / 2h, element by element. The cotangent is dense and
// random, so a wrong entry anywhere in the Jacobian shows. Tolerance 1e-6, relative to the larger
// of 1 and the values.
//
//   Context context(backend, {.dtype = DType::f64});
//   std::vector<Tensor> leaves = {random_leaf(context, {2, 3}, 1), random_leaf(context, {3}, 2)};
//   check_gradients(context, leaves, [&] { return std::vector{ops::add(leaves[0], leaves[1])}; });
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "core/context.h"
#include "core/ops.h"

namespace longshot::testing {

struct GradientCheckOptions {
  double step = 1e-5;
  double tolerance = 1e-6;
  uint64_t seed = 1;
  StepState state{.seed = 7, .step = 3, .training = 1, .sample_offset = 0};
};

// Leaves are persistent f64 tensors that want gradients (the function reads them through its
// capture). Called outside a step: every evaluation opens its own. Fails the running test with
// leaf, element, both values.
void check_gradients(Context& context, std::span<Tensor> leaves,
                     const std::function<std::vector<Tensor>()>& function,
                     const GradientCheckOptions& options = {});

// Values from a fixed stream, uniform in [low, high).
std::vector<double> random_values(int64_t n, uint64_t seed, double low = -1, double high = 1);
std::vector<int32_t> random_integers(int64_t n, uint64_t seed, int32_t low,
                                     int32_t high);  // both included
// A persistent tensor that wants a gradient.
Tensor random_leaf(Context& context, const Shape& shape, uint64_t seed, double low = -1,
                   double high = 1);
Tensor integers(Context& context, std::span<const int32_t> values, const Shape& shape,
                Lifetime lifetime = Lifetime::persistent);

// Forgets the gradient of a persistent tensor, so that the next contribution writes.
void reset_gradient(const Tensor& tensor);

// The sum over outputs of output . cotangent, cotangents drawn from `seed`: a scalar to call
// backward on.
Tensor weighted_sum(Context& context, std::span<const Tensor> outputs, uint64_t seed);

// Outputs and leaf gradients of one evaluation, for comparing two ways to compute the same.
struct Evaluation {
  std::vector<std::vector<double>> outputs, gradients;
};
Evaluation evaluate(Context& context, std::span<Tensor> leaves,
                    const std::function<std::vector<Tensor>()>& function,
                    const GradientCheckOptions& options = {});
// Fails the running test unless all values and gradients agree within `tolerance` relative to
// max(1, |value|).
void check_equal(const Evaluation& a, const Evaluation& b, double tolerance);
void check_close(std::span<const double> a, std::span<const double> b, double tolerance,
                 const std::string& what);

// For tests in f32, where differences say little. While one lives, check_gradients called in f64
// keeps its results and checks nothing, and called in f32 compares with what the same call, counted
// from begin(), has kept. `least_tolerance` widens all comparisons.
class GradientRecord {
 public:
  GradientRecord();
  ~GradientRecord();
  GradientRecord(const GradientRecord&) = delete;
  GradientRecord& operator=(const GradientRecord&) = delete;
  void begin(double least_tolerance);
  void end();  // fails when a call is missing

 private:
  friend void check_gradients(Context&, std::span<Tensor>,
                              const std::function<std::vector<Tensor>()>&,
                              const GradientCheckOptions&);
  std::vector<Evaluation> kept_;
  size_t next_ = 0;
};

}  // namespace longshot::testing
