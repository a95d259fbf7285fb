// Layer norm (Ba et al. 2016) and RMS norm (Zhang & Sennrich 2019), fused with the residual
// addition and the dropout on the residual. Semantics in core/backend.h.
#pragma once

#include "core/backend.h"

namespace longshot::cpu {

template <class T>
void norm(const NormArgs& args);
template <class T>
void norm_backward(const NormBackwardArgs& args);

}  // namespace longshot::cpu
