// Attention, backward, for query, key and value. With s_ij the logits, c_i = scale * row_scale[i],
// P = softmax(s), M the dropout factors and delta_i = dO_i . O_i (= sum_j P_ij M_ij dP_ij):
//   dV_j = sum_i M_ij P_ij dO_i
//   dS_ij = P_ij (M_ij (dO_i . v_j) - delta_i)
//   dQ_i = sum_j c_i dS_ij k_j,   dK_j = sum_i c_i dS_ij q_i
// Logits are computed again from q and k (no T x S buffer). One kernel owns query rows and passes
// over the keys, one owns keys and passes over the queries: every sum has one owner and a fixed
// order.
#include "cuda/attention.cuh"

namespace longshot::cuda {
namespace {

// delta[b, h, i] = dO . O, a warp a row of the merged (B, T, H, D) arrays.
struct Delta {
  int64_t heads, queries, head_dim, first_row;
  const float *out, *dout;
  float* delta;
  __device__ void operator()(int64_t local, int lane) const {
    const int64_t row = first_row + local, base = row * head_dim;
    float sum = 0;
    for (int64_t d = lane; d < head_dim; d += kWarp) sum += out[base + d] * dout[base + d];
    sum = warp_sum(sum);
    const int64_t bt = divide(row, heads), h = row - bt * heads;
    const int64_t b = divide(bt, queries), i = bt - b * queries;
    if (lane == 0) delta[(b * heads + h) * queries + i] = sum;
  }
};

template <int kChunks, int kRows>
__global__ void attention_query_kernel(AttentionView view, AttentionBackwardArgs g,
                                       const float* delta) {
  LONGSHOT_DYNAMIC_SHARED(float, shared);
  constexpr int kQueries = kAttentionWarps * kRows;
  const AttentionArgs& a = view.a;
  const int stride = view.stride, head_dim = view.head_dim;
  const int64_t queries = a.shape.queries, keys = a.shape.keys, heads = a.shape.heads;
  const int64_t tiles = (queries + kQueries - 1) / kQueries, batch = blockIdx.x / tiles;
  const int64_t b = view.batch_begin + batch, h = blockIdx.y, line = b * heads + h;
  const int64_t query_begin = (blockIdx.x - batch * tiles) * kQueries;
  const int warp = int(threadIdx.x / kWarp), lane = int(threadIdx.x % kWarp);
  const int64_t first_query = query_begin + warp * kRows;

  float* query_tile = shared;
  float* dout_tile = query_tile + kQueries * stride;
  float* key_tile = dout_tile + kQueries * stride;
  float* value_tile = key_tile + kWarp * stride;
  float* weights = value_tile + kWarp * stride + warp * kRows * kWarp;

  load_tile(query_tile, static_cast<const float*>(a.query) + line * queries * head_dim, query_begin,
            queries, kQueries, head_dim, head_dim, stride);
  load_tile(dout_tile, static_cast<const float*>(g.dout) + (b * queries * heads + h) * head_dim,
            query_begin, queries, kQueries, head_dim, heads * head_dim, stride);
  const DropoutDraw draw(a.dropout);
  float acc[kRows][kChunks] = {};
  int64_t key_end = keys;
  if (a.causal) key_end = min(keys, a.query_offset + query_begin + kQueries);
  for (int64_t key_begin = 0; key_begin < key_end; key_begin += kWarp) {
    __syncthreads();
    load_tile(key_tile, static_cast<const float*>(a.key) + line * keys * head_dim, key_begin, keys,
              kWarp, head_dim, head_dim, stride);
    load_tile(value_tile, static_cast<const float*>(a.value) + line * keys * head_dim, key_begin,
              keys, kWarp, head_dim, head_dim, stride);
    __syncthreads();
    float dropped[kRows], ds[kRows];
    attention_gradient_tile<kRows>(a, stride, b, h, first_query, key_begin + lane,
                                   query_tile + warp * kRows * stride,
                                   dout_tile + warp * kRows * stride, key_tile + lane * stride,
                                   value_tile + lane * stride, delta, draw, dropped, ds);
    LONGSHOT_UNROLL
    for (int r = 0; r < kRows; ++r) weights[r * kWarp + lane] = ds[r];
    __syncwarp();
    accumulate_rows<kRows, kChunks>(weights, kWarp, 1, key_tile, kWarp, stride, acc);
  }
  LONGSHOT_UNROLL
  for (int r = 0; r < kRows; ++r) {
    const int64_t i = first_query + r;
    if (i >= queries) continue;
    const float scale = query_scale(a, b, i);
    float* dquery = static_cast<float*>(g.dquery) + (line * queries + i) * head_dim;
    LONGSHOT_UNROLL
    for (int k = 0; k < kChunks; ++k) {
      const int column = lane + k * kWarp;
      if (column < head_dim) put(dquery, column, scale * acc[r][k], g.accumulate_dquery);
    }
  }
}

// A block owns 32 keys; a warp owns 8 of them when rows are accumulated.
template <int kChunks, int kRows>
__global__ void attention_key_kernel(AttentionView view, AttentionBackwardArgs g,
                                     const float* delta) {
  LONGSHOT_DYNAMIC_SHARED(float, shared);
  constexpr int kQueries = kAttentionWarps * kRows, kKeys = kWarp / kAttentionWarps;
  const AttentionArgs& a = view.a;
  const int stride = view.stride, head_dim = view.head_dim;
  const int64_t queries = a.shape.queries, keys = a.shape.keys, heads = a.shape.heads;
  const int64_t tiles = (keys + kWarp - 1) / kWarp, batch = blockIdx.x / tiles;
  const int64_t b = view.batch_begin + batch, h = blockIdx.y, line = b * heads + h;
  const int64_t key_begin = (blockIdx.x - batch * tiles) * kWarp;
  const int warp = int(threadIdx.x / kWarp), lane = int(threadIdx.x % kWarp);

  float* query_tile = shared;
  float* dout_tile = query_tile + kQueries * stride;
  float* key_tile = dout_tile + kQueries * stride;
  float* value_tile = key_tile + kWarp * stride;
  float* dropped_tile = value_tile + kWarp * stride;  // (kQueries, 32)
  float* ds_tile = dropped_tile + kQueries * kWarp;   // (kQueries, 32), times c_i

  load_tile(key_tile, static_cast<const float*>(a.key) + line * keys * head_dim, key_begin, keys,
            kWarp, head_dim, head_dim, stride);
  load_tile(value_tile, static_cast<const float*>(a.value) + line * keys * head_dim, key_begin,
            keys, kWarp, head_dim, head_dim, stride);
  const DropoutDraw draw(a.dropout);
  float dkey[kKeys][kChunks] = {}, dvalue[kKeys][kChunks] = {};
  // Causal: queries before key_begin see none of these keys.
  int64_t start = 0;
  if (a.causal && key_begin > a.query_offset) {
    start = (key_begin - a.query_offset) / kQueries * kQueries;
  }
  for (int64_t query_begin = start; query_begin < queries; query_begin += kQueries) {
    __syncthreads();
    load_tile(query_tile, static_cast<const float*>(a.query) + line * queries * head_dim,
              query_begin, queries, kQueries, head_dim, head_dim, stride);
    load_tile(dout_tile, static_cast<const float*>(g.dout) + (b * queries * heads + h) * head_dim,
              query_begin, queries, kQueries, head_dim, heads * head_dim, stride);
    __syncthreads();
    float dropped[kRows], ds[kRows];
    const int64_t first_query = query_begin + warp * kRows;
    attention_gradient_tile<kRows>(a, stride, b, h, first_query, key_begin + lane,
                                   query_tile + warp * kRows * stride,
                                   dout_tile + warp * kRows * stride, key_tile + lane * stride,
                                   value_tile + lane * stride, delta, draw, dropped, ds);
    LONGSHOT_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const int64_t i = first_query + r;
      const float scale = i < queries ? query_scale(a, b, i) : 0.0f;
      dropped_tile[(warp * kRows + r) * kWarp + lane] = dropped[r];
      ds_tile[(warp * kRows + r) * kWarp + lane] = ds[r] * scale;
    }
    __syncthreads();
    const int column = warp * kKeys;  // this warp's first key
    accumulate_rows<kKeys, kChunks>(dropped_tile + column, 1, kWarp, dout_tile, kQueries, stride,
                                    dvalue);
    accumulate_rows<kKeys, kChunks>(ds_tile + column, 1, kWarp, query_tile, kQueries, stride, dkey);
  }
  LONGSHOT_UNROLL
  for (int r = 0; r < kKeys; ++r) {
    const int64_t j = key_begin + warp * kKeys + r;
    if (j >= keys) continue;
    const int64_t base = (line * keys + j) * head_dim;
    LONGSHOT_UNROLL
    for (int k = 0; k < kChunks; ++k) {
      const int column = lane + k * kWarp;
      if (column >= head_dim) continue;
      if (g.dkey) {
        put(static_cast<float*>(g.dkey), base + column, dkey[r][k], g.accumulate_dkey);
      }
      if (g.dvalue) {
        put(static_cast<float*>(g.dvalue), base + column, dvalue[r][k], g.accumulate_dvalue);
      }
    }
  }
}

}  // namespace

