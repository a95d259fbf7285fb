// Building blocks of the kernels: sums over a warp and a block in a fixed order, one value an
// element (map), column sums and whole-array sums in two passes, dropout, activations.
#pragma once

#include <cmath>
#include <cstdint>

#include "cuda/kernels.cuh"

namespace longshot::cuda {

constexpr unsigned kAllLanes = 0xFFFFFFFFu;
constexpr int kWarp = 32;
constexpr int kThreads = 256;
constexpr int kRowThreads = 128;  // row kernels: a warp a row, four rows a block
constexpr int kRowsPerBlock = kRowThreads / kWarp;

template <class T>
__device__ inline T warp_sum(T value) {
  LONGSHOT_UNROLL
  for (int distance = 16; distance; distance >>= 1) {
    value += __shfl_xor_sync(kAllLanes, value, distance);
  }
  return value;
}
__device__ inline float warp_max(float value) {
  LONGSHOT_UNROLL
  for (int distance = 16; distance; distance >>= 1) {
    value = fmaxf(value, __shfl_xor_sync(kAllLanes, value, distance));
  }
  return value;
}

// Sum over a block of kThreads threads, the same on every thread: warps first, then their sums.
__device__ inline double block_sum(double value) {
  LONGSHOT_SHARED(double, parts, kThreads / kWarp);
  value = warp_sum(value);
  __syncthreads();  // the previous call's readers are done
  if (threadIdx.x % kWarp == 0) parts[threadIdx.x / kWarp] = value;
  __syncthreads();
  double sum = 0;
  for (int i = 0; i < kThreads / kWarp; ++i) sum += parts[i];
  return sum;
}

// 64-bit division is slow on a GPU, and nearly all indices fit 32 bits.
__device__ inline int64_t divide(int64_t a, int64_t b) {
  return ((a | b) >> 32) == 0 ? int64_t(uint32_t(a) / uint32_t(b)) : a / b;
}

__device__ inline void put(float* out, int64_t i, float value, bool accumulate) {
  out[i] = accumulate ? out[i] + value : value;
}

// f(i) for i < n. Each thread takes a few elements of large arrays.
template <class F>
__global__ void map_kernel(int64_t n, F f) {
  const int64_t step = int64_t(gridDim.x) * blockDim.x;
  for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step) f(i);
}
template <class F>
void map(const Context& context, const char* name, int64_t n, const F& f) {
  if (n <= 0) return;
  int64_t blocks = ceil_div(n, kThreads);
  if (blocks > 4096) blocks = blocks / 4 < (1 << 20) ? ceil_div(blocks, 4) : (1 << 20);
  run(context, name, map_kernel<F>, dim3(unsigned(blocks)), dim3(kThreads), 0, n, f);
}

// f(row, lane) by a warp a row.
template <class F>
__global__ void rows_kernel(int64_t rows, F f) {
  const int64_t row = int64_t(blockIdx.x) * kRowsPerBlock + threadIdx.x / kWarp;
  if (row < rows) f(row, int(threadIdx.x % kWarp));
}
template <class F>
void map_rows(const Context& context, const char* name, int64_t rows, const F& f) {
  if (rows <= 0) return;
  run(context, name, rows_kernel<F>, dim3(unsigned(ceil_div(rows, kRowsPerBlock))),
      dim3(kRowThreads), 0, rows, f);
}

// Sums over rows of kOutputs quantities a column. f(row, column, values) fills values[kOutputs] and
// is called exactly once for every element, so it may also write. Result k goes to out.to[k]
// (columns) unless that is null.
//   pass 1: a block sums 32 columns of one piece of the rows, 8 rows at a time
//   pass 2: pieces are added in order
template <int kOutputs>
struct ColumnOutputs {
  float* to[kOutputs];
  bool accumulate[kOutputs];
};

