// out[o, i] = alpha * sum over n of x[o, n, i] (times weight[o, n, i]).
//
// Long sums are cut into pieces by shape: pass 1 writes partial sums (outer, pieces, inner), pass 2
// adds the pieces in order. Rows (inner = 1) take a warp each, columns a thread each.
#include "cuda/device.cuh"

namespace longshot::cuda {
namespace {

struct Sum {
  int64_t reduced, inner, pieces, per_piece;
  const float *x, *weight;
  float* out;  // (outer, pieces, inner)
  float alpha;
  bool accumulate;

  __device__ float term(int64_t i) const { return weight ? x[i] * weight[i] : x[i]; }
  // inner = 1: a warp a (outer, piece).
  __device__ void operator()(int64_t row, int lane) const {
    const int64_t o = divide(row, pieces), begin = (row - o * pieces) * per_piece;
    const int64_t end = min(reduced, begin + per_piece);
    float sum = 0;
    for (int64_t n = begin + lane; n < end; n += kWarp) sum += term(o * reduced + n);
    sum = warp_sum(sum);
    if (lane == 0) put(out, row, alpha * sum, accumulate);
  }
  // a thread a (outer, piece, inner)
  __device__ void operator()(int64_t i) const {
    const int64_t line = divide(i, inner), column = i - line * inner;
    const int64_t o = divide(line, pieces), begin = (line - o * pieces) * per_piece;
    const int64_t end = min(reduced, begin + per_piece);
    float sum = 0;
    for (int64_t n = begin; n < end; ++n) sum += term((o * reduced + n) * inner + column);
    put(out, i, alpha * sum, accumulate);
  }
};

struct AddPieces {
  int64_t inner, pieces;
  const float* partial;
  float* out;
  float alpha;
  bool accumulate;
  __device__ void operator()(int64_t i) const {
    const int64_t o = divide(i, inner), column = i - o * inner;
    float sum = 0;
    for (int64_t piece = 0; piece < pieces; ++piece) {
      sum += partial[(o * pieces + piece) * inner + column];
    }
    put(out, i, alpha * sum, accumulate);
  }
};

}  // namespace

void reduce(const Context& context, const ReduceArgs& args) {
  const int64_t outputs = args.outer * args.inner;
  if (outputs == 0) return;
  // Enough pieces to fill a device when there are few outputs, none when there are many.
  int64_t pieces = std::min(ceil_div(args.reduced, 256), (int64_t(1) << 16) / outputs);
  pieces = std::max<int64_t>(1, pieces);
  const bool direct = pieces == 1;
  const float alpha = float(args.alpha);
  const Sum sum{args.reduced,
                args.inner,
                pieces,
                std::max<int64_t>(1, ceil_div(args.reduced, pieces)),
                f32(args.x),
                f32(args.weight),
                direct ? f32(args.out) : context.workspace,
                direct ? alpha : 1.0f,
                direct && args.accumulate};
  if (args.inner == 1) {
    map_rows(context, "reduce", args.outer * pieces, sum);
  } else {
    map(context, "reduce", outputs * pieces, sum);
  }
  if (!direct) {
    map(context, "reduce", outputs,
        AddPieces{args.inner, pieces, context.workspace, f32(args.out), alpha, args.accumulate});
  }
}

}  // namespace longshot::cuda
