// The end of every loss: per-piece sums (double) and counts are joined by the fixed tree, then
// loss = sum / denominator, 0 where nothing was counted.
#pragma once

#include "core/cpu/pieces.h"

namespace longshot::cpu {

template <class T>
void finish_loss(double* sums, double* counts, int64_t pieces, const double* count_override,
                 void* loss, double* denominator) {
  const double sum = tree_sum(sums, pieces), count = tree_sum(counts, pieces);
  const double divisor = count_override != nullptr ? *count_override : count;
  *typed<T>(loss) = divisor == 0 ? T(0) : T(sum / divisor);
  *denominator = divisor;
}

// dloss / denominator, 0 where nothing was counted.
template <class T>
T loss_scale(const void* dloss, const double* denominator) {
  return *denominator == 0 ? T(0) : T(double(*typed<T>(dloss)) / *denominator);
}

}  // namespace longshot::cpu