template <int kOutputs, class F>
__global__ void column_sums_kernel(int64_t rows, int64_t columns, int64_t rows_per_piece,
                                   float* partial, F f) {
  LONGSHOT_SHARED(float, parts, kOutputs * 8 * 32);
  const int lane = int(threadIdx.x), line = int(threadIdx.y);
  const int64_t column = int64_t(blockIdx.x) * 32 + lane;
  const int64_t piece = blockIdx.y, begin = piece * rows_per_piece;
  const int64_t end = min(rows, begin + rows_per_piece);
  float sums[kOutputs] = {};
  if (column < columns) {
    for (int64_t row = begin + line; row < end; row += 8) {
      float values[kOutputs];
      f(row, column, values);
      for (int k = 0; k < kOutputs; ++k) sums[k] += values[k];
    }
  }
  for (int k = 0; k < kOutputs; ++k) parts[(k * 8 + line) * 32 + lane] = sums[k];
  __syncthreads();
  if (line != 0 || column >= columns) return;
  for (int k = 0; k < kOutputs; ++k) {
    float sum = 0;
    for (int other = 0; other < 8; ++other) sum += parts[(k * 8 + other) * 32 + lane];
    partial[(piece * kOutputs + k) * columns + column] = sum;
  }
}

template <int kOutputs>
struct FinishColumns {
  int64_t columns, pieces;
  const float* partial;
  ColumnOutputs<kOutputs> out;
  __device__ void operator()(int64_t i) const {
    const int k = int(divide(i, columns));
    const int64_t column = i - k * columns;
    if (!out.to[k]) return;
    float sum = 0;
    for (int64_t piece = 0; piece < pieces; ++piece) {
      sum += partial[(piece * kOutputs + k) * columns + column];
    }
    put(out.to[k], column, sum, out.accumulate[k]);
  }
};

template <int kOutputs, class F>
void column_sums(const Context& context, const char* name, int64_t rows, int64_t columns,
                 const ColumnOutputs<kOutputs>& out, const F& f) {
  if (columns <= 0) return;
  LONGSHOT_CHECK(kOutputs * columns <= kWorkspaceFloats, "cuda: {}: {} columns are too many", name,
                 columns);
  int64_t pieces = ceil_div(rows, 64);
  pieces = std::min(pieces, kWorkspaceFloats / (kOutputs * columns));
  pieces = std::max<int64_t>(1, std::min<int64_t>(pieces, 256));
  const int64_t rows_per_piece = std::max<int64_t>(1, ceil_div(rows, pieces));
  run(context, name, column_sums_kernel<kOutputs, F>,
      dim3(unsigned(ceil_div(columns, 32)), unsigned(pieces)), dim3(32, 8), 0, rows, columns,
      rows_per_piece, context.workspace, f);
  map(context, name, kOutputs * columns,
      FinishColumns<kOutputs>{columns, pieces, context.workspace, out});
}

// Two sums over n terms in double precision: term(i, a, b) adds to a and b; finish(a, b) is
// then called by one thread.
template <class Term>
__global__ void sum_all_kernel(int64_t n, int64_t per_piece, double* partial, Term term) {
  const int64_t begin = blockIdx.x * per_piece, end = min(n, begin + per_piece);
  double a = 0, b = 0;
  for (int64_t i = begin + threadIdx.x; i < end; i += kThreads) term(i, a, b);
  a = block_sum(a);
  b = block_sum(b);
  if (threadIdx.x == 0) partial[2 * blockIdx.x] = a, partial[2 * blockIdx.x + 1] = b;
}
template <class Finish>
__global__ void finish_sum_kernel(int pieces, const double* partial, Finish finish) {
  const int i = int(threadIdx.x);
  const double a = block_sum(i < pieces ? partial[2 * i] : 0.0);
  const double b = block_sum(i < pieces ? partial[2 * i + 1] : 0.0);
  if (i == 0) finish(a, b);
}
template <class Term, class Finish>
void sum_all(const Context& context, const char* name, int64_t n, const Term& term,
             const Finish& finish) {
  const int64_t pieces = std::max<int64_t>(1, std::min<int64_t>(kThreads, ceil_div(n, 2048)));
  double* partial = reinterpret_cast<double*>(context.workspace);
  run(context, name, sum_all_kernel<Term>, dim3(unsigned(pieces)), dim3(kThreads), 0, n,
      std::max<int64_t>(1, ceil_div(n, pieces)), partial, term);
  run(context, name, finish_sum_kernel<Finish>, dim3(1), dim3(kThreads), 0, int(pieces), partial,
      finish);
}

