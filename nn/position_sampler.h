// PositionSampler: which positions the tokens of a sequence are given. Independent of the encoding,
// so that every encoding combines with every sampler.
//
// One file adds one: nn/positions/<name>.cpp with options, class and a RegisterType line.
#pragma once

#include <cstdint>
#include <tuple>
#include <vector>

#include "core/registry.h"

namespace longshot {

struct PositionRequest {
  int64_t batch = 0, length = 0;
  bool training = false;
  uint64_t seed = 0;
  uint32_t step = 0;         // training: optimizer step; draws are keyed by (seed, step, sample)
  int64_t first_sample = 0;  // training: index of row 0 within the optimizer step's whole batch;
                             // evaluation: sample index of row 0, draws keyed by
                             // (seed, length, sample / draw_every)
  int layer = 0;             // only when per_layer()
};

// One row of positions for all sequences (batches = 1) or one a sequence (batches = batch).
struct DrawnPositions {
  int64_t batches = 1;
  bool contiguous = false;     // values are 0, 1, 2, ... (they are filled in all the same)
  bool fractional = false;     // values may be other than whole numbers (refused by tables)
  std::vector<double> values;  // (batches, length), increasing along a row, >= 0
  // For encodings on relative distance. Empty: the distance of tokens i and j is values[j] -
  // values[i]. Else (batches, length): the r-th neighbour on either side is at distance
  // distances[r], distances[0] = 0 ("distances" of Ruoss et al.).
  std::vector<double> distances;
  int64_t limit = 0;  // every value and distance is below this
};

class PositionSampler {
 public:
  using Arguments = std::tuple<>;
  virtual ~PositionSampler() = default;
  // Error when length > capacity().
  virtual DrawnPositions draw(const PositionRequest& request) const = 0;
  virtual bool per_layer() const { return false; }  // a fresh draw in every layer
  // Evaluation: rows that share a draw, aligned to multiples of it (0: all rows). The evaluator
  // cuts its batches there, so that the evaluation batch size changes nothing.
  virtual int64_t samples_per_draw() const { return 0; }
  // In evaluation, a token's position depends on how many tokens follow it (it is drawn, or spread,
  // for the length at hand).
  virtual bool by_length() const { return false; }
  virtual int64_t capacity() const { return 0; }  // most tokens of a sequence; 0: no limit
  virtual int64_t position_limit() const {
    return 0;
  }  // positions given are below; 0: it grows with the length
};

}  // namespace longshot
