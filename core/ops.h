// Operations: every function computes its result at once (eager) and records its gradient on the
// tape.
//
// Shapes are checked and errors open with the operation's name and the shapes. All tensors of one
// call belong to one Context and, unless said otherwise, share the context's dtype. A result wants
// a gradient when recording is on and any input wants one. B batch, H heads, T queries, S keys, D
// head width, C classes.
//
// Ids, targets and indices are checked as well, where the host can read them: an error names the
// number, its place and what it may be. On a device nobody can without waiting for it, and numbers
// out of range read and write other memory: there whoever uploads them checks. Encoder::prepare
// checks tokens, Batcher targets; encodings make their positions and indices within bounds.
//
// One operation, one file: core/ops/<name>.cpp holds the formula, the node and the derivation.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "core/backend.h"
#include "core/context.h"
#include "core/tensor.h"

namespace longshot::ops {

// ---- products ---------------------------------------------------------------------------------

struct MatmulOptions {
  bool transpose_a = false, transpose_b = false;
  double alpha = 1.0;
};
// op(a) (..., M, K) times op(b) (..., K, N) to (..., M, N). Leading axes are equal, or b has rank 2
// and serves all of a's matrices, or a has rank 2 and serves all of b's.
Tensor matmul(const Tensor& a, const Tensor& b, const MatmulOptions& options = {});

// activation(x (..., in) weight^T + bias); weight (out, in) as in every framework's checkpoint,
// bias (out) or undefined.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias,
              Activation activation = Activation::none);
// linear to `parts` tensors (B, H, T, D), x (B, T, in), weight (parts * H * D, in), bias (parts * H
// * D) or undefined: query, key and value come out as attention wants them. Unused entries are
// undefined.
std::array<Tensor, 3> linear_heads(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                   int parts, int64_t heads);
// linear(linear(x, up, up_bias, activation), down, down_bias); on the CPU one kernel where the
// layers are narrow, which keeps nothing of the hidden layer.
Tensor feed_forward(const Tensor& x, const Tensor& up, const Tensor& up_bias, const Tensor& down,
                    const Tensor& down_bias, Activation activation);

// ---- element by element -----------------------------------------------------------------------

// b has a's shape, or is a suffix of it and is repeated: (B, T, d) + (T, d), (B, T, d) + (d).
Tensor add(const Tensor& a, const Tensor& b);
Tensor sub(const Tensor& a, const Tensor& b);
Tensor mul(const Tensor& a, const Tensor& b);
Tensor scale(const Tensor& x, double factor);
Tensor add_scalar(const Tensor& x, double term);
Tensor scale_rows(const Tensor& x, const Tensor& factor);  // x (..., N), factor (...): one a row
Tensor outer(const Tensor& a, const Tensor& b);            // (M), (N) to (M, N)
Tensor relu(const Tensor& x);
Tensor gelu(const Tensor& x);       // x Phi(x), by erf
Tensor gelu_tanh(const Tensor& x);  // the tanh approximation
Tensor exp(const Tensor& x);
Tensor log(const Tensor& x);
Tensor tanh(const Tensor& x);
Tensor sigmoid(const Tensor& x);
Tensor square(const Tensor& x);
Tensor dropout(const Tensor& x, const DropoutSpec& spec);

// ---- reductions and softmax -------------------------------------------------------------------

Tensor sum(const Tensor& x);  // all elements, to a scalar (rank 0)
Tensor mean(const Tensor& x);
Tensor sum(const Tensor& x, int axis);  // the axis disappears
Tensor mean(const Tensor& x, int axis);
Tensor softmax(const Tensor& x);  // over the last axis
Tensor log_softmax(const Tensor& x);
Tensor argmax(const Tensor& x);  // over the last axis, i32, no gradient

// ---- shape ------------------------------------------------------------------------------------

Tensor reshape(const Tensor& x, const Shape& shape);
Tensor slice(const Tensor& x, int axis, int64_t begin, int64_t end);
Tensor concat(std::span<const Tensor> parts, int axis);
Tensor permute(const Tensor& x, std::span<const int> axes);  // result axis i is x axis axes[i]
Tensor transpose(const Tensor& x, int axis_a, int axis_b);
Tensor split_heads(const Tensor& x, int64_t heads);  // (B, T, H * D) to (B, H, T, D)
Tensor merge_heads(const Tensor& x);                 // (B, H, T, D) to (B, T, H * D)
Tensor repeat_rows(const Tensor& x, int64_t times);  // (...) to (times, ...)
// x (..., I, R) and index (I, J) or (N, I, J) i32 to (..., I, J): result[.., i, j] = x[.., i,
// index[i, j]]; negative indices give 0. With N index matrices, N must be the first extent of x.
Tensor gather(const Tensor& x, const Tensor& index);
// x (..., T, 2R - 1), indexed by distance: result[.., i, j] = x[.., i, R - 1 + j - i - offset] for
// j < keys.
Tensor relative_shift(const Tensor& x, int64_t keys, int64_t query_offset = 0);

