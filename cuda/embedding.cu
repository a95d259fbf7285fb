// Table lookup and its gradient.
//
// The gradient sums, for every table row, the output rows that used it, without atomics and without
// sorting: a warp owns (table row, piece of the ids, 128 columns), looks through the piece's
// ids 32 at a time and adds the matching rows in order. Pieces are added in order by a second
// pass. Reading ids costs rows * count / 32 warp loads that hit the cache.
#include "cuda/device.cuh"

namespace longshot::cuda {
namespace {

constexpr int kColumnsPerLane = 4;
constexpr int kColumnsPerWarp = kColumnsPerLane * kWarp;

struct Lookup {
  int64_t columns;
  const int32_t* ids;
  const float* table;
  float* out;
  float scale;
  __device__ void operator()(int64_t i) const {
    const int64_t row = divide(i, columns);
    out[i] = scale * table[ids[row] * columns + (i - row * columns)];
  }
};

struct Gradient {
  int64_t count, rows, columns, pieces, per_piece, chunks;
  const int32_t* ids;
  const float* dout;
  float* out;  // (pieces, rows, columns)
  float scale;
  bool accumulate;
  __device__ void operator()(int64_t unit, int lane) const {
    const int64_t line = divide(unit, chunks), chunk = unit - line * chunks;
    const int64_t piece = divide(line, rows), row = line - piece * rows;
    const int64_t begin = piece * per_piece, end = min(count, begin + per_piece);
    const int64_t first = chunk * kColumnsPerWarp + lane;
    float sums[kColumnsPerLane] = {};
    for (int64_t base = begin; base < end; base += kWarp) {
      const bool hit = base + lane < end && ids[base + lane] == row;
      for (unsigned found = __ballot_sync(kAllLanes, hit); found; found &= found - 1) {
        const float* from = dout + (base + __ffs(int(found)) - 1) * columns;
        LONGSHOT_UNROLL
        for (int k = 0; k < kColumnsPerLane; ++k) {
          if (first + k * kWarp < columns) sums[k] += from[first + k * kWarp];
        }
      }
    }
    for (int k = 0; k < kColumnsPerLane; ++k) {
      const int64_t column = first + k * kWarp;
      if (column < columns) put(out, line * columns + column, scale * sums[k], accumulate);
    }
  }
};

struct AddPieces {
  int64_t n, pieces;
  const float* partial;
  float* out;
  bool accumulate;
  __device__ void operator()(int64_t i) const {
    float sum = 0;
    for (int64_t piece = 0; piece < pieces; ++piece) sum += partial[piece * n + i];
    put(out, i, sum, accumulate);
  }
};

}  // namespace

void embedding(const Context& context, const EmbeddingArgs& args) {
  map(context, "embedding", args.count * args.columns,
      Lookup{args.columns, args.ids, f32(args.table), f32(args.out), float(args.scale)});
}

void embedding_backward(const Context& context, const EmbeddingBackwardArgs& args) {
  const int64_t n = args.rows * args.columns;
  if (n == 0) return;
  int64_t pieces = std::min<int64_t>(ceil_div(args.count, 512), 64);
  pieces = std::max<int64_t>(1, std::min(pieces, kWorkspaceFloats / n));
  const bool direct = pieces == 1;
  const int64_t chunks = ceil_div(args.columns, kColumnsPerWarp);
  map_rows(context, "embedding_backward", pieces * args.rows * chunks,
           Gradient{args.count, args.rows, args.columns, pieces,
                    std::max<int64_t>(1, ceil_div(args.count, pieces)), chunks, args.ids,
                    f32(args.dout), direct ? f32(args.dtable) : context.workspace,
                    float(args.scale), direct && args.accumulate});
  if (!direct) {
    map(context, "embedding_backward", n,
        AddPieces{n, pieces, context.workspace, f32(args.dtable), args.accumulate});
  }
}

}  // namespace longshot::cuda
