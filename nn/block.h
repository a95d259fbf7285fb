// EncoderBlock: attention and feed-forward, each with a residual sum, dropout and a norm.
//
//   post-norm:  x = norm(x + dropout(attention(x)));        x = norm(x + dropout(ffn(x)))
//   pre-norm:   x = x + dropout(attention(norm(x)));        x = x + dropout(ffn(norm(x)))
//
// Sum and norm are one operation. In pre-norm a sum's norm is the next part's, so a block ends with
// the norm that follows it: the next block's, or the model's last.
#pragma once

#include "nn/attention.h"
#include "nn/encoder_input.h"
#include "nn/feed_forward.h"
#include "nn/norms.h"

namespace longshot {

// The residual stream between blocks. Post-norm has one tensor in both places.
struct Stream {
  Tensor sum;     // what the next residual is added to
  Tensor normed;  // what the next part reads
};

class EncoderBlock {
 public:
  EncoderBlock(const ModuleScope& scope, const ModelOptions& options, int layer);

  // Pre-norm: the norm of this block's input.
  const Norm& first_norm() const { return attention_norm_; }
  // `next_norm`: pre-norm only, the norm that follows this block.
  Stream operator()(const Stream& x, const PreparedInput& input, PositionalEncoding& encoding,
                    const Norm* next_norm) const;

 private:
  Stream add(const Stream& x, const Tensor& residual, const Norm& norm,
             const DropoutSpec& dropout) const;

  int layer_;
  bool pre_norm_;
  double dropout_;
  MultiHeadAttention attention_;
  Norm attention_norm_;
  FeedForward feed_forward_;
  Norm feed_forward_norm_;
};

}  // namespace longshot