// table[index] += value by a whole warp, lanes without a value pass active = false. Several lanes
// may name one index: their values are added in lane order, so the result does not depend on
// timing. `distinct`: the caller knows that no two do.
__device__ inline void warp_scatter_add(float* table, int64_t index, float value, bool active,
                                        bool distinct) {
  if (!distinct) {
    const int lane = int(threadIdx.x % kWarp);
    const long long key = active ? index : -1 - lane;
    const unsigned peers = __match_any_sync(kAllLanes, key);
    if (!__all_sync(kAllLanes, peers == 1u << lane)) {
      float sum = 0;
      for (int other = 0; other < kWarp; ++other) {
        const float theirs = __shfl_sync(kAllLanes, value, other);
        if (peers >> other & 1) sum += theirs;
      }
      value = sum;
      active = active && __ffs(int(peers)) - 1 == lane;
    }
  }
  if (active) table[index] += value;
  __syncwarp();
}

// Dropout of one step: factor(i) is 0 or 1 / (1 - p).
struct DropoutDraw {
  RandomKey key;
  uint64_t offset;
  float p, scale;
  bool active;
  __device__ explicit DropoutDraw(const DropoutSpec& spec) {
    p = spec.p;
    active = spec.p > 0 && spec.state && spec.state->training;
    scale = 1.0f / (1.0f - spec.p);
    offset = 0;
    if (!active) return;
    key.seed = spec.state->seed;
    key.purpose = RandomPurpose::dropout;
    key.stream = spec.stream;
    key.step = spec.state->step;
    offset = uint64_t(spec.state->sample_offset * spec.elements_per_sample);
  }
  __device__ float factor(int64_t i) const {
    if (!active) return 1.0f;
    return to_unit_float(random_word(key, uint64_t(i) + offset)) >= p ? scale : 0.0f;
  }
};

__device__ inline float activate(Activation activation, float x) {
  switch (activation) {
    case Activation::none:
      return x;
    case Activation::relu:
      return x <= 0 ? 0.0f : x;  // a NaN passes
    case Activation::gelu:
      return 0.5f * x * (1.0f + erff(x * 0.70710678118654752f));
    case Activation::gelu_tanh: {
      const float inner = 0.79788456080286536f * (x + 0.044715f * x * x * x);
      return 0.5f * x * (1.0f + tanhf(inner));
    }
  }
  return x;
}
// d activate / dx.
//   gelu:      Phi(x) + x phi(x)
//   gelu_tanh: (1 + t) / 2 + x (1 - t^2) / 2 * sqrt(2 / pi) (1 + 3 * 0.044715 x^2)
__device__ inline float activate_slope(Activation activation, float x) {
  switch (activation) {
    case Activation::none:
      return 1.0f;
    case Activation::relu:
      return x > 0 ? 1.0f : 0.0f;
    case Activation::gelu:
      return 0.5f * (1.0f + erff(x * 0.70710678118654752f)) +
             x * 0.39894228040143268f * expf(-0.5f * x * x);
    case Activation::gelu_tanh: {
      const float t = tanhf(0.79788456080286536f * (x + 0.044715f * x * x * x));
      return 0.5f * (1.0f + t) +
             0.5f * x * (1.0f - t * t) * 0.79788456080286536f * (1.0f + 3.0f * 0.044715f * x * x);
    }
  }
  return 1.0f;
}

}  // namespace longshot::cuda
