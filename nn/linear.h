// Linear: y = activation(x W^T + b), x (..., in), W (out, in), b (out).
//
// Weights start truncated normal with standard deviation 1 / sqrt(in) and biases zero (Haiku's
// default, which the length-extrapolation studies used), so that outputs start with the variance of
// the inputs.
#pragma once

#include <cmath>

#include "core/ops.h"
#include "nn/parameter_store.h"

namespace longshot {

class Linear {
 public:
  Linear(const ModuleScope& scope, int64_t in, int64_t out, bool bias)
      : weight_(scope.declare("weight", {out, in},
                              Initializer::truncated_normal(1.0 / std::sqrt(double(in))), true)) {
    if (bias) bias_ = scope.declare("bias", {out}, Initializer::zeros(), false);
  }

  Tensor operator()(const Tensor& x, Activation activation = Activation::none) const {
    return ops::linear(x, weight_, bias(), activation);
  }
  const Tensor& weight() const { return weight_; }
  Tensor bias() const { return bias_.declared() ? bias_.tensor() : Tensor(); }  // may be undefined

 private:
  Parameter weight_, bias_;
};

}  // namespace longshot
