// Backend: one method a kernel, one implementation a device (core/cpu, cuda/).
//
// Conventions, for every method
// - All pointers are device pointers of this backend. Arrays are contiguous and row-major unless an
//   argument says otherwise. `dtype` is f32 or f64 (f64 on the CPU only); ids, targets and
//   positions are i32; masks are i32, 1 = keep, 0 = drop. A pointer documented "or null" may be
//   null.
// - An output with an `accumulate` flag is written when it is false and added to when it is true.
// - Results never depend on the number of threads: work is cut into pieces by shape alone and sums
//   over pieces follow a fixed tree. No method reads device memory on the host.
// - Values that change from step to step (seed, step, learning rate) live in device memory
//   (StepState), so that a captured step can be replayed.
// - Empty arrays (any extent 0) are legal and do nothing (sums over nothing are 0).
// - Calls are asynchronous where the device is; `synchronize` waits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/random.h"
#include "core/shape.h"

namespace longshot {

// Everything a training step needs that changes from step to step. One instance in device memory.
struct StepState {
  uint64_t seed = 0;
  uint32_t step = 0;          // optimizer steps begun so far, for random draws
  uint32_t training = 0;      // 1 while training
  int64_t sample_offset = 0;  // index of this micro-batch's first row in the optimizer step's batch
  float learning_rate = 0;
  float padding = 0;
  double target_count = 0;  // counted targets of the whole optimizer step (all micro-batches)
};

// Lives in device memory and is owned by the optimizer: what the clip kernel decided.
struct UpdateState {
  double squared_norm = 0;  // of the whole gradient, before clipping
  float scale = 1;          // factor the optimizer multiplies gradients with
  uint32_t skip = 0;        // 1: norm not finite or no counted target; the step is a no-op
  uint64_t adam_step = 0;   // updates really applied; advanced by the optimizer kernel
  uint64_t skipped_steps = 0;
};

enum class Activation : uint8_t { none, relu, gelu, gelu_tanh };
enum class Unary : uint8_t { relu, gelu, gelu_tanh, exp, log, tanh, sigmoid, square };
enum class Binary : uint8_t { add, sub, mul };

// result (rows, columns) = alpha * op(a) op(b), then + bias (columns), then the activation.
// op(a) is (rows, inner), stored (inner, rows) when transpose_a; op(b) is (inner, columns), stored
// (columns, inner) when transpose_b. Leading dimensions are in elements. `batch` independent
// products; the strides are in elements between consecutive matrices (0 shares one).
struct GemmArgs {
  DType dtype = DType::f32;
  int64_t rows = 0, columns = 0, inner = 0, batch = 1;
  bool transpose_a = false, transpose_b = false;
  const void* a = nullptr;
  const void* b = nullptr;
  void* c = nullptr;
  int64_t lda = 0, ldb = 0, ldc = 0;
  int64_t stride_a = 0, stride_b = 0, stride_c = 0;
  double alpha = 1.0;
  bool accumulate = false;     // with bias or activation only if false
  const void* bias = nullptr;  // (columns) or null
  Activation activation = Activation::none;
  void* pre_activation = nullptr;  // or null: also stores the value before the activation, like c
};

// Two linear layers with an activation between them, on rows one by one:
//   y = activation(x weight_up^T + bias_up) weight_down^T + bias_down
// x (rows, inner), weight_up (hidden, inner), weight_down (columns, hidden), y (rows, columns).
struct FeedForwardArgs {
  DType dtype = DType::f32;
  int64_t rows = 0, inner = 0, hidden = 0, columns = 0;
  Activation activation = Activation::none;
  const void* x = nullptr;
  const void* weight_up = nullptr;
  const void* bias_up = nullptr;  // (hidden) or null
  const void* weight_down = nullptr;
  const void* bias_down = nullptr;  // (columns) or null
  void* y = nullptr;                // not read by the backward
};
// Makes the hidden layer again: the forward pass stores nothing but y. Each gradient may be null.
struct FeedForwardBackwardArgs {
  FeedForwardArgs forward;
  const void* dy = nullptr;
  void* dx = nullptr;
  void* dweight_up = nullptr;
  void* dbias_up = nullptr;
  void* dweight_down = nullptr;
  void* dbias_down = nullptr;
  bool accumulate_dx = false, accumulate_dweight_up = false, accumulate_dbias_up = false;
  bool accumulate_dweight_down = false, accumulate_dbias_down = false;
};

// Splits (B, T, parts * H * D) into `parts` arrays (B, H, T, D), or merges them back.
struct HeadsArgs {
  DType dtype = DType::f32;
  int64_t batch = 0, length = 0, heads = 0, head_dim = 0;
  int parts = 1;           // 1 to 3
  void* merged = nullptr;  // (B, T, parts, H, D)
  void* part[3] = {nullptr, nullptr, nullptr};
  bool accumulate = false;  // into the destination
};

// y = f(x)
struct UnaryArgs {
  DType dtype = DType::f32;
  Unary op = Unary::relu;
  int64_t n = 0;
  const void* x = nullptr;
  void* y = nullptr;
};
struct UnaryBackwardArgs {
  DType dtype = DType::f32;
  Unary op = Unary::relu;
  int64_t n = 0;
  const void* x = nullptr;  // the input
  const void* y = nullptr;  // the output (used by exp, tanh, sigmoid)
  const void* dy = nullptr;
  void* dx = nullptr;
  bool accumulate = false;
};
// activation'(pre) * dy, and the bias gradient (columns) = column sums of the result.
struct ActivationBackwardArgs {
  DType dtype = DType::f32;
  Activation activation = Activation::none;
  int64_t rows = 0, columns = 0;
  const void* pre_activation = nullptr;  // (rows, columns); unused for none
  const void* dy = nullptr;
  void* dx = nullptr;     // or null: only the bias gradient is wanted
  void* dbias = nullptr;  // (columns) or null
  bool accumulate_dbias = false;
};
struct AffineArgs {  // y = alpha * x + beta
  DType dtype = DType::f32;
  int64_t n = 0;
  const void* x = nullptr;
  void* y = nullptr;
  double alpha = 1.0, beta = 0.0;
  bool accumulate = false;
};
// out[i] = a[i] op b[i % period]; period = n for equal shapes, the suffix size for repeated rows.
struct BinaryArgs {
  DType dtype = DType::f32;
  Binary op = Binary::add;
  int64_t n = 0, period = 0;
  const void* a = nullptr;
  const void* b = nullptr;
  void* out = nullptr;
  bool accumulate = false;
};
// out[r * columns + c] = x[r * columns + c] * scale[r]
struct ScaleRowsArgs {
  DType dtype = DType::f32;
  int64_t rows = 0, columns = 0;
  const void* x = nullptr;
  const void* scale = nullptr;  // (rows)
  void* out = nullptr;
  bool accumulate = false;
};
// out[o, i] = alpha * sum over n of x[o, n, i] (times weight[o, n, i] when not null)
struct ReduceArgs {
  DType dtype = DType::f32;
  int64_t outer = 0, reduced = 0, inner = 0;
  const void* x = nullptr;
  const void* weight = nullptr;  // or null
  void* out = nullptr;
  double alpha = 1.0;
  bool accumulate = false;
};
// out[o, n, i] = alpha * x[o, i]
struct ExpandArgs {
  DType dtype = DType::f32;
  int64_t outer = 0, repeat = 0, inner = 0;
  const void* x = nullptr;
  void* out = nullptr;
  double alpha = 1.0;
  bool accumulate = false;
};
struct SoftmaxArgs {  // over the last axis
  DType dtype = DType::f32;
  int64_t rows = 0, columns = 0;
  bool log = false;
  const void* x = nullptr;
  void* y = nullptr;
};
struct SoftmaxBackwardArgs {
  DType dtype = DType::f32;
  int64_t rows = 0, columns = 0;
  bool log = false;
  const void* y = nullptr;  // the forward output
  const void* dy = nullptr;
  void* dx = nullptr;
  bool accumulate = false;
};
// out = x with axes permuted: out axis i is x axis perm[i].
struct PermuteArgs {
  DType dtype = DType::f32;
  Shape shape;  // of x
  int perm[Shape::kMaxRank] = {0, 1, 2, 3};
  const void* x = nullptr;
  void* out = nullptr;
  bool accumulate = false;
};
// For each of `outer` chunks: out[o * out_stride + out_offset + j] = x[o * x_stride + x_offset +
// j], j < chunk.
struct CopyChunksArgs {
  DType dtype = DType::f32;
  int64_t outer = 0, chunk = 0;
  const void* x = nullptr;
  int64_t x_stride = 0, x_offset = 0;
  void* out = nullptr;
  int64_t out_stride = 0, out_offset = 0;
  bool accumulate = false;
};
// out[n, i, j] = x[n, i, index[i, j]] for n < outer. Negative indices give 0.
struct GatherArgs {
  DType dtype = DType::f32;
  int64_t outer = 0, rows = 0, source = 0,
          columns = 0;        // x (outer, rows, source), out (outer, rows, columns)
  int64_t index_batches = 1;  // index is (index_batches, rows, columns); outer is a multiple:
                              // n uses index batch n / (outer / index_batches)
  const int32_t* index = nullptr;
  const void* x = nullptr;
  void* out = nullptr;
};
struct GatherBackwardArgs {  // dx[n, i, s] = sum over j with index[i, j] = s of dy[n, i, j]
  DType dtype = DType::f32;
  int64_t outer = 0, rows = 0, source = 0, columns = 0, index_batches = 1;
  const int32_t* index = nullptr;
  const void* dy = nullptr;
  void* dx = nullptr;
  bool accumulate = false;
};

// Dropout keeps element i when uniform(seed, dropout, stream, step, index i + sample_offset *
// elements_per_sample) >= p and multiplies it by 1 / (1 - p). Recomputed in backward, never stored.
// p = 0 or state->training = 0 keeps everything.
struct DropoutSpec {
  float p = 0;
  uint32_t stream = 0;
  int64_t elements_per_sample = 0;
  const StepState* state = nullptr;  // device memory; may be null when p = 0
};
struct DropoutArgs {
  DType dtype = DType::f32;
  int64_t n = 0;
  const void* x = nullptr;
  void* y = nullptr;
  DropoutSpec dropout;
  bool accumulate = false;
};

// sum = x + dropout(residual) (residual null: sum = x), y = normalised(sum) * gain + bias.
// Layer norm: (s - mean) / sqrt(variance + epsilon), biased variance. RMS norm: s / sqrt(mean(s^2)
// + epsilon).
struct NormArgs {
  DType dtype = DType::f32;
  int64_t rows = 0, columns = 0;
  bool rms = false;
  double epsilon = 1e-5;
  const void* x = nullptr;
  const void* residual = nullptr;  // (rows, columns) or null
  DropoutSpec dropout;             // on the residual
  const void* gain = nullptr;      // (columns) or null
  const void* bias = nullptr;      // (columns) or null
  void* sum = nullptr;  // (rows, columns): required when residual is not null, else or null
  void* y = nullptr;
  void* mean = nullptr;               // (rows), untouched for RMS norm
  void* inverse_deviation = nullptr;  // (rows)
};
struct NormBackwardArgs {
  DType dtype = DType::f32;
  int64_t rows = 0, columns = 0;
  bool rms = false;
  const void* sum = nullptr;  // the normalised input
  const void* gain = nullptr;
  const void* mean = nullptr;
  const void* inverse_deviation = nullptr;
  const void* dy = nullptr;
  const void* dsum = nullptr;  // or null: gradient that reached `sum` directly
  DropoutSpec dropout;
  void* dx = nullptr;  // or null
  bool accumulate_dx = false;
  void* dresidual = nullptr;  // or null; dropout applied
  bool accumulate_dresidual = false;
  void* dgain = nullptr;  // or null
  bool accumulate_dgain = false;
  void* dbias = nullptr;  // or null
  bool accumulate_dbias = false;
};

// out[r] = scale * table[ids[r]]. Ids are checked on the host where they are made.
struct EmbeddingArgs {
  DType dtype = DType::f32;
  int64_t count = 0, rows = 0, columns = 0;  // ids, table rows, width
  const int32_t* ids = nullptr;
  const void* table = nullptr;
  void* out = nullptr;
  double scale = 1.0;
};
struct EmbeddingBackwardArgs {  // dtable[id] += scale * sum of dout over the rows with that id, in
                                // row order by pieces
  DType dtype = DType::f32;
  int64_t count = 0, rows = 0, columns = 0;
  const int32_t* ids = nullptr;
  const void* dout = nullptr;
  void* dtable = nullptr;
  double scale = 1.0;
  bool accumulate = false;
};

// Rotates pairs of lanes of x (B, H, T, D): for pair t < width / 2 with lanes (a, b) =
// (2t, 2t + 1) interleaved or (t, t + width / 2) half,
//   y_a = x_a cos - x_b sin,  y_b = x_b cos + x_a sin;  lanes >= width pass unchanged.
// `inverse` uses -sin (the gradient). cosine and sine are (angle_batches, T, width / 2),
// angle_batches 1 or B.
struct RotateArgs {
  DType dtype = DType::f32;
  int64_t batch = 0, heads = 0, length = 0, head_dim = 0, width = 0, angle_batches = 1;
  bool half = false;  // pairing
  bool inverse = false;
  const void* cosine = nullptr;
  const void* sine = nullptr;
  const void* x = nullptr;
  void* y = nullptr;
  bool accumulate = false;
};

// Softmax cross-entropy per row, with label smoothing e: (1 - e) * nll + e * mean over classes of
// -log p. Rows whose target is `ignore` (-1) or whose mask is 0 do not count.
//   loss = sum over counted rows / denominator, denominator = *count_override when not null (a
//   double in device memory), else the number of counted rows; 0 when that is 0.
struct CrossEntropyArgs {
  DType dtype = DType::f32;
  int64_t rows = 0, columns = 0;
  const void* logits = nullptr;
  const int32_t* targets = nullptr;
  double smoothing = 0.0;
  const double* count_override = nullptr;
  void* log_sum_exp = nullptr;    // (rows)
  void* row_loss = nullptr;       // (rows); 0 where not counted
  void* loss = nullptr;           // scalar of dtype
  double* denominator = nullptr;  // scalar, device memory: what the sum was divided by
};
struct CrossEntropyBackwardArgs {
  DType dtype = DType::f32;
  int64_t rows = 0, columns = 0;
  const void* logits = nullptr;
  const int32_t* targets = nullptr;
  double smoothing = 0.0;
  const void* log_sum_exp = nullptr;
  const double* denominator = nullptr;
  const void* dloss = nullptr;  // scalar of dtype
  void* dlogits = nullptr;
  bool accumulate = false;
};
// mean over counted elements of (x - t)^2, or of log(1 + exp(x)) - t x (binary logistic, t in [0,
// 1]).
struct PointwiseLossArgs {
  DType dtype = DType::f32;
  bool logistic = false;  // false: squared error
  int64_t n = 0;
  const void* x = nullptr;
  const void* target = nullptr;
  const int32_t* mask = nullptr;  // (n) or null
  const double* count_override = nullptr;
  void* loss = nullptr;
  double* denominator = nullptr;
};
struct PointwiseLossBackwardArgs {
  DType dtype = DType::f32;
  bool logistic = false;
  int64_t n = 0;
  const void* x = nullptr;
  const void* target = nullptr;
  const int32_t* mask = nullptr;
  const double* denominator = nullptr;
  const void* dloss = nullptr;
  void* dx = nullptr;
  bool accumulate = false;
};
struct ArgmaxArgs {  // index of the largest value of each row, the first on ties
  DType dtype = DType::f32;
  int64_t rows = 0, columns = 0;
  const void* x = nullptr;
  int32_t* out = nullptr;  // (rows)
};

// Attention for query rows i (absolute index query_offset + i) and keys j:
//   logit = scale * row_scale[i] * (q_i . k_j) + bias(i, j)
//   p = softmax over the allowed keys; out_i = sum_j dropout(p)_ij v_j
// Allowed: key_mask[b, j] = 1 (or no mask) and, when causal, j <= query_offset + i.
// A row with no allowed key gives 0 and log_sum_exp = -inf; its gradients are 0.
// Memory is linear in T and S: no T x S buffer is ever made.
//   bias table: table[h, reach - 1 + d], d = position_k[j] - position_q[i], |d| < reach, shape (H,
//   2 * reach - 1);
//     positions null means d = j - (query_offset + i).
//   bias dense: (dense_batches, H, T, S), dense_batches 1 or B.
//   relative keys: + relative_scale * row_scale[i] * (q_i + relative_bias[h]) . r, r a row of width
//   D of
//     distances (relative_reach > 0): relative_key (relative_heads, 2 * relative_reach - 1, D), row
//       relative_reach - 1 + j - (query_offset + i);
//     pairs (relative_reach = 0): relative_key (relative_heads, T, S, D), row (i, j).
//     relative_heads 1 or H. Only for a backend that fuses_relative_keys().
// Dropout acts on the probabilities, element index ((b * H + h) * T + i) * S + j.
struct AttentionShape {
  int64_t batch = 0, heads = 0, queries = 0, keys = 0, head_dim = 0;
};
struct AttentionArgs {
  DType dtype = DType::f32;
  AttentionShape shape;
  const void* query = nullptr;  // (B, H, T, D)
  const void* key = nullptr;    // (B, H, S, D)
  const void* value = nullptr;  // (B, H, S, D)
  double scale = 1.0;
  const void* row_scale = nullptr;  // (row_scale_batches, T) or null
  int64_t row_scale_batches = 1;
  const int32_t* key_mask = nullptr;  // (B, S) or null
  bool causal = false;
  int64_t query_offset = 0;
  const void* bias_table = nullptr;  // or null
  int64_t reach = 0;
  const int32_t* position_q = nullptr;  // (position_batches, T) or null
  const int32_t* position_k = nullptr;  // (position_batches, S) or null
  int64_t position_batches = 1;
  const void* bias_dense = nullptr;  // or null
  int64_t dense_batches = 1;
  const void* relative_key = nullptr;  // or null
  int64_t relative_heads = 1, relative_reach = 0;
  const void* relative_bias = nullptr;  // (H, D) or null
  double relative_scale = 1.0;
  DropoutSpec dropout;
  void* out = nullptr;          // (B, T, H, D): heads merged
  void* log_sum_exp = nullptr;  // (B, H, T)
};
struct AttentionBackwardArgs {
  AttentionArgs forward;       // the same arguments, with out and log_sum_exp filled
  const void* dout = nullptr;  // (B, T, H, D)
  void* dquery = nullptr;      // each may be null: not wanted
  void* dkey = nullptr;
  void* dvalue = nullptr;
  void* dbias_table = nullptr;  // summed over batch
  void* dbias_dense = nullptr;  // summed over batch when dense_batches = 1
  void* drelative_key = nullptr;
  void* drelative_bias = nullptr;
  bool accumulate_dquery = false, accumulate_dkey = false, accumulate_dvalue = false;
  bool accumulate_dbias_table = false, accumulate_dbias_dense = false;
  bool accumulate_drelative_key = false, accumulate_drelative_bias = false;
};

// squared_norm of the flat gradient by a fixed tree, then the clip decision:
// scale = min(1, max_norm / norm) (max_norm 0: 1); skip = norm not finite or state->target_count =
// 0.
struct ClipArgs {
  DType dtype = DType::f32;
  int64_t n = 0;
  const void* gradient = nullptr;
  double max_norm = 0;
  const StepState* state = nullptr;
  UpdateState* update = nullptr;
};
// One pass over the flat buffers. With g = scale * gradient and t = adam_step + 1:
//   m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2
//   p = p - lr * (weight_decay * p [first `decayed` elements] + (m / (1 - beta1^t)) / (sqrt(v / (1
//   - beta2^t)) + epsilon))
// `coupled` adds weight_decay * p to g instead (Adam with L2). Advances adam_step unless skipped.
struct AdamArgs {
  DType dtype = DType::f32;
  int64_t n = 0, decayed = 0;
  void* parameter = nullptr;
  const void* gradient = nullptr;
  void* first_moment = nullptr;
  void* second_moment = nullptr;
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weight_decay = 0;
  bool coupled = false;
  const StepState* state = nullptr;  // learning rate
  UpdateState* update = nullptr;
};

// Pure methods are those that every device has.
class Backend {
 public:
  virtual ~Backend() = default;

