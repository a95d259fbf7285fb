// A batch: what one forward pass is fed and scored with.
//
// All rows read their predictions at the same span of positions, output_begin .. output_begin +
// outputs - 1 of (rows, length), so the model takes one slice and never gathers: rows that are
// shorter, or answer elsewhere in the span, have target -1 there. Unpadded placeholder tasks:
// the last m positions, every target >= 0. Pooled tasks (first_token, mean): output_begin 0,
// outputs 1.
#pragma once

#include <cstdint>
#include <vector>

namespace longshot {

struct Batch {
  int64_t rows = 0;
  int64_t length = 0;            // of every row, padding and placeholders included
  std::vector<int32_t> tokens;   // (rows, length)
  std::vector<int32_t> lengths;  // (rows): real tokens, placeholders included
  bool padded = false;           // some lengths[r] < length
  int64_t output_begin = 0;
  int64_t outputs = 0;
  std::vector<int32_t> targets;       // (rows, outputs), -1 = no loss
  std::vector<uint8_t> scored;        // (rows, outputs), 1 = counts in accuracy
  int64_t target_count = 0;           // targets >= 0
  int64_t scored_count = 0;           // scored == 1
  std::vector<int64_t> task_lengths;  // (rows): the task's own length n of each row
  uint64_t first_index = 0;           // example index of row 0; row r has first_index + r
};

}  // namespace longshot
