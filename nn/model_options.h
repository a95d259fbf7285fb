// ModelOptions: the [model] section of a config.
#pragma once

#include <cstdint>
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
  double dropout = 0.0;
  double attention_dropout = 0.0;
  bool causal = false;
  bool log_n_scaling = false;
  bool attention_bias = false;
  bool ffn_bias = true;
  bool head_bias = true;
  bool embedding_scale = true;
  bool tied_head = false;

  void fields(FieldVisitor& visit) {
    visit.field("dim", dim, "width of the token vectors", at_least(1));
    visit.field("layers", layers, "number of blocks", at_least(0));
    visit.field("heads", heads, "attention heads; must divide dim", at_least(1));
    visit.field("ffn", ffn, "width of the feed-forward layer", at_least(1));
    visit.field("norm", norm, "norm after each residual sum (post) or before each part (pre)",
                one_of({"post", "pre"}));
    visit.field("norm_type", norm_type, "layer norm or RMS norm", one_of({"layer", "rms"}));
    visit.field("epsilon", epsilon, "added to the variance in norms", above(0));
    visit.field("activation", activation, "of the feed-forward layer",
                one_of({"relu", "gelu", "gelu_tanh"}));
    visit.field("dropout", dropout, "on embeddings, attention output and feed-forward output",
                from_to_below(0, 1));
    visit.field("attention_dropout", attention_dropout, "on attention weights",
                from_to_below(0, 1));
    visit.field("causal", causal, "each token sees only itself and earlier ones");
    visit.field("log_n_scaling", log_n_scaling,
                "multiply attention logits by ln n, n the number of visible tokens of the sequence "
                "(Chiang and Cholak 2022)");
    visit.field("attention_bias", attention_bias, "biases in the four attention projections");
    visit.field("ffn_bias", ffn_bias, "biases in the feed-forward layer");
    visit.field("head_bias", head_bias, "bias in the output layer");
    visit.field("embedding_scale", embedding_scale, "multiply token embeddings by sqrt(dim)");
    visit.field("tied_head", tied_head, "output layer uses the token embedding matrix");
  }
};

}  // namespace longshot
