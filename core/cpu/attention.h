// Attention on the CPU, forward and backward, streaming over keys (core/backend.h says what).
//
// Dao et al. 2022, "FlashAttention": keys come in blocks; a running maximum m and sum l per query
// make the softmax exact without ever holding a row of it:
//   m' = max(m, max_j s_j),  l' = l e^(m - m') + sum_j e^(s_j - m'),  o' = o e^(m - m') + sum_j
//   e^(s_j - m') v_j
// Here vectors lie along the queries: a block of up to four vectors of queries, scores transposed
// (keys, queries). Row maxima and sums are then plain vector operations, keys and values are read
// in place, and narrow heads (8) fill the vectors as well as wide ones.
//
// Memory beyond inputs and outputs: per thread about 128 x 64 scores and a few blocks of queries;
// for the gradient of a bias table also batch x heads tables.
#pragma once

#include "core/backend.h"

namespace longshot::cpu {

// Errors: extents, null pointers, positions whose differences leave the table.
void attention(const AttentionArgs& args);
void attention_backward(const AttentionBackwardArgs& args);

// Used by both; throws when the arguments contradict each other.
void check_attention(const AttentionArgs& args);

}  // namespace longshot::cpu
