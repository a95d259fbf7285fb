// Arithmetic between arrays: affine, binary (equal shapes or a repeated suffix), scale_rows.
// Semantics in core/backend.h.
#pragma once

#include "core/backend.h"

namespace longshot::cpu {

template <class T>
void affine(const AffineArgs& args);
template <class T>
void binary(const BinaryArgs& args);
template <class T>
void scale_rows(const ScaleRowsArgs& args);

}  // namespace longshot::cpu
