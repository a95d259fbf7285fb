// Unary functions, their gradients, and the activation gradient fused with the bias gradient.
// Semantics in core/backend.h; formulas in core/cpu/activation_math.h.
#pragma once

#include "core/backend.h"

namespace longshot::cpu {

template <class T>
void unary(const UnaryArgs& args);
template <class T>
void unary_backward(const UnaryBackwardArgs& args);
template <class T>
void activation_backward(const ActivationBackwardArgs& args);

}  // namespace longshot::cpu
