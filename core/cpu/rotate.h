// Rotation of lane pairs by given angles (RoPE, Su et al. 2021; xPos folds its decay into the
// tables). Semantics in core/backend.h.
#pragma once

#include "core/backend.h"

namespace longshot::cpu {

template <class T>
void rotate(const RotateArgs& args);

}  // namespace longshot::cpu
