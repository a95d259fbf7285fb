// What the attention kernels share: the arguments in device form, tiles of rows in shared memory,
// dot products of a tile, the logit with its bias and mask.
//
// Layout of the work: a block has 4 warps and works on tiles of 4 * kRows rows by 32 rows. A warp
// owns kRows rows of the first tile, a lane owns one row of the second; so a thread holds kRows
// logits, and sums over the lanes are warp sums. kChunks * 32 >= head_dim is how many of a row's
// components a lane holds when rows are accumulated.
#pragma once

#include <algorithm>

#include "cuda/device.cuh"

namespace longshot::cuda {

constexpr int kAttentionWarps = 4;
constexpr int kAttentionThreads = kAttentionWarps * kWarp;

struct AttentionView {
  AttentionArgs a;
  int64_t batch_begin = 0;  // of this launch
  int head_dim = 0;
  int stride = 0;  // of a row in shared memory: padded with zeros, a multiple of 4 floats
};

// A stride of an odd number of float4 keeps 32 lanes that read one row each free of bank conflicts.
inline int attention_stride(int64_t head_dim) {
  const int quads = int(ceil_div(head_dim, 4));
  return 4 * (quads % 2 ? quads : quads + 1);
}

// Calls f with (kChunks, kRows) as integral constants. Wider heads take fewer rows a tile, so that
// up to 128 components fit the 48 KiB of shared memory that every device has.
template <int kChunksValue, int kRowsValue>
struct AttentionTiles {
  static constexpr int kChunks = kChunksValue, kRows = kRowsValue;
};
template <class F>
void with_attention_tiles(int64_t head_dim, const F& f) {
  LONGSHOT_CHECK(head_dim >= 0 && head_dim <= 256,
                 "cuda: attention: head_dim is {}, the kernels take at most 256", head_dim);
  if (head_dim <= 32) return f(AttentionTiles<1, 8>{});
  if (head_dim <= 64) return f(AttentionTiles<2, 8>{});
  if (head_dim <= 128) return f(AttentionTiles<4, 2>{});
  return f(AttentionTiles<8, 2>{});
}

// Launches an attention kernel, asking for more dynamic shared memory than the standard 48 KiB
// where the device has it.
template <class... P, class... A>
void run_attention(const Context& context, const char* name, void (*kernel)(P...), int64_t blocks,
                   int64_t heads, size_t shared_bytes, A&&... arguments) {
  if (blocks == 0 || heads == 0) return;
  LONGSHOT_CHECK(shared_bytes <= context.max_dynamic_shared,
                 "cuda: {}: this head_dim needs {} bytes of shared memory a block, the device has "
                 "{}",
                 name, shared_bytes, context.max_dynamic_shared);
  if (shared_bytes > (48 << 10)) {
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               int(shared_bytes)),
          name);
  }
  run(context, name, kernel, dim3(unsigned(blocks), unsigned(heads)), dim3(kAttentionThreads),
      shared_bytes, std::forward<A>(arguments)...);
}

// Rows [begin, begin + count) of an array whose rows are `row_stride` apart, zero beyond `rows`.
__device__ inline void load_tile(float* tile, const float* source, int64_t begin, int64_t rows,
                                 int count, int head_dim, int64_t row_stride, int stride) {
  for (int i = int(threadIdx.x); i < count * stride; i += kAttentionThreads) {
    const int row = i / stride, d = i - row * stride;
    const bool inside = begin + row < rows && d < head_dim;
    tile[i] = inside ? source[(begin + row) * row_stride + d] : 0.0f;
  }
}

__device__ inline float4 load4(const float* p) {
  return *reinterpret_cast<const float4*>(p);
}

// out[r] = rows[r] . column, both in shared memory.
template <int kRows>
__device__ inline void dot_rows(const float* rows, const float* column, int stride,
                                float (&out)[kRows]) {
  LONGSHOT_UNROLL
  for (int r = 0; r < kRows; ++r) out[r] = 0;
  for (int d = 0; d < stride; d += 4) {
    const float4 c = load4(column + d);
    LONGSHOT_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const float4 v = load4(rows + r * stride + d);
      out[r] += v.x * c.x + v.y * c.y + v.z * c.z + v.w * c.w;
    }
  }
}

