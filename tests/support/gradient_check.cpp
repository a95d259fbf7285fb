#include "tests/support/gradient_check.h"

#include <algorithm>
#include <cmath>

#include "core/random.h"
#include "tests/catch.h"

namespace longshot::testing {
namespace {

double host_loss(Context& context, const std::function<std::vector<Tensor>()>& function,
                 const std::vector<std::vector<double>>& cotangents, const StepState& state) {
  const StepScope step(context);
  context.set_step_state(state);
  const NoRecordingScope off(context);
  const std::vector<Tensor> outputs = function();
  double total = 0;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::vector<double> values = outputs[i].to_doubles();
    for (size_t j = 0; j < values.size(); ++j) total += values[j] * cotangents[i][j];
  }
  return total;
}

GradientRecord* active_record = nullptr;
double least_tolerance = 0;

uint64_t cotangent_seed(uint64_t seed, size_t output) {
  return seed * 1000 + 500 + output;
}

}  // namespace

std::vector<double> random_values(int64_t n, uint64_t seed, double low, double high) {
  RandomSequence sequence({seed, RandomPurpose::test, 0, 0});
  std::vector<double> values(static_cast<size_t>(n));
  for (double& value : values) value = low + (high - low) * sequence.uniform();
  return values;
}

std::vector<int32_t> random_integers(int64_t n, uint64_t seed, int32_t low, int32_t high) {
  RandomSequence sequence({seed, RandomPurpose::test, 1, 0});
  std::vector<int32_t> values(static_cast<size_t>(n));
  for (int32_t& value : values) value = int32_t(sequence.between(low, high));
  return values;
}

Tensor random_leaf(Context& context, const Shape& shape, uint64_t seed, double low, double high) {
  Tensor leaf = context.from_doubles(random_values(shape.elements(), seed, low, high), shape,
                                     Lifetime::persistent, "leaf");
  leaf.set_requires_gradient(true);
  return leaf;
}

Tensor integers(Context& context, std::span<const int32_t> values, const Shape& shape,
                Lifetime lifetime) {
  return context.from_host<int32_t>(values, shape, lifetime, "integers");
}

void reset_gradient(const Tensor& tensor) {
  tensor.value().gradient_written = false;
}

Tensor weighted_sum(Context& context, std::span<const Tensor> outputs, uint64_t seed) {
  Tensor total;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Tensor cotangent = context.from_doubles(
        random_values(outputs[i].elements(), cotangent_seed(seed, i)), outputs[i].shape());
    const Tensor part = ops::sum(ops::mul(outputs[i], cotangent));
    total = total.defined() ? ops::add(total, part) : part;
  }
  return total;
}

Evaluation evaluate(Context& context, std::span<Tensor> leaves,
                    const std::function<std::vector<Tensor>()>& function,
                    const GradientCheckOptions& options) {
  Evaluation result;
  for (const Tensor& leaf : leaves) reset_gradient(leaf);
  const StepScope step(context);
  context.set_step_state(options.state);
  const std::vector<Tensor> outputs = function();
  for (const Tensor& output : outputs) result.outputs.push_back(output.to_doubles());
  context.tape().backward(weighted_sum(context, outputs, options.seed));
  for (const Tensor& leaf : leaves) result.gradients.push_back(leaf.gradient_to_doubles());
  return result;
}

void check_close(std::span<const double> a, std::span<const double> b, double tolerance,
                 const std::string& what) {
  INFO(what);
  REQUIRE(a.size() == b.size());
  tolerance = std::max(tolerance, least_tolerance);
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i]) continue;  // equal infinities too
    const double allowed = tolerance * std::max({1.0, std::abs(a[i]), std::abs(b[i])});
    if (std::abs(a[i] - b[i]) <= allowed) continue;
    FAIL(fmt::format("{}: element {} of {}: {:.12g} against {:.12g}, off by {:.3g}, allowed {:.3g}",
                     what, i, a.size(), a[i], b[i], std::abs(a[i] - b[i]), allowed));
  }
}

void check_equal(const Evaluation& a, const Evaluation& b, double tolerance) {
  REQUIRE(a.outputs.size() == b.outputs.size());
  REQUIRE(a.gradients.size() == b.gradients.size());
  for (size_t i = 0; i < a.outputs.size(); ++i)
    check_close(a.outputs[i], b.outputs[i], tolerance, fmt::format("output {}", i));
  for (size_t i = 0; i < a.gradients.size(); ++i)
    check_close(a.gradients[i], b.gradients[i], tolerance, fmt::format("gradient of leaf {}", i));
}

GradientRecord::GradientRecord() {
  active_record = this;
}
GradientRecord::~GradientRecord() {
  active_record = nullptr;
  least_tolerance = 0;
}
void GradientRecord::begin(double tolerance) {
  least_tolerance = tolerance;
  next_ = 0;
}
void GradientRecord::end() {
  if (least_tolerance > 0) REQUIRE(next_ == kept_.size());
}

void check_gradients(Context& context, std::span<Tensor> leaves,
                     const std::function<std::vector<Tensor>()>& function,
                     const GradientCheckOptions& options) {
  const Evaluation evaluation = evaluate(context, leaves, function, options);
  if (context.dtype() != DType::f64) {
    REQUIRE(active_record != nullptr);
    REQUIRE(active_record->next_ < active_record->kept_.size());
    check_equal(evaluation, active_record->kept_[active_record->next_++], options.tolerance);
    return;
  }
  if (active_record != nullptr) {
    active_record->kept_.push_back(evaluation);
    return;
  }
  std::vector<std::vector<double>> cotangents;
  for (size_t i = 0; i < evaluation.outputs.size(); ++i)
    cotangents.push_back(
        random_values(int64_t(evaluation.outputs[i].size()), cotangent_seed(options.seed, i)));
  for (size_t i = 0; i < leaves.size(); ++i) {
    std::vector<double> values = leaves[i].to_doubles();
    std::vector<double> numeric(values.size());
    for (size_t j = 0; j < values.size(); ++j) {
      const double kept = values[j];
      const auto loss_at = [&](double value) {
        values[j] = value;
        leaves[i].copy_from(std::span<const double>(values));
        return host_loss(context, function, cotangents, options.state);
      };
      const double high = loss_at(kept + options.step), low = loss_at(kept - options.step);
      numeric[j] = (high - low) / (2 * options.step);
      values[j] = kept;
    }
    leaves[i].copy_from(std::span<const double>(values));
    check_close(
        evaluation.gradients[i], numeric, options.tolerance,
        fmt::format("leaf {} {}: backward against differences", i, leaves[i].shape().to_string()));
  }
}

}  // namespace longshot::testing
