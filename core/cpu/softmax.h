// Softmax and log-softmax over the last axis, and their gradients. Semantics in core/backend.h.
// A row of nothing but -inf gives 0 everywhere (-inf for the logarithm) instead of NaN.
#pragma once

#include "core/backend.h"

namespace longshot::cpu {

template <class T>
void softmax(const SoftmaxArgs& args);
template <class T>
void softmax_backward(const SoftmaxBackwardArgs& args);

}  // namespace longshot::cpu