// ---- normalisation ----------------------------------------------------------------------------

struct NormOptions {
  bool rms = false;
  double epsilon = 1e-5;
};
Tensor norm(const Tensor& x, const Tensor& gain, const Tensor& bias,
            const NormOptions& options = {});
struct AddNormResult {
  Tensor sum;     // x + dropout(residual)
  Tensor normed;  // norm(sum)
};
AddNormResult add_norm(const Tensor& x, const Tensor& residual, const Tensor& gain,
                       const Tensor& bias, const DropoutSpec& dropout = {},
                       const NormOptions& options = {});

// ---- tables and rotations ---------------------------------------------------------------------

Tensor embedding(const Tensor& ids, const Tensor& table,
                 double scale = 1.0);  // (...) i32, (V, d) to (..., d)
struct RotateOptions {
  int64_t width = 0;  // rotated lanes, even, <= D
  bool half = false;  // pairing: (t, t + width / 2) instead of (2t, 2t + 1)
};
// x (B, H, T, D), cosine and sine (1 or B, T, width / 2)
Tensor rotate(const Tensor& x, const Tensor& cosine, const Tensor& sine,
              const RotateOptions& options);

// ---- losses -----------------------------------------------------------------------------------

struct LossOptions {
  double smoothing = 0.0;                  // cross-entropy only
  const double* count_override = nullptr;  // device memory, see CrossEntropyArgs
};
struct LossResult {
  Tensor loss;      // scalar: mean over counted targets; 0 when none counts
  Tensor row_loss;  // (rows), no gradient; cross-entropy only
};
LossResult cross_entropy(const Tensor& logits, const Tensor& targets,
                         const LossOptions& options = {});
// x and target of one shape, mask i32 of that shape or undefined.
Tensor mean_squared_error(const Tensor& x, const Tensor& target, const Tensor& mask = {},
                          const LossOptions& options = {});
Tensor binary_logistic(const Tensor& x, const Tensor& target, const Tensor& mask = {},
                       const LossOptions& options = {});

// ---- attention --------------------------------------------------------------------------------

// Vectors that a query meets beside the keys' own: + row_scale_i scale (q_i + bias) . r_ij in the
// logits.
struct RelativeKeys {
  // (1 or H, 2R - 1, D), r_ij = row R - 1 + j - i of absolute rows i; or (1 or H, T, S, D), a row
  // for each pair.
  Tensor rows = {};
  Tensor bias = {};  // (H, D) or undefined
  double scale = 1.0;
};
// These logits alone, without row_scale, (B, H, T, S): query (B, H, T, D), its first row being
// `query_offset`.
Tensor relative_scores(const Tensor& query, int64_t keys, const RelativeKeys& relative,
                       int64_t query_offset = 0);

// logits (B, H, T, S), row (b, h, i) times row_scale (1 or B, T).
Tensor scale_query_rows(const Tensor& logits, const Tensor& row_scale);

// The forms of bias the attention kernel knows, and its masks. All tensors optional.
struct AttentionOptions {
  double scale = 1.0;     // usually 1 / sqrt(D)
  Tensor row_scale = {};  // (1 or B, T): multiplies products of the query, not the other biases
  Tensor key_mask = {};   // (B, S) i32, 1 = keep
  bool causal = false;
  int64_t query_offset = 0;  // absolute index of the first query row
  Tensor bias_table = {};    // (H, 2R - 1)
  Tensor position_q = {};    // (1 or B, T) i32; undefined: contiguous
  Tensor position_k = {};    // (1 or B, S) i32
  Tensor bias_dense = {};    // (1 or B, H, T, S)
  RelativeKeys relative = {};
  DropoutSpec dropout = {};
};
// query (B, H, T, D), key and value (B, H, S, D) to (B, T, H * D). Streams over keys; no (T, S)
// buffer, except for relative keys on a backend that does not take them.
Tensor attention(const Tensor& query, const Tensor& key, const Tensor& value,
                 const AttentionOptions& options);

}  // namespace longshot::ops
