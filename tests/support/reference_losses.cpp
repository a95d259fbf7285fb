// Losses, clip and AdamW of the reference backend.

#include <algorithm>
#include <vector>

#include "tests/support/reference_array.h"
#include "tests/support/reference_backend.h"

namespace longshot::testing {

void ReferenceBackend::cross_entropy(const CrossEntropyArgs& args) {
  const ConstArray logits(args.logits, args.dtype);
  const Array log_sum_exp(args.log_sum_exp, args.dtype), row_loss(args.row_loss, args.dtype);
  const Array loss(args.loss, args.dtype);
  double total = 0, count = 0;
  for (int64_t r = 0; r < args.rows; ++r) {
    const int64_t base = r * args.columns;
    double largest = -INFINITY, sum = 0, logit_sum = 0;
    for (int64_t c = 0; c < args.columns; ++c) largest = std::max(largest, logits[base + c]);
    for (int64_t c = 0; c < args.columns; ++c) {
      sum += std::exp(logits[base + c] - largest);
      logit_sum += logits[base + c];
    }
    const double normaliser = largest + std::log(sum);
    log_sum_exp.put(r, normaliser);
    const int32_t target = args.targets[r];
    double value = 0;
    if (target >= 0) {
      value = (1.0 - args.smoothing) * (normaliser - logits[base + target]) +
              args.smoothing * (normaliser - logit_sum / double(args.columns));
      count += 1;
    }
    row_loss.put(r, value);
    total += value;
  }
  *args.denominator = args.count_override ? *args.count_override : count;
  loss.put(0, *args.denominator > 0 ? total / *args.denominator : 0.0);
}

void ReferenceBackend::cross_entropy_backward(const CrossEntropyBackwardArgs& args) {
  const ConstArray logits(args.logits, args.dtype), log_sum_exp(args.log_sum_exp, args.dtype);
  const ConstArray dloss(args.dloss, args.dtype);
  const Array dlogits(args.dlogits, args.dtype);
  const double factor = *args.denominator > 0 ? dloss[0] / *args.denominator : 0.0;
  for (int64_t r = 0; r < args.rows; ++r)
    for (int64_t c = 0; c < args.columns; ++c) {
      const int64_t i = r * args.columns + c;
      double value = 0;
      if (args.targets[r] >= 0) {
        value = std::exp(logits[i] - log_sum_exp[r]) - args.smoothing / double(args.columns);
        if (c == args.targets[r]) value -= 1.0 - args.smoothing;
      }
      dlogits.put(i, value * factor, args.accumulate);
    }
}

void ReferenceBackend::pointwise_loss(const PointwiseLossArgs& args) {
  const ConstArray x(args.x, args.dtype), target(args.target, args.dtype);
  double total = 0, count = 0;
  for (int64_t i = 0; i < args.n; ++i) {
    if (args.mask && args.mask[i] == 0) continue;
    count += 1;
    if (args.logistic)
      total += std::max(x[i], 0.0) + std::log1p(std::exp(-std::abs(x[i]))) - target[i] * x[i];
    else
      total += (x[i] - target[i]) * (x[i] - target[i]);
  }
  *args.denominator = args.count_override ? *args.count_override : count;
  Array(args.loss, args.dtype).put(0, *args.denominator > 0 ? total / *args.denominator : 0.0);
}

void ReferenceBackend::pointwise_loss_backward(const PointwiseLossBackwardArgs& args) {
  const ConstArray x(args.x, args.dtype), target(args.target, args.dtype);
  const ConstArray dloss(args.dloss, args.dtype);
  const Array dx(args.dx, args.dtype);
  const double factor = *args.denominator > 0 ? dloss[0] / *args.denominator : 0.0;
  for (int64_t i = 0; i < args.n; ++i) {
    double value =
        args.logistic ? 1.0 / (1.0 + std::exp(-x[i])) - target[i] : 2.0 * (x[i] - target[i]);
    if (args.mask && args.mask[i] == 0) value = 0;
    dx.put(i, value * factor, args.accumulate);
  }
}

void ReferenceBackend::clip(const ClipArgs& args) {
  const ConstArray gradient(args.gradient, args.dtype);
  double squares = 0;
  for (int64_t i = 0; i < args.n; ++i) squares += gradient[i] * gradient[i];
  UpdateState& update = *args.update;
  update.squared_norm = squares;
  const double norm = std::sqrt(squares);
  update.skip = !std::isfinite(squares) || args.state->target_count == 0 ? 1 : 0;
  update.scale = 1.0f;
  if (update.skip == 0 && args.max_norm > 0 && norm > args.max_norm)
    update.scale = float(args.max_norm / norm);
}

void ReferenceBackend::adam(const AdamArgs& args) {
  UpdateState& update = *args.update;
  if (update.skip != 0) {
    ++update.skipped_steps;
    return;
  }
  const ConstArray gradient(args.gradient, args.dtype);
  const Array parameter(args.parameter, args.dtype);
  const Array first(args.first_moment, args.dtype), second(args.second_moment, args.dtype);
  const double t = double(update.adam_step + 1), rate = args.state->learning_rate;
  for (int64_t i = 0; i < args.n; ++i) {
    const double decay = i < args.decayed ? args.weight_decay * parameter[i] : 0.0;
    const double g = gradient[i] * update.scale + (args.coupled ? decay : 0.0);
    first.put(i, args.beta1 * first[i] + (1.0 - args.beta1) * g);
    second.put(i, args.beta2 * second[i] + (1.0 - args.beta2) * g * g);
    const double m = first[i] / (1.0 - std::pow(args.beta1, t));
    const double v = second[i] / (1.0 - std::pow(args.beta2, t));
    const double step = m / (std::sqrt(v) + args.epsilon) + (args.coupled ? 0.0 : decay);
    parameter.put(i, parameter[i] - rate * step);
  }
  ++update.adam_step;
}

}  // namespace longshot::testing
