// gather along the last axis and its gradient (core/backend.h). Rows are independent, so the
// scatter of the gradient needs neither atomics nor partial sums: within a row it adds in index
// order.
#pragma once

#include "core/backend.h"

namespace longshot::cpu {

template <class T>
void gather(const GatherArgs& args);
template <class T>
void gather_backward(const GatherBackwardArgs& args);

}  // namespace longshot::cpu
