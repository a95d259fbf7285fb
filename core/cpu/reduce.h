// Sums over an axis, and the largest element of each row. Semantics in core/backend.h.
#pragma once

#include "core/backend.h"

namespace longshot::cpu {

template <class T>
void reduce(const ReduceArgs& args);
template <class T>
void argmax(const ArgmaxArgs& args);

}  // namespace longshot::cpu
