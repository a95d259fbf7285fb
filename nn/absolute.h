// What encodings of absolute position share: the batch's positions held against a capacity, and the
// two ways in which a code of a few numbers a token enters the input.
//
// A capacity N stands for positions 0 .. N - 1. Only real tokens count: padding may lie beyond it,
// since nothing reads what is written there.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/config.h"
#include "core/tensor.h"
#include "nn/positional_encoding.h"

namespace longshot {

// The bound of an encoding, and what happens to positions beyond it: "error"; "clamp": they are
// treated as the last position; "zero": they get nothing.
struct Bound {
  std::string encoding;  // its name, for messages
  int64_t capacity = 0;  // 0: unbounded
  std::string beyond = "error";
};

Limits beyond_choices();
// "error naming ...": the sentence for EncodingTraits::beyond of a table of `capacity` rows.
std::string describe_beyond(const Bound& bound);
// UsageError when training's own inputs are too long for the bound. (That a sampler's positions are
// not is checked where the model is built.)
void check_bound(const Bound& bound, const EncodingModel& model);

// Layer 0's positions, brought inside the bound.
struct BoundedPositions {
  int64_t batches = 1, length = 0;
  std::vector<double> values;   // (batches, length)
  std::vector<double> present;  // (batches, length): 0 where beyond = "zero" took effect, else 1
};
// Throws Error naming encoding, length and capacity when a real token is beyond the bound and
// `beyond` is "error".
BoundedPositions bounded_positions(const SequenceContext& context, const Bound& bound);
// The same as table rows, i32 (batches, length).
Tensor position_rows(const SequenceContext& context, const BoundedPositions& positions);

// (1, T, ...) drops its leading one, so that it is a suffix of (B, T, ...) and is repeated by the
// sum.
Tensor add_code(const Tensor& x, const Tensor& code);

// Values (batches, length, width) written over the input's channels [first, first + width): the
// channels are reserved, what the token embedding has there is lost.
class ReservedChannels {
 public:
  // UsageError when the channels are not all inside the input's width.
  ReservedChannels(const std::string& encoding, int64_t dim, int64_t first, int64_t width);
  void prepare(const SequenceContext& context, int64_t batches, std::span<const double> codes);
  Tensor write(const Tensor& x) const;

 private:
  int64_t dim_, first_, width_;
  Tensor keep_, code_;  // (dim): 0 in the reserved channels; (T, dim) or (B, T, dim)
};

}  // namespace longshot
