// [model]: the encoder stack's sizes and choices. What changes with the positional encoding is not
// here: switching the encoding must switch neither the embedding scale nor the dropout.
#pragma once

#include <string>

#include "core/config.h"

namespace longshot {

struct ModelOptions {
  int64_t dim = 64;
  int64_t layers = 5;
  int64_t heads = 8;
  int64_t ffn = 256;
  std::string norm = "post";
  std::string norm_type = "layer";
  double epsilon = 1e-5;
  std::string activation = "relu";
  double dropout = 0.1;
  double attention_dropout = 0.0;
  bool causal = false;
  bool log_n_scaling = false;
  bool bias = true;
  bool embedding_scale = true;
  bool tied_head = false;

  int64_t head_dim() const { return dim / heads; }

  void fields(FieldVisitor& visit) {
    visit.field("dim", dim, "width of the model; a multiple of heads", at_least(1));
    visit.field("layers", layers, "number of encoder blocks", at_least(0));
    visit.field("heads", heads, "attention heads of each block", at_least(1));
    visit.field("ffn", ffn, "width of the feed-forward layer", at_least(1));
    visit.field("norm", norm, "where normalisation stands: after each residual sum, or before "
                "each sub-layer", one_of({"post", "pre"}));
    visit.field("norm_type", norm_type, "layer norm or RMS norm", one_of({"layer", "rms"}));
    visit.field("epsilon", epsilon, "added to the variance inside the norm's root", above(0));
    visit.field("activation", activation, "of the feed-forward layer; gelu is exact (erf)",
                one_of({"relu", "gelu", "gelu_tanh"}));
    visit.field("dropout", dropout, "on embeddings and on each sub-layer's output",
                from_to_below(0, 1));
    visit.field("attention_dropout", attention_dropout, "on attention weights",
                from_to_below(0, 1));
    visit.field("causal", causal, "each token sees only itself and earlier ones");
    visit.field("log_n_scaling", log_n_scaling,
                "multiplies attention logits by the logarithm of the number of keys");
    visit.field("bias", bias, "biases in the attention projections");
    visit.field("embedding_scale", embedding_scale, "multiplies token embeddings by sqrt(dim)");
    visit.field("tied_head", tied_head, "the output layer shares the token embedding's weights");
  }
};

}  // namespace longshot
