// Learning-rate schedules. Optimizer steps count from 0; the first step already moves (a warmup of
// 4 gives 1/4, 2/4, 3/4, 1 of the peak).
//
//   warmup         lr * (step + 1) / warmup                                   step < warmup
//   constant       lr
//   cosine         lr * (f + (1 - f) * (1 + cos(pi * u)) / 2)                 f = final_lr_fraction
//   linear         lr * (1 - (1 - f) * u)                                     u = progress after
//   warmup, 0..1 inverse_sqrt   lr * sqrt(max(warmup, 1) / (step + 1))
#pragma once

#include <cstdint>

#include "train/train_options.h"

namespace longshot {

double learning_rate(const TrainOptions& options, int64_t step);

}  // namespace longshot