  virtual const char* name() const = 0;         // "cpu", "cuda"
  virtual std::string description() const = 0;  // one line: the machine in words
  virtual bool supports(DType type) const = 0;
  virtual bool host_accessible() const = 0;  // true: device pointers are host pointers
  // Whether attention takes relative keys; where not, operations compose them into a dense bias.
  virtual bool fuses_relative_keys() const { return false; }

  // Memory. Alignment is at least 64 bytes. Out of memory throws Error saying how much was asked.
  virtual void* allocate(size_t bytes) = 0;
  virtual void release(void* pointer, size_t bytes) = 0;
  virtual void copy_to_device(void* device, const void* host, size_t bytes) = 0;
  virtual void copy_to_host(void* host, const void* device, size_t bytes) = 0;  // waits
  virtual void copy_on_device(void* to, const void* from, size_t bytes) = 0;
  virtual void fill_zero(void* device, size_t bytes) = 0;
  virtual void synchronize() = 0;

  virtual void gemm(const GemmArgs&) = 0;
  virtual void split_heads(const HeadsArgs&) = 0;
  virtual void merge_heads(const HeadsArgs&) = 0;
  virtual void unary(const UnaryArgs&) = 0;
  virtual void unary_backward(const UnaryBackwardArgs&) = 0;
  virtual void activation_backward(const ActivationBackwardArgs&) = 0;
  virtual void affine(const AffineArgs&) = 0;
  virtual void binary(const BinaryArgs&) = 0;
  virtual void scale_rows(const ScaleRowsArgs&) = 0;
  virtual void reduce(const ReduceArgs&) = 0;
  virtual void expand(const ExpandArgs&) = 0;
  virtual void softmax(const SoftmaxArgs&) = 0;
  virtual void softmax_backward(const SoftmaxBackwardArgs&) = 0;
  virtual void permute(const PermuteArgs&) = 0;
  virtual void copy_chunks(const CopyChunksArgs&) = 0;
  virtual void gather(const GatherArgs&) = 0;
  virtual void gather_backward(const GatherBackwardArgs&) = 0;
  virtual void dropout(const DropoutArgs&) = 0;
  virtual void norm(const NormArgs&) = 0;
  virtual void norm_backward(const NormBackwardArgs&) = 0;
  virtual void embedding(const EmbeddingArgs&) = 0;
  virtual void embedding_backward(const EmbeddingBackwardArgs&) = 0;
  virtual void rotate(const RotateArgs&) = 0;
  virtual void cross_entropy(const CrossEntropyArgs&) = 0;
  virtual void cross_entropy_backward(const CrossEntropyBackwardArgs&) = 0;
  virtual void pointwise_loss(const PointwiseLossArgs&) = 0;
  virtual void pointwise_loss_backward(const PointwiseLossBackwardArgs&) = 0;
  virtual void argmax(const ArgmaxArgs&) = 0;
  virtual void attention(const AttentionArgs&) = 0;
  virtual void attention_backward(const AttentionBackwardArgs&) = 0;
  // Both layers at once, where keeping the hidden layer out of memory pays: a backend that has
  // these says for which widths (by shape alone); elsewhere the operation is two gemms.
  virtual bool fuses_feed_forward(const FeedForwardArgs&) const { return false; }
  virtual void feed_forward(const FeedForwardArgs&);
  virtual void feed_forward_backward(const FeedForwardBackwardArgs&);
  virtual void clip(const ClipArgs&) = 0;
  virtual void adam(const AdamArgs&) = 0;
};

}  // namespace longshot
