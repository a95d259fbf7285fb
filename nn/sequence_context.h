// SequenceContext: what every hook of a positional encoding is told about the batch at hand.
#pragma once

#include <cstdint>
#include <vector>

#include "core/context.h"
#include "core/tensor.h"
#include "nn/position_sampler.h"

namespace longshot {

struct SequenceContext {
  Context* context = nullptr;
  int64_t batch = 0, length = 0;  // tokens of the model's input, padding and placeholders included
  std::vector<int32_t> lengths;   // (batch): real tokens of each sequence
  std::vector<int32_t> first_token;  // (batch): index of the first real token, > 0 when left-padded
  bool padded = false;
  Tensor key_mask;  // (batch, length) i32, 1 = real token; undefined when not padded
  bool training = false;
  bool causal = false;
  uint64_t seed = 0;
  uint32_t step = 0;
  // Positions by layer: one entry, or one a layer when the sampler draws anew in every layer. Left
  // padding makes them per sequence, counting from each sequence's first real token (padding before
  // it gets 0).
  std::vector<DrawnPositions> positions;

  const DrawnPositions& positions_of(int layer) const {
    return positions[positions.size() == 1 ? 0 : size_t(layer)];
  }
  bool per_layer() const { return positions.size() > 1; }
};

}  // namespace longshot
