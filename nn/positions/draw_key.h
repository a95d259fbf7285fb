// The random numbers of one draw of positions, as a pure function of the request.
//
//   training     (seed, step, layer, sample)           sample 0 when a whole batch shares the draw
//   evaluation   (seed, length, layer, group of samples)
//
// So a draw depends neither on the batch size, nor on how a step is cut into micro-batches, nor on
// how often or on what one evaluates.
#pragma once

#include "core/random.h"
#include "nn/position_sampler.h"

namespace longshot {

// `sample`: sample index (training) or group (evaluation). `part` tells apart several draws for one
// sample.
inline RandomSequence position_draw(const PositionRequest& request, uint64_t sample,
                                    uint32_t part = 0) {
  const uint32_t stream =
      (uint32_t(request.layer) << 3) | (part << 1) | (request.training ? 1u : 0u);
  const uint32_t step = request.training ? request.step : uint32_t(request.length);
  // One block per sample seeds a sequence of its own, for draws of any number of values.
  const Philox4 block =
      random_block({request.seed, RandomPurpose::positions, stream, step}, sample);
  const uint64_t seed = uint64_t(block.value[0]) | uint64_t(block.value[1]) << 32;
  return RandomSequence(
      {seed, RandomPurpose::positions, block.value[2] & 0xFFFFFF, block.value[3]});
}

}  // namespace longshot
