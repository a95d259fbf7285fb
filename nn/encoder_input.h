// What an encoder is fed: a batch in host memory, and the same prepared on the device.
#pragma once

#include <cstdint>
#include <span>

#include "core/tensor.h"
#include "nn/sequence_context.h"

namespace longshot {

// One batch in host memory. Spans are only read during prepare().
struct EncoderInput {
  int64_t batch = 0, length = 0;
  std::span<const int32_t> tokens;   // (batch, length)
  std::span<const int32_t> lengths;  // (batch): real tokens of each row; empty: all `length`
  bool left_padded = false;          // padding stands before the tokens instead of after
  int64_t output_begin = 0;  // predictions at positions [begin, begin + outputs) of every row
  int64_t outputs = 0;       // 0: every position; ignored when mean_pool
  bool training = false;
  uint64_t seed = 0;
  uint32_t step = 0;
  int64_t first_sample = 0;  // see PositionRequest
};

// A batch on the device: everything forward() needs. Lives within one StepScope.
struct PreparedInput {
  SequenceContext sequence;
  Tensor tokens;                          // (batch, length) i32
  int64_t output_begin = 0, outputs = 0;  // outputs 0: every position
  Tensor row_scale;                       // (1 or batch, length): ln n, when log_n_scaling
  Tensor pool_weight;  // (batch, length): 1 / real length, 0 on padding, when mean_pool
  // The masks once more as numbers, for composed attention (relative values). Made when the
  // encoding changes logits and the mask exists. 1 = may be seen, else 0.
  Tensor key_allowed;       // (batch, length): real tokens
  Tensor distance_allowed;  // (2 length - 1): by j - i, from 1 - length to length - 1: causality
};

}  // namespace longshot
