// Two linear layers with an activation between them, forward and backward, as one kernel each
// (FeedForwardArgs in core/backend.h). For weights that fit the second-level cache.
#pragma once

#include "core/backend.h"

namespace longshot::cpu {

template <class T>
void feed_forward(const FeedForwardArgs& args);
template <class T>
void feed_forward_backward(const FeedForwardBackwardArgs& args);

}  // namespace longshot::cpu
