// Attention written as a composition of primitive operations, for what the fused kernel does not
// know: relative values (Shaw et al. 2018).
//
//   p_ij = softmax_j(row_scale_i * scale * q_i . k_j + bias_ij)        over allowed keys
//   out_i = sum_j dropout(p)_ij (v_j + r[index_ij])
//
// Makes (B, H, T, S) buffers, T the query rows given. A query with no allowed key gets 0, as in the
// fused kernel.
#pragma once

#include "core/ops.h"

namespace longshot {

struct ComposedAttentionOptions {
  double scale = 1.0;
  Tensor row_scale;   // (1 or B, T)
  Tensor bias_dense;  // (1 or B, H, T, S)
  Tensor bias_table;  // (H, 2R - 1), indexed by j - i (contiguous positions only)
  int64_t query_offset = 0;
  Tensor key_allowed;       // (B, S): 1 where the key may be seen, else 0; undefined: all
  Tensor distance_allowed;  // (2S - 1): 1 where distance j - i may be seen, else 0; undefined: all
  Tensor relative_values;   // (N, D), or undefined
  Tensor value_index;       // (T, S) or (B, T, S) i32
  DropoutSpec dropout;
};

// query (B, H, T, D), key and value (B, H, S, D) to (B, T, H * D).
Tensor composed_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                          const ComposedAttentionOptions& options);

}  // namespace longshot
