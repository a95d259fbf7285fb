// Which random stream each place of a model uses for dropout.
//
// Streams are fixed by place, never by what a model happens to contain: switching the positional
// encoding or leaving out a part moves nobody else's masks. Place k of layer l has stream (l + 1) *
// 8 + k; streams below 8 belong to the input.
#pragma once

#include "core/backend.h"
#include "core/context.h"

namespace longshot {

enum class DropoutPlace : uint32_t {
  embeddings = 0,  // layer -1
  attention_weights = 1,
  attention_output = 2,
  ffn_output = 3,
};

// Dropout at a place; p = 0 (keep everything) unless training. Masks are drawn for the sample's
// index within the optimizer step's whole batch, so cutting a batch into micro-batches changes
// nothing.
inline DropoutSpec dropout_at(const Context& context, double p, bool training, int layer,
                              DropoutPlace place, int64_t elements_per_sample) {
  DropoutSpec spec;
  spec.stream = uint32_t(layer + 1) * 8 + uint32_t(place);
  if (!training || p == 0) return spec;
  spec.p = float(p);
  spec.elements_per_sample = elements_per_sample;
  spec.state = context.step_state();
  return spec;
}

}  // namespace longshot
