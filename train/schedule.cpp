#include "train/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace longshot {

double learning_rate(const TrainOptions& options, int64_t step) {
  if (step < options.warmup) return options.lr * double(step + 1) / double(options.warmup);
  if (options.schedule == "inverse_sqrt") {
    return options.lr * std::sqrt(double(std::max<int64_t>(options.warmup, 1)) / double(step + 1));
  }
  if (options.schedule == "constant") return options.lr;
  // The last step, steps - 1, reaches the final fraction.
  const int64_t span = std::max<int64_t>(options.steps - 1 - options.warmup, 1);
  const double progress = std::min(1.0, double(step - options.warmup) / double(span));
  const double floor = options.final_lr_fraction;
  if (options.schedule == "linear") return options.lr * (1 - (1 - floor) * progress);
  return options.lr * (floor + (1 - floor) * 0.5 * (1 + std::cos(std::numbers::pi * progress)));
}

}  // namespace longshot
