// Table lookup and its gradient.
//
// The gradient sums, for every table row, the output rows that used it, without atomics.
//
// Of a small table without sorting: a warp owns (table row, piece of the ids, 128 columns), looks
// through the piece's ids 32 at a time and adds the matching rows in order. Pieces are added in
// order by a second pass. Reading ids costs rows * count / 32 warp loads that hit the cache.
//
// Of a large one the places are sorted by id first, and the sorted list is cut into equal pieces,
// as on the CPU (core/cpu/embedding.cpp): a run of one id inside a piece goes straight into the
// table, one that crosses a piece's border is left in a partial row, of which a piece has at most
// two. The sort (tiles, then merges by binary search) costs count * log^2 count, the sums count *
// columns.
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

// ---- large tables ------------------------------------------------------------------------------

constexpr int64_t kScannedRows = 512;  // tables of so many rows need no sort
constexpr int64_t kTile = 256;

// An id and a place in one number: all differ, so that there is one sorted order, in which the
// places of an id ascend.
__device__ inline uint64_t sort_key(const int32_t* ids, int64_t place) {
  return uint64_t(uint32_t(ids[place])) << 32 | uint64_t(place);
}
__device__ inline int64_t id_of(uint64_t key) {
  return int64_t(key >> 32);
}
__device__ inline int64_t place_of(uint64_t key) {
  return int64_t(key & 0xFFFFFFFFu);
}

// A key's place in its tile is the number of smaller ones there.
struct SortTiles {
  int64_t count;
  const int32_t* ids;
  uint64_t* sorted;
  __device__ void operator()(int64_t i) const {
    const int64_t begin = i - i % kTile, end = min(count, begin + kTile);
    const uint64_t key = sort_key(ids, i);
    int64_t smaller = 0;
    for (int64_t j = begin; j < end; ++j) smaller += sort_key(ids, j) < key;
    sorted[begin + smaller] = key;
  }
};

// Neighbouring runs of `run` sorted keys become one: a key moves by the number of smaller ones in
// the other run.
struct MergeRuns {
  int64_t count, run;
  const uint64_t* from;
  uint64_t* to;
  __device__ void operator()(int64_t i) const {
    const int64_t begin = i - i % (2 * run), middle = min(count, begin + run);
    const bool first = i < middle;
    const int64_t other = first ? middle : begin;
    int64_t low = other, high = first ? min(count, middle + run) : middle;
    const uint64_t key = from[i];
    while (low < high) {
      const int64_t half = low + (high - low) / 2;
      if (from[half] < key) {
        low = half + 1;
      } else {
        high = half;
      }
    }
    to[i + (first ? low - other : low - middle)] = key;
  }
};

// A warp a (piece of the sorted list, 128 columns).
struct SumRuns {
  int64_t count, columns, per_piece, chunks;
  const uint64_t* sorted;
  const float* dout;
  float scale;
  float* table;
  float* partial;       // (pieces, first or last run, columns)
  int32_t* partial_id;  // (pieces, first or last run); -1: that partial is not used
  __device__ void operator()(int64_t unit, int lane) const {
    const int64_t piece = divide(unit, chunks), chunk = unit - piece * chunks;
    const int64_t begin = piece * per_piece, end = min(count, begin + per_piece);
    const int64_t first = chunk * kColumnsPerWarp + lane;
    const bool tells = chunk == 0 && lane == 0;
    int64_t slot = 2 * piece;
    if (tells) partial_id[slot] = partial_id[slot + 1] = -1;
    for (int64_t place = begin; place < end; slot = 2 * piece + 1) {
      const int64_t id = id_of(sorted[place]);
      bool crosses = place == begin && begin > 0 && id_of(sorted[begin - 1]) == id;
      float sums[kColumnsPerLane] = {};
      for (; place < end && id_of(sorted[place]) == id; ++place) {
        const float* from = dout + place_of(sorted[place]) * columns;
        LONGSHOT_UNROLL
        for (int k = 0; k < kColumnsPerLane; ++k) {
          if (first + k * kWarp < columns) sums[k] += from[first + k * kWarp];
        }
      }
      crosses = crosses || (place == end && end < count && id_of(sorted[end]) == id);
      float* row = crosses ? partial + slot * columns : table + id * columns;
      for (int k = 0; k < kColumnsPerLane; ++k) {
        const int64_t column = first + k * kWarp;
        if (column < columns) put(row, column, scale * sums[k], !crosses);
      }
      if (crosses && tells) partial_id[slot] = int32_t(id);
    }
  }
};

