// Norm: layer norm (s - mean) / sqrt(variance + epsilon) * gain + bias over the last axis, or RMS
// norm s / sqrt(mean(s^2) + epsilon) * gain, which has no bias (Ba et al. 2016; Zhang and Sennrich
// 2019). Gains start at one, biases at zero.
//
// after_residual fuses the residual sum in front of it: s = x + dropout(residual).
#pragma once

#include "core/ops.h"
#include "nn/model_options.h"
#include "nn/parameter_store.h"

namespace longshot {

class Norm {
 public:
  Norm(const ModuleScope& scope, const ModelOptions& options)
      : options_{options.norm_type == "rms", options.epsilon},
        gain_(scope.declare("gain", {options.dim}, Initializer::ones(), false)) {
    if (!options_.rms) bias_ = scope.declare("bias", {options.dim}, Initializer::zeros(), false);
  }

  Tensor operator()(const Tensor& x) const { return ops::norm(x, gain_, bias(), options_); }
  ops::AddNormResult after_residual(const Tensor& x, const Tensor& residual,
                                    const DropoutSpec& dropout) const {
    return ops::add_norm(x, residual, gain_, bias(), dropout, options_);
  }

 private:
  Tensor bias() const { return bias_.declared() ? bias_.tensor() : Tensor(); }
  ops::NormOptions options_;
  Parameter gain_, bias_;
};

}  // namespace longshot
