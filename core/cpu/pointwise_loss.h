// Mean squared error and binary logistic loss over counted elements. Semantics in core/backend.h.
#pragma once

#include "core/backend.h"

namespace longshot::cpu {

template <class T>
void pointwise_loss(const PointwiseLossArgs& args);
template <class T>
void pointwise_loss_backward(const PointwiseLossBackwardArgs& args);

}  // namespace longshot::cpu