// The partial rows of one id, in the order of their pieces: by the thread at the first of them.
struct AddPartialRuns {
  int64_t pieces, columns;
  const float* partial;
  const int32_t* partial_id;
  float* table;
  __device__ void operator()(int64_t i) const {
    const int64_t slot = divide(i, columns), column = i - slot * columns;
    const int32_t id = partial_id[slot];
    if (id < 0) return;
    int64_t piece = slot / 2;
    if (piece > 0 && (partial_id[2 * piece - 1] == id || partial_id[2 * piece - 2] == id)) return;
    float sum = partial[slot * columns + column];
    // Where it goes on, it is the piece's first run.
    while (++piece < pieces && partial_id[2 * piece] == id) {
      sum += partial[2 * piece * columns + column];
    }
    table[id * columns + column] += sum;
  }
};

void sorted_backward(const Context& context, const EmbeddingBackwardArgs& args) {
  constexpr const char* kName = "embedding_backward";
  // Half of the workspace for two lists of keys, half for partial rows and their ids.
  constexpr int64_t kMostKeys = kWorkspaceFloats / 2 / 4;
  const int64_t columns = args.columns;
  float* table = f32(args.dtable);
  if (!args.accumulate)
    check(cudaMemsetAsync(table, 0, size_t(args.rows * columns) * sizeof(float), context.stream),
          kName);
  for (int64_t begin = 0; begin < args.count; begin += kMostKeys) {
    const int64_t count = std::min(kMostKeys, args.count - begin);
    uint64_t* sorted = reinterpret_cast<uint64_t*>(context.workspace);
    uint64_t* other = sorted + kMostKeys;
    map(context, kName, count, SortTiles{count, args.ids + begin, sorted});
    for (int64_t run = kTile; run < count; run *= 2) {
      map(context, kName, count, MergeRuns{count, run, sorted, other});
      std::swap(sorted, other);
    }
    int64_t pieces = std::min<int64_t>(ceil_div(count, 32), 512);
    pieces = std::max<int64_t>(1, std::min(pieces, kWorkspaceFloats / 2 / (2 * columns + 2)));
    const int64_t per_piece = ceil_div(count, pieces);
    pieces = ceil_div(count, per_piece);
    auto* partial_id = reinterpret_cast<int32_t*>(context.workspace + kWorkspaceFloats / 2);
    float* partial = context.workspace + kWorkspaceFloats / 2 + 2 * pieces;
    const int64_t chunks = ceil_div(columns, kColumnsPerWarp);
    map_rows(context, kName, pieces * chunks,
             SumRuns{count, columns, per_piece, chunks, sorted, f32(args.dout) + begin * columns,
                     float(args.scale), table, partial, partial_id});
    if (pieces == 1) continue;  // no border to cross
    map(context, kName, 2 * pieces * columns,
        AddPartialRuns{pieces, columns, partial, partial_id, table});
  }
}

}  // namespace

void embedding(const Context& context, const EmbeddingArgs& args) {
  map(context, "embedding", args.count * args.columns,
      Lookup{args.columns, args.ids, f32(args.table), f32(args.out), float(args.scale)});
}

void embedding_backward(const Context& context, const EmbeddingBackwardArgs& args) {
  const int64_t n = args.rows * args.columns;
  if (n == 0) return;
  if (args.rows > kScannedRows) return sorted_backward(context, args);
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