void attention_backward(const Context& context, const AttentionBackwardArgs& args) {
  const AttentionShape& shape = args.forward.shape;
  // delta takes the front of the workspace, partial bias tables the rest; a large batch is worked
  // through in groups that fit. Without queries or keys every gradient is 0.
  const int64_t rows = shape.heads * shape.queries;
  LONGSHOT_CHECK(args.forward.relative_key == nullptr,
                 "cuda: attention_backward takes no relative keys");
  LONGSHOT_CHECK(rows <= kWorkspaceFloats / 2,
                 "cuda: attention_backward: {} heads times {} queries are more than {}",
                 shape.heads, shape.queries, kWorkspaceFloats / 2);
  const int64_t group = std::max<int64_t>(1, kWorkspaceFloats / 2 / std::max<int64_t>(1, rows));
  AttentionView view{args.forward, 0, int(shape.head_dim), attention_stride(shape.head_dim)};
  for (int64_t begin = 0; begin < shape.batch; begin += group) {
    const int64_t count = std::min(group, shape.batch - begin);
    view.batch_begin = begin;
    // Indexed with the whole batch's index, so the pointer is moved back.
    float* delta = context.workspace - begin * rows;
    map_rows(context, "attention_backward", count * rows,
             Delta{shape.heads, shape.queries, shape.head_dim, begin * rows, f32(args.forward.out),
                   f32(args.dout), delta});
    with_attention_tiles(shape.head_dim, [&](auto tiles) {
      constexpr int kChunks = decltype(tiles)::kChunks, kRows = decltype(tiles)::kRows;
      constexpr int kQueries = kAttentionWarps * kRows;
      const size_t rows_floats = size_t(2 * kQueries + 2 * kWarp) * size_t(view.stride);
      if (args.dquery) {
        run_attention(context, "attention_backward query", attention_query_kernel<kChunks, kRows>,
                      count * ceil_div(shape.queries, kQueries), shape.heads,
                      (rows_floats + kQueries * kWarp) * sizeof(float), view, args,
                      static_cast<const float*>(delta));
      }
      if (args.dkey || args.dvalue) {
        run_attention(context, "attention_backward key", attention_key_kernel<kChunks, kRows>,
                      count * ceil_div(shape.keys, kWarp), shape.heads,
                      (rows_floats + 2 * kQueries * kWarp) * sizeof(float), view, args,
                      static_cast<const float*>(delta));
      }
    });
    attention_bias_backward(context, args, begin, count, delta, begin > 0);
  }
}

}  // namespace longshot::cuda
