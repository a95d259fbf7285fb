// Multi-head self-attention with the encoding's hooks in their places.
//
//   q, k, v = heads(W_qkv x + b_qkv)                                  (B, H, T, D)
//   q, k    = encoding.on_query_key(q, k)
//   bias    = encoding.on_logits(q, k)
//   logits  = row_scale_i * q_i . k_j / sqrt(D) + bias_ij,  masked by padding and causality
//             (row_scale_i * bias_ij where the encoding's bias is itself a product of q_i)
//   out     = W_out concat_heads(dropout(softmax(logits)) v) + b_out  (B, T, dim)
//
// Evaluation works through the queries in blocks of rows when an encoding's bias is dense, so that
// memory grows with T, not with T x T. Vaswani et al. 2017.
#pragma once

#include "nn/encoder_input.h"
#include "nn/linear.h"
#include "nn/model_options.h"
#include "nn/positional_encoding.h"

namespace longshot {

class MultiHeadAttention {
 public:
  MultiHeadAttention(const ModuleScope& scope, const ModelOptions& options, int layer);

  // x (B, T, dim) to (B, T, dim), before the residual sum's dropout.
  Tensor operator()(const Tensor& x, const PreparedInput& input,
                    PositionalEncoding& encoding) const;

  // Bytes that a dense bias and what it is made from may take in evaluation, for the whole batch.
  static constexpr int64_t kDenseBytes = int64_t(32) << 20;
  // Bytes that one row of queries needs for it, for the whole batch.
  static int64_t dense_row_bytes(int64_t batch, int64_t heads, int64_t head_dim, int64_t length,
                                 DType dtype);

 private:
  Tensor attend(const Tensor& query, const Tensor& key, const Tensor& value, const LogitBias& bias,
                const PreparedInput& input, int64_t query_begin) const;
  Tensor attend_in_blocks(const Tensor& query, const Tensor& key, const Tensor& value,
                          const PreparedInput& input, PositionalEncoding& encoding) const;

  int layer_;
  int64_t heads_, head_dim_;
  double dropout_;
  Linear qkv_, out_;
};

}  // namespace longshot
