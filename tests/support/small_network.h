// A small encoder-like network written with operations alone: embedding, a pre-norm block with
// biased attention and dropout, a head and a loss. For tests of memory and of determinism.
#pragma once

#include <cmath>
#include <vector>

#include "core/context.h"
#include "core/ops.h"
#include "tests/support/gradient_check.h"

namespace longshot::testing {

class SmallNetwork {
 public:
  static constexpr int64_t kBatch = 3, kLength = 37, kWidth = 24, kHeads = 3, kHidden = 72;
  static constexpr int64_t kClasses = 11;

  explicit SmallNetwork(Context& context)
      : context_(context),
        table_(leaf({kClasses, kWidth}, 1)),
        qkv_weight_(leaf({3 * kWidth, kWidth}, 2)),
        qkv_bias_(leaf({3 * kWidth}, 3)),
        out_weight_(leaf({kWidth, kWidth}, 4)),
        bias_table_(leaf({kHeads, 2 * kLength - 1}, 5)),
        up_weight_(leaf({kHidden, kWidth}, 6)),
        up_bias_(leaf({kHidden}, 7)),
        down_weight_(leaf({kWidth, kHidden}, 8)),
        gain_(leaf({kWidth}, 9)),
        shift_(leaf({kWidth}, 10)),
        ids_(integers(context, random_integers(kBatch * kLength, 11, 0, kClasses - 1),
                      {kBatch, kLength})),
        targets_(integers(context, random_integers(kBatch * kLength, 12, -1, kClasses - 1),
                          {kBatch, kLength})),
        mask_(integers(context, std::vector<int32_t>(kBatch * kLength, 1), {kBatch, kLength})) {}

  Tensor loss() {
    const DropoutSpec dropout{.p = 0.1f,
                              .stream = 1,
                              .elements_per_sample = kLength * kWidth,
                              .state = context_.step_state()};
    Tensor x = ops::dropout(ops::embedding(ids_, table_, std::sqrt(double(kWidth))), dropout);
    const auto [query, key, value] =
        ops::linear_heads(ops::norm(x, gain_, shift_), qkv_weight_, qkv_bias_, 3, kHeads);
    ops::AttentionOptions options;
    options.scale = 1 / std::sqrt(double(kWidth / kHeads));
    options.key_mask = mask_;
    options.bias_table = bias_table_;
    options.dropout = {.p = 0.1f, .stream = 2, .state = context_.step_state()};
    const Tensor mixed = ops::linear(ops::attention(query, key, value, options), out_weight_, {});
    const ops::AddNormResult second = ops::add_norm(x, mixed, gain_, shift_, dropout);
    const Tensor hidden = ops::linear(second.normed, up_weight_, up_bias_, Activation::gelu);
    x = ops::add(second.sum, ops::linear(hidden, down_weight_, {}));
    const Tensor logits =
        ops::linear(x.reshape({kBatch * kLength, kWidth}), table_, {});  // tied weights
    return ops::cross_entropy(logits, targets_.reshape({kBatch * kLength}), {.smoothing = 0.1})
        .loss;
  }

  // One step with fresh gradients. The loss is returned in `loss_out` (one element of the dtype).
  void step(uint32_t index, void* loss_out) {
    for (Tensor& parameter : parameters_) reset_gradient(parameter);
    const StepScope scope(context_);
    context_.set_step_state({.seed = 5, .step = index, .training = 1});
    const Tensor result = loss();
    context_.tape().backward(result);
    context_.backend().copy_to_host(loss_out, result.data(), size_t(size_of(result.dtype())));
  }

  std::vector<Tensor>& parameters() { return parameters_; }

 private:
  Tensor leaf(const Shape& shape, uint64_t seed) {
    parameters_.push_back(random_leaf(context_, shape, seed, -0.3, 0.3));
    return parameters_.back();
  }

  Context& context_;
  std::vector<Tensor> parameters_;
  Tensor table_, qkv_weight_, qkv_bias_, out_weight_, bias_table_, up_weight_, up_bias_;
  Tensor down_weight_, gain_, shift_, ids_, targets_, mask_;
};

}  // namespace longshot::testing
