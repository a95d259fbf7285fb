// Attention, backward, for the two forms of bias: dbias_ij = dS_ij (see attention_backward.cu).
//
// Dense (1 or B, H, T, S): a block owns a tile of pairs and, where the bias is shared by the batch,
//   adds the sequences in order.
// Table (H, 2 R - 1): entries d = position_j - position_i. A warp owns a whole partial table and
// adds
//   its rows 32 keys at a time; equal differences within those are summed in lane order. The
//   partial tables are added in order by a last pass.
#include "cuda/attention.cuh"

namespace longshot::cuda {
namespace {

// Tiles of one block: query and dO rows, then key and value rows.
template <int kRows>
struct GradientTiles {
  static constexpr int kQueries = kAttentionWarps * kRows;
  float *query, *dout, *key, *value;
  __device__ GradientTiles(float* shared, int stride) {
    query = shared;
    dout = query + kQueries * stride;
    key = dout + kQueries * stride;
    value = key + kWarp * stride;
  }
  __device__ void load_queries(const AttentionView& view, const float* all_dout, int64_t b,
                               int64_t h, int64_t begin) {
    const AttentionShape& s = view.a.shape;
    const int64_t line = b * s.heads + h;
    load_tile(query, static_cast<const float*>(view.a.query) + line * s.queries * s.head_dim, begin,
              s.queries, kQueries, view.head_dim, s.head_dim, view.stride);
    load_tile(dout, all_dout + (b * s.queries * s.heads + h) * s.head_dim, begin, s.queries,
              kQueries, view.head_dim, s.heads * s.head_dim, view.stride);
  }
  __device__ void load_keys(const AttentionView& view, int64_t b, int64_t h, int64_t begin) {
    const AttentionShape& s = view.a.shape;
    const int64_t base = (b * s.heads + h) * s.keys * s.head_dim;
    load_tile(key, static_cast<const float*>(view.a.key) + base, begin, s.keys, kWarp,
              view.head_dim, s.head_dim, view.stride);
    load_tile(value, static_cast<const float*>(view.a.value) + base, begin, s.keys, kWarp,
              view.head_dim, s.head_dim, view.stride);
  }
  __device__ void gradient(const AttentionView& view, int64_t b, int64_t h, int64_t query_begin,
                           int64_t key_begin, const float* delta, const DropoutDraw& draw,
                           float (&ds)[kRows]) const {
    const int warp = int(threadIdx.x / kWarp), lane = int(threadIdx.x % kWarp);
    const int row = warp * kRows * view.stride;
    float dropped[kRows];
    attention_gradient_tile<kRows>(
        view.a, view.stride, b, h, query_begin + warp * kRows, key_begin + lane, query + row,
        dout + row, key + lane * view.stride, value + lane * view.stride, delta, draw, dropped, ds);
  }
};

// grid: x = (batch or 1) * query tiles * key tiles, y = heads
template <int kRows>
__global__ void attention_dense_kernel(AttentionView view, int64_t batches, const float* dout,
                                       const float* delta, float* dbias, bool accumulate) {
  LONGSHOT_DYNAMIC_SHARED(float, shared);
  constexpr int kQueries = kAttentionWarps * kRows;
  const AttentionShape& s = view.a.shape;
  const int64_t query_tiles = (s.queries + kQueries - 1) / kQueries;
  const int64_t key_tiles = (s.keys + kWarp - 1) / kWarp;
  const int64_t line = blockIdx.x / key_tiles, own = line / query_tiles;
  const int64_t key_begin = (blockIdx.x - line * key_tiles) * kWarp;
  const int64_t query_begin = (line - own * query_tiles) * kQueries, h = blockIdx.y;
  GradientTiles<kRows> tiles(shared, view.stride);
  const DropoutDraw draw(view.a.dropout);
  float sums[kRows] = {};
  for (int64_t n = 0; n < batches; ++n) {
    const int64_t b = view.batch_begin + own + n;
    __syncthreads();
    tiles.load_queries(view, dout, b, h, query_begin);
    tiles.load_keys(view, b, h, key_begin);
    __syncthreads();
    float ds[kRows];
    tiles.gradient(view, b, h, query_begin, key_begin, delta, draw, ds);
    LONGSHOT_UNROLL
    for (int r = 0; r < kRows; ++r) sums[r] += ds[r];
  }
  const int64_t j = key_begin + threadIdx.x % kWarp;
  const int64_t first = query_begin + threadIdx.x / kWarp * kRows;
  const int64_t matrix = (view.a.dense_batches == 1 ? 0 : view.batch_begin + own) * s.heads + h;
  for (int r = 0; r < kRows; ++r) {
    if (first + r >= s.queries || j >= s.keys) continue;
    put(dbias, (matrix * s.queries + first + r) * s.keys + j, sums[r], accumulate);
  }
}

// grid: x = pieces of the (sequence, query tile) items, y = some heads, from first_head on.
// partial (pieces, 4 warps, these heads, 2 R - 1)
template <int kRows>
__global__ void attention_table_kernel(AttentionView view, int64_t batches, int64_t per_piece,
                                       int64_t first_head, const float* dout, const float* delta,
                                       float* partial) {
  LONGSHOT_DYNAMIC_SHARED(float, shared);
  constexpr int kQueries = kAttentionWarps * kRows;
  const AttentionArgs& a = view.a;
  const AttentionShape& s = a.shape;
  const int64_t entries = 2 * a.reach - 1, h = first_head + blockIdx.y;
  const int warp = int(threadIdx.x / kWarp), lane = int(threadIdx.x % kWarp);
  float* table =
      partial + ((int64_t(blockIdx.x) * kAttentionWarps + warp) * gridDim.y + blockIdx.y) * entries;
  for (int64_t e = lane; e < entries; e += kWarp) table[e] = 0;
  __syncwarp();
  const int64_t query_tiles = (s.queries + kQueries - 1) / kQueries;
  const int64_t begin = blockIdx.x * per_piece;
  const int64_t end = min(batches * query_tiles, begin + per_piece);
  GradientTiles<kRows> tiles(shared, view.stride);
  const DropoutDraw draw(a.dropout);
  for (int64_t item = begin; item < end; ++item) {
    const int64_t local = item / query_tiles, b = view.batch_begin + local;
    const int64_t query_begin = (item - local * query_tiles) * kQueries;
    int64_t key_end = s.keys;
    if (a.causal) key_end = min(s.keys, a.query_offset + query_begin + kQueries);
    for (int64_t key_begin = 0; key_begin < key_end; key_begin += kWarp) {
      __syncthreads();
      if (key_begin == 0) tiles.load_queries(view, dout, b, h, query_begin);
      tiles.load_keys(view, b, h, key_begin);
      __syncthreads();
      float ds[kRows];
      tiles.gradient(view, b, h, query_begin, key_begin, delta, draw, ds);
      const int64_t j = key_begin + lane;
      for (int r = 0; r < kRows; ++r) {
        const int64_t i = query_begin + warp * kRows + r;
        if (i >= s.queries) break;  // the same for all lanes
        const bool allowed = attention_allowed(a, b, i, j);
        const int64_t d = allowed ? position_difference(a, b, i, j) : 0;
        const bool inside = allowed && d > -a.reach && d < a.reach;
        warp_scatter_add(table, a.reach - 1 + d, ds[r], inside, a.position_q == nullptr);
      }
    }
  }
}

struct AddTables {
  int64_t n, tables;
  const float* partial;
  float* out;
  bool accumulate;
  __device__ void operator()(int64_t i) const {
    float sum = 0;
    for (int64_t table = 0; table < tables; ++table) sum += partial[table * n + i];
    put(out, i, sum, accumulate);
  }
};

template <int kRows>
void dense(const Context& context, const AttentionBackwardArgs& args, const AttentionView& view,
           int64_t count, const float* delta, bool accumulate) {
  constexpr int kQueries = kAttentionWarps * kRows;
  const AttentionShape& s = args.forward.shape;
  const bool shared_by_batch = args.forward.dense_batches == 1;
  const int64_t tiles = ceil_div(s.queries, kQueries) * ceil_div(s.keys, kWarp);
  run_attention(context, "attention_backward dense bias", attention_dense_kernel<kRows>,
                (shared_by_batch ? 1 : count) * tiles, s.heads,
                size_t(2 * kQueries + 2 * kWarp) * size_t(view.stride) * sizeof(float), view,
                shared_by_batch ? count : int64_t(1), f32(args.dout), delta, f32(args.dbias_dense),
                args.accumulate_dbias_dense || (shared_by_batch && accumulate));
}

template <int kRows>
void table(const Context& context, const AttentionBackwardArgs& args, const AttentionView& view,
           int64_t count, const float* delta, bool accumulate) {
  constexpr int kQueries = kAttentionWarps * kRows;
  const AttentionShape& s = args.forward.shape;
  const int64_t entries = 2 * args.forward.reach - 1;
  float* partial = context.workspace + kWorkspaceFloats / 2;
  const int64_t tables = kWorkspaceFloats / 2 / (kAttentionWarps * std::max<int64_t>(1, entries));
  LONGSHOT_CHECK(tables >= 1 || s.heads == 0,
                 "cuda: attention_backward: a bias table of {} distances is too large", entries);
  // As many heads at once as the workspace has tables for.
  for (int64_t first = 0; first < s.heads; first += tables) {
    const int64_t heads = std::min(tables, s.heads - first), n = heads * entries;
    const int64_t items = count * ceil_div(s.queries, kQueries);
    const int64_t pieces = std::max<int64_t>(1, std::min({items, tables / heads, int64_t(128)}));
    run_attention(context, "attention_backward bias table", attention_table_kernel<kRows>, pieces,
                  heads, size_t(2 * kQueries + 2 * kWarp) * size_t(view.stride) * sizeof(float),
                  view, count, std::max<int64_t>(1, ceil_div(items, pieces)), first, f32(args.dout),
                  delta, partial);
    map(context, "attention_backward bias table", n,
        AddTables{n, pieces * kAttentionWarps, partial, f32(args.dbias_table) + first * entries,
                  args.accumulate_dbias_table || accumulate});
  }
}

}  // namespace

void attention_bias_backward(const Context& context, const AttentionBackwardArgs& args,
                             int64_t batch_begin, int64_t batch_count, const float* delta,
                             bool accumulate) {
  const int64_t head_dim = args.forward.shape.head_dim;
  const AttentionView view{args.forward, batch_begin, int(head_dim), attention_stride(head_dim)};
  with_attention_tiles(head_dim, [&](auto tiles) {
    constexpr int kRows = decltype(tiles)::kRows;
    if (args.dbias_dense) dense<kRows>(context, args, view, batch_count, delta, accumulate);
    if (args.dbias_table) table<kRows>(context, args, view, batch_count, delta, accumulate);
  });
}

}  // namespace longshot::cuda
