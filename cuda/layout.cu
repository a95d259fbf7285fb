// Moving data without arithmetic: heads split and merged, axes permuted, chunks copied, columns
// gathered by index, with their gradients.
#include "cuda/device.cuh"

namespace longshot::cuda {
namespace {

// merged (B, T, parts, H, D) <-> part (B, H, T, D), a thread an element of `merged`.
struct HeadsMap {
  int64_t length, heads, head_dim;
  int parts;
  bool split, accumulate;
  float* merged;
  float* part[3];
  __device__ void operator()(int64_t i) const {
    int64_t rest = divide(i, head_dim);
    const int64_t d = i - rest * head_dim;
    int64_t next = divide(rest, heads);
    const int64_t h = rest - next * heads;
    rest = divide(next, parts);
    const int which = int(next - rest * parts);
    const int64_t b = divide(rest, length), t = rest - b * length;
    const int64_t at = ((b * heads + h) * length + t) * head_dim + d;
    float* other = which == 0 ? part[0] : which == 1 ? part[1] : part[2];
    if (split) {
      if (other) put(other, at, merged[i], accumulate);
    } else {
      put(merged, i, other ? other[at] : 0.0f, accumulate);
    }
  }
};

struct PermuteMap {
  int rank;
  int64_t extent[Shape::kMaxRank];  // of out
  int64_t stride[Shape::kMaxRank];  // of x along out's axes
  const float* x;
  float* out;
  bool accumulate;
  __device__ void operator()(int64_t i) const {
    int64_t rest = i, at = 0;
    for (int axis = rank - 1; axis >= 0; --axis) {
      const int64_t next = divide(rest, extent[axis]);
      at += (rest - next * extent[axis]) * stride[axis];
      rest = next;
    }
    put(out, i, x[at], accumulate);
  }
};

struct ChunkMap {
  int64_t chunk, x_stride, x_offset, out_stride, out_offset;
  const float* x;
  float* out;
  bool accumulate;
  __device__ void operator()(int64_t i) const {
    const int64_t o = divide(i, chunk), j = i - o * chunk;
    put(out, o * out_stride + out_offset + j, x[o * x_stride + x_offset + j], accumulate);
  }
};

struct GatherMap {
  int64_t rows, source, columns, per_index_batch;
  const int32_t* index;
  const float* x;
  float* out;
  __device__ void operator()(int64_t i) const {
    const int64_t line = divide(i, columns), column = i - line * columns;  // line = n * rows + row
    const int64_t n = divide(line, rows), row = line - n * rows;
    const int32_t from = index[(divide(n, per_index_batch) * rows + row) * columns + column];
    out[i] = from < 0 ? 0.0f : x[line * source + from];
  }
};

// A warp a line (n, row): zeroes its part of dx, then adds the columns 32 at a time in order.
struct GatherGradient {
  int64_t rows, source, columns, per_index_batch;
  const int32_t* index;
  const float* dy;
  float* dx;
  bool accumulate;
  __device__ void operator()(int64_t line, int lane) const {
    const int64_t n = divide(line, rows), row = line - n * rows;
    const int32_t* from = index + (divide(n, per_index_batch) * rows + row) * columns;
    float* out = dx + line * source;
    if (!accumulate) {
      for (int64_t s = lane; s < source; s += kWarp) out[s] = 0;
      __syncwarp();
    }
    for (int64_t base = 0; base < columns; base += kWarp) {
      const int64_t column = base + lane;
      const int64_t at = column < columns ? from[column] : -1;
      const float value = at >= 0 ? dy[line * columns + column] : 0.0f;
      warp_scatter_add(out, at, value, at >= 0, false);
    }
  }
};

HeadsMap heads_map(const HeadsArgs& args, bool split) {
  return HeadsMap{args.length,
                  args.heads,
                  args.head_dim,
                  args.parts,
                  split,
                  args.accumulate,
                  f32(args.merged),
                  {f32(args.part[0]), f32(args.part[1]), f32(args.part[2])}};
}

int64_t heads_elements(const HeadsArgs& args) {
  return args.batch * args.length * args.parts * args.heads * args.head_dim;
}

}  // namespace

void split_heads(const Context& context, const HeadsArgs& args) {
  map(context, "split_heads", heads_elements(args), heads_map(args, true));
}

void merge_heads(const Context& context, const HeadsArgs& args) {
  map(context, "merge_heads", heads_elements(args), heads_map(args, false));
}

void permute(const Context& context, const PermuteArgs& args) {
  PermuteMap f{};
  f.rank = args.shape.rank();
  int64_t strides[Shape::kMaxRank] = {1, 1, 1, 1};
  for (int axis = f.rank - 2; axis >= 0; --axis) {
    strides[axis] = strides[axis + 1] * args.shape[axis + 1];
  }
  for (int axis = 0; axis < f.rank; ++axis) {
    f.extent[axis] = args.shape[args.perm[axis]];
    f.stride[axis] = strides[args.perm[axis]];
  }
  f.x = f32(args.x);
  f.out = f32(args.out);
  f.accumulate = args.accumulate;
  map(context, "permute", args.shape.elements(), f);
}

void copy_chunks(const Context& context, const CopyChunksArgs& args) {
  map(context, "copy_chunks", args.outer * args.chunk,
      ChunkMap{args.chunk, args.x_stride, args.x_offset, args.out_stride, args.out_offset,
               f32(args.x), f32(args.out), args.accumulate});
}

void gather(const Context& context, const GatherArgs& args) {
  if (args.outer == 0) return;
  map(context, "gather", args.outer * args.rows * args.columns,
      GatherMap{args.rows, args.source, args.columns, args.outer / args.index_batches, args.index,
                f32(args.x), f32(args.out)});
}

void gather_backward(const Context& context, const GatherBackwardArgs& args) {
  if (args.outer == 0) return;
  map_rows(context, "gather_backward", args.outer * args.rows,
           GatherGradient{args.rows, args.source, args.columns, args.outer / args.index_batches,
                          args.index, f32(args.dy), f32(args.dx), args.accumulate});
}

}  // namespace longshot::cuda
