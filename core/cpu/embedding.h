// Row lookup in a table and its gradient, deterministic with repeated ids. Semantics in
// core/backend.h.
#pragma once

#include "core/backend.h"

namespace longshot::cpu {

template <class T>
void embedding(const EmbeddingArgs& args);
template <class T>
void embedding_backward(const EmbeddingBackwardArgs& args);

}  // namespace longshot::cpu