// acc[r][k] += sum over i < count of weights[r * weight_row + i * weight_step] * rows[i][column],
// column = lane + 32 k.
template <int kRows, int kChunks>
__device__ inline void accumulate_rows(const float* weights, int weight_row, int weight_step,
                                       const float* rows, int count, int stride,
                                       float (&acc)[kRows][kChunks]) {
  const int lane = int(threadIdx.x % kWarp);
  if (lane >= stride) return;
  for (int i = 0; i < count; ++i) {
    float value[kChunks];
    LONGSHOT_UNROLL
    for (int k = 0; k < kChunks; ++k) {
      const int column = lane + k * kWarp;
      value[k] = column < stride ? rows[i * stride + column] : 0.0f;
    }
    LONGSHOT_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const float weight = weights[r * weight_row + i * weight_step];
      LONGSHOT_UNROLL
      for (int k = 0; k < kChunks; ++k) acc[r][k] += weight * value[k];
    }
  }
}

__device__ inline float query_scale(const AttentionArgs& a, int64_t b, int64_t i) {
  const float scale = float(a.scale);
  if (!a.row_scale) return scale;
  const int64_t at = (a.row_scale_batches == 1 ? 0 : b) * a.shape.queries + i;
  return scale * static_cast<const float*>(a.row_scale)[at];
}

// position_k[j] - position_q[i]
__device__ inline int64_t position_difference(const AttentionArgs& a, int64_t b, int64_t i,
                                              int64_t j) {
  if (!a.position_q) return j - (a.query_offset + i);
  const int64_t batch = a.position_batches == 1 ? 0 : b;
  return int64_t(a.position_k[batch * a.shape.keys + j]) -
         a.position_q[batch * a.shape.queries + i];
}

__device__ inline bool attention_allowed(const AttentionArgs& a, int64_t b, int64_t i, int64_t j) {
  if (i >= a.shape.queries || j >= a.shape.keys) return false;
  if (a.causal && j > a.query_offset + i) return false;
  return !a.key_mask || a.key_mask[b * a.shape.keys + j] != 0;
}

// The bias of an allowed pair.
__device__ inline float attention_bias(const AttentionArgs& a, int64_t b, int64_t h, int64_t i,
                                       int64_t j) {
  float bias = 0;
  if (a.bias_table) {
    const int64_t d = position_difference(a, b, i, j);
    if (d > -a.reach && d < a.reach) {
      bias += static_cast<const float*>(a.bias_table)[h * (2 * a.reach - 1) + a.reach - 1 + d];
    }
  }
  if (a.bias_dense) {
    const int64_t line = (a.dense_batches == 1 ? 0 : b) * a.shape.heads + h;
    bias +=
        static_cast<const float*>(a.bias_dense)[(line * a.shape.queries + i) * a.shape.keys + j];
  }
  return bias;
}

__device__ inline int64_t pair_index(const AttentionArgs& a, int64_t b, int64_t h, int64_t i,
                                     int64_t j) {
  return ((b * a.shape.heads + h) * a.shape.queries + i) * a.shape.keys + j;
}

// The backward pass of one tile of pairs: with dP = dO . V and delta = dO . O,
//   P = exp(logit - log_sum_exp),  dS = P (dropout factor * dP - delta),  dropped = factor * P.
// `rows` are this warp's first query and dO rows; the lane's key is j.
template <int kRows>
__device__ inline void attention_gradient_tile(const AttentionArgs& a, int stride, int64_t b,
                                               int64_t h, int64_t first_query, int64_t j,
                                               const float* query_rows, const float* dout_rows,
                                               const float* key_row, const float* value_row,
                                               const float* delta, const DropoutDraw& draw,
                                               float (&dropped)[kRows], float (&ds)[kRows]) {
  float dot[kRows], dp[kRows];
  dot_rows<kRows>(query_rows, key_row, stride, dot);
  dot_rows<kRows>(dout_rows, value_row, stride, dp);
  const int64_t line = (b * a.shape.heads + h) * a.shape.queries;
  const float* log_sum_exp = static_cast<const float*>(a.log_sum_exp);
  LONGSHOT_UNROLL
  for (int r = 0; r < kRows; ++r) {
    const int64_t i = first_query + r;
    dropped[r] = ds[r] = 0;
    if (!attention_allowed(a, b, i, j)) continue;
    const float lse = log_sum_exp[line + i];
    if (!(lse > -INFINITY)) continue;
    const float logit = query_scale(a, b, i) * dot[r] + attention_bias(a, b, h, i, j);
    const float p = expf(logit - lse), factor = draw.factor(pair_index(a, b, h, i, j));
    dropped[r] = p * factor;
    ds[r] = p * (dp[r] * factor - delta[line + i]);
  }
}

}  // namespace longshot::cuda
