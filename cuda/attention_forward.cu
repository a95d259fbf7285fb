// Attention, forward: out_i = sum_j dropout(softmax_j(logit_ij)) v_j, streaming over the keys (Dao
// et al. 2022, FlashAttention; the running maximum is Milakov & Gimelshein 2018).
//
// A block owns 4 * kRows queries of one (batch, head) and passes over the keys 32 at a time. With
// the maximum m so far, l = sum exp(logit - m) and acc = sum exp(logit - m) v:
//   m' = max(m, tile);  l = l e^(m - m') + sum e^(logit - m');  acc likewise.
// Each lane keeps its own share of l until the end, so a tile costs one warp maximum a row.
#include "cuda/attention.cuh"

namespace longshot::cuda {
namespace {

template <int kChunks, int kRows>
__global__ void attention_forward_kernel(AttentionView view) {
  LONGSHOT_DYNAMIC_SHARED(float, shared);
  constexpr int kQueries = kAttentionWarps * kRows;
  const AttentionArgs& a = view.a;
  const int stride = view.stride, head_dim = view.head_dim;
  const int64_t queries = a.shape.queries, keys = a.shape.keys, heads = a.shape.heads;
  const int64_t tiles = (queries + kQueries - 1) / kQueries;
  const int64_t b = blockIdx.x / tiles, h = blockIdx.y;
  const int64_t query_begin = (blockIdx.x - b * tiles) * kQueries;
  const int warp = int(threadIdx.x / kWarp), lane = int(threadIdx.x % kWarp);
  const int64_t first_query = query_begin + warp * kRows, line = b * heads + h;

  float* query_tile = shared;
  float* key_tile = query_tile + kQueries * stride;
  float* value_tile = key_tile + kWarp * stride;
  float* weights = value_tile + kWarp * stride + warp * kRows * kWarp;  // this warp's (kRows, 32)

  load_tile(query_tile, static_cast<const float*>(a.query) + line * queries * head_dim, query_begin,
            queries, kQueries, head_dim, head_dim, stride);
  const DropoutDraw draw(a.dropout);
  float scale[kRows], top[kRows], sum[kRows], acc[kRows][kChunks];
  LONGSHOT_UNROLL
  for (int r = 0; r < kRows; ++r) {
    scale[r] = first_query + r < queries ? query_scale(a, b, first_query + r) : 0.0f;
    top[r] = -INFINITY;
    sum[r] = 0;
    LONGSHOT_UNROLL
    for (int k = 0; k < kChunks; ++k) acc[r][k] = 0;
  }
  int64_t key_end = keys;
  if (a.causal) key_end = min(keys, a.query_offset + query_begin + kQueries);

  for (int64_t key_begin = 0; key_begin < key_end; key_begin += kWarp) {
    __syncthreads();  // the tiles of the last round are no longer read
    const float* key = static_cast<const float*>(a.key) + line * keys * head_dim;
    const float* value = static_cast<const float*>(a.value) + line * keys * head_dim;
    load_tile(key_tile, key, key_begin, keys, kWarp, head_dim, head_dim, stride);
    load_tile(value_tile, value, key_begin, keys, kWarp, head_dim, head_dim, stride);
    __syncthreads();
    float logit[kRows];
    dot_rows<kRows>(query_tile + warp * kRows * stride, key_tile + lane * stride, stride, logit);
    const int64_t j = key_begin + lane;
    LONGSHOT_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const int64_t i = first_query + r;
      const bool allowed = attention_allowed(a, b, i, j);
      logit[r] = allowed ? scale[r] * logit[r] + attention_bias(a, b, h, i, j) : -INFINITY;
      const float next = fmaxf(top[r], warp_max(logit[r]));
      const bool any = next > -INFINITY;
      const float shrink = any ? expf(top[r] - next) : 1.0f;
      const float p = any ? expf(logit[r] - next) : 0.0f;
      top[r] = next;
      sum[r] = sum[r] * shrink + p;
      LONGSHOT_UNROLL
      for (int k = 0; k < kChunks; ++k) acc[r][k] *= shrink;
      const bool drop = draw.active && allowed;
      weights[r * kWarp + lane] = drop ? p * draw.factor(pair_index(a, b, h, i, j)) : p;
    }
    __syncwarp();
    accumulate_rows<kRows, kChunks>(weights, kWarp, 1, value_tile, kWarp, stride, acc);
  }

  LONGSHOT_UNROLL
  for (int r = 0; r < kRows; ++r) {
    const float total = warp_sum(sum[r]);
    const int64_t i = first_query + r;
    if (i >= queries) continue;
    const float inverse = total > 0 ? 1.0f / total : 0.0f;
    float* out = static_cast<float*>(a.out) + ((b * queries + i) * heads + h) * head_dim;
    LONGSHOT_UNROLL
    for (int k = 0; k < kChunks; ++k) {
      const int column = lane + k * kWarp;
      if (column < head_dim) out[column] = acc[r][k] * inverse;
    }
    if (lane == 0) {
      static_cast<float*>(a.log_sum_exp)[line * queries + i] =
          total > 0 ? top[r] + logf(total) : -INFINITY;
    }
  }
}

}  // namespace

void attention(const Context& context, const AttentionArgs& args) {
  const AttentionShape& shape = args.shape;
  LONGSHOT_CHECK(args.relative_key == nullptr, "cuda: attention takes no relative keys");
  if (shape.batch * shape.heads * shape.queries == 0) return;
  const AttentionView view{args, 0, int(shape.head_dim), attention_stride(shape.head_dim)};
  with_attention_tiles(shape.head_dim, [&](auto tiles) {
    constexpr int kChunks = decltype(tiles)::kChunks, kRows = decltype(tiles)::kRows;
    constexpr int kQueries = kAttentionWarps * kRows;
    const size_t floats = size_t(kQueries + 2 * kWarp) * size_t(view.stride) + kQueries * kWarp;
    run_attention(context, "attention", attention_forward_kernel<kChunks, kRows>,
                  shape.batch * ceil_div(shape.queries, kQueries), shape.heads,
                  floats * sizeof(float), view);
  });
}

}  // namespace longshot::cuda
