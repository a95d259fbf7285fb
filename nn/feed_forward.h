// FeedForward: W_down activation(W_up x + b_up) + b_down, applied to every token alone.
// x (B, T, dim), hidden width `ffn`. Dropout on its output belongs to the residual sum that
// follows.
#pragma once

#include "nn/linear.h"
#include "nn/model_options.h"

namespace longshot {

class FeedForward {
 public:
  FeedForward(const ModuleScope& scope, const ModelOptions& options)
      : activation_(activation_named(options.activation)),
        up_(scope.sub("up"), options.dim, options.ffn, options.ffn_bias),
        down_(scope.sub("down"), options.ffn, options.dim, options.ffn_bias) {}

  Tensor operator()(const Tensor& x) const {
    return ops::feed_forward(x, up_.weight(), up_.bias(), down_.weight(), down_.bias(),
                             activation_);
  }

 private:
  static Activation activation_named(const std::string& name) {
    if (name == "relu") return Activation::relu;
    if (name == "gelu") return Activation::gelu;
    LONGSHOT_CHECK(name == "gelu_tanh", "activation: {} is none of relu, gelu, gelu_tanh", name);
    return Activation::gelu_tanh;
  }
  Activation activation_;
  Linear up_, down_;
};

}  // namespace longshot
