// Softmax cross-entropy with ignored targets and label smoothing. Semantics in core/backend.h.
#pragma once

#include "core/backend.h"

namespace longshot::cpu {

template <class T>
void cross_entropy(const CrossEntropyArgs& args);
template <class T>
void cross_entropy_backward(const CrossEntropyBackwardArgs& args);

}  // namespace longshot::cpu
