// Global-norm clip decision and AdamW (Loshchilov & Hutter 2019). Semantics in core/backend.h.
#pragma once

#include "core/backend.h"

namespace longshot::cpu {

template <class T>
void clip(const ClipArgs& args);
template <class T>
void adam(const AdamArgs& args);

}  // namespace longshot::cpu
