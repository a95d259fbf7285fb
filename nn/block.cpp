#include "nn/block.h"

#include "nn/dropout.h"

namespace longshot {

EncoderBlock::EncoderBlock(const ModuleScope& scope, const ModelOptions& options, int layer)
    : layer_(layer),
      pre_norm_(options.norm == "pre"),
      dropout_(options.dropout),
      attention_(scope.sub("attention"), options, layer),
      attention_norm_(scope.sub("attention_norm"), options),
      feed_forward_(scope.sub("ffn"), options),
      feed_forward_norm_(scope.sub("ffn_norm"), options) {}

Stream EncoderBlock::add(const Stream& x, const Tensor& residual, const Norm& norm,
                         const DropoutSpec& dropout) const {
  const ops::AddNormResult result = norm.after_residual(x.sum, residual, dropout);
  return {pre_norm_ ? result.sum : result.normed, result.normed};
}

Stream EncoderBlock::operator()(const Stream& x, const PreparedInput& input,
                                PositionalEncoding& encoding, const Norm* next_norm) const {
  const SequenceContext& sequence = input.sequence;
  const int64_t per_sample = x.sum.size(1) * x.sum.size(2);
  const auto dropout = [&](DropoutPlace place) {
    return dropout_at(*sequence.context, dropout_, sequence.training, layer_, place, per_sample);
  };
  // In pre-norm the norm after the attention sum is the one before the feed-forward.
  const Norm& middle = pre_norm_ ? feed_forward_norm_ : attention_norm_;
  const Norm& last = pre_norm_ ? *next_norm : feed_forward_norm_;
  const Stream attended = add(x, attention_(x.normed, input, encoding), middle,
                              dropout(DropoutPlace::attention_output));
  return add(attended, feed_forward_(attended.normed), last, dropout(DropoutPlace::ffn_output));
}

}  // namespace longshot
