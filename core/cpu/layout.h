// Kernels that only move elements: permute, copy_chunks, split_heads, merge_heads, expand.
// Semantics in core/backend.h. Each destination element is written by exactly one piece.
#pragma once

#include "core/backend.h"

namespace longshot::cpu {

template <class T>
void permute(const PermuteArgs& args);
template <class T>
void copy_chunks(const CopyChunksArgs& args);
template <class T>
void split_heads(const HeadsArgs& args);
template <class T>
void merge_heads(const HeadsArgs& args);
template <class T>
void expand(const ExpandArgs& args);

}  // namespace longshot::cpu
