// Distances between tokens, for encodings that depend on distance alone. The signed distance of
// query i and key j is p_j - p_i: negative for keys before the query.
//
// The pattern of all pairs decides how a bias can be handed to the attention:
//   toeplitz  contiguous positions, or positions given as distances (Ruoss et al.): the distance
//             depends on j - i, one row of 2T - 1 values tells all (one row a sequence when drawn
//             so)
//   integer   whole positions below a limit: a table over -(limit - 1) .. limit - 1 tells all
//   general   neither: fractional positions, or a limit too large for a table
// The pattern follows from the sampler and the shapes, never from drawn values, so that steps of
// one shape consist of the same operations.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/error.h"
#include "core/tensor.h"
#include "nn/positional_encoding.h"

namespace longshot {

class Distances {
 public:
  enum class Pattern { toeplitz, integer, general };

  // Of the positions of one layer. Uploads what attention needs of an integer pattern.
  Distances(const SequenceContext& context, const DrawnPositions& drawn);

  Pattern pattern() const { return pattern_; }
  int64_t batches() const { return batches_; }  // 1, or a row for each sequence
  int64_t length() const { return length_; }
  // One table of 2 reach() - 1 columns serves the whole batch.
  bool has_table() const {
    return pattern_ == Pattern::integer || (pattern_ == Pattern::toeplitz && batches_ == 1);
  }
  // Whether has_table() will hold for any batch of sequences whose positions are drawn like these,
  // padded ones too (every sequence then has distances of its own).
  static bool always_a_table(const DrawnPositions& drawn);
  // Whether vectors of `width` numbers for the whole batch are made: one for each distance, or for
  // each pair where positions are drawn and pairs few (8 MB in f32).
  bool has_relative_keys(int64_t width) const {
    constexpr int64_t kMostNumbers = int64_t(1) << 21;
    return batches_ == 1 &&
           (pattern_ == Pattern::toeplitz || length_ * length_ * width <= kMostNumbers);
  }
  int64_t reach() const { return reach_; }
  // Distance for each column: (batches, 2T - 1) for toeplitz, (2 limit - 1) for integer. Column
  // reach - 1 is distance 0.
  const std::vector<double>& columns() const { return columns_; }

  double between(int64_t sequence, int64_t query, int64_t key) const {
    if (pattern_ == Pattern::toeplitz)
      return columns_[size_t(sequence * (2 * length_ - 1) + length_ - 1 + key - query)];
    const double* row = values_.data() + sequence * length_;
    return row[key] - row[query];
  }

  // For rows [query_begin, query_begin + rows): `table` (heads, 2 reach - 1) as attention takes it.
  LogitBias table_bias(const Tensor& table, int64_t query_begin, int64_t rows) const;

  // Positions of keys or of a block of queries, (batches, count), for the formulas that need them.
  const std::vector<double>& values() const { return values_; }

 private:
  Context* context_;
  Pattern pattern_;
  int64_t batches_ = 1, length_ = 0, reach_ = 0;
  std::vector<double> values_;  // (batches, length): positions
  std::vector<double> columns_;
  Tensor positions_;  // i32 (batches, length), pattern integer
};

// ops::RelativeKeys::rows for rows [query_begin, query_begin + rows), from one vector for each head
// and distance (toeplitz, 2T - 1) or pair (T * T): `vectors` in that order, last axis D.
Tensor relative_key_rows(const Tensor& vectors, int64_t heads, const Distances& distances,
                         int64_t query_begin, int64_t rows);

// One Distances for all layers, or one for each when positions are drawn per layer.
std::vector<Distances> distances_of_layers(const SequenceContext& context);

template <class T>
const T& of_layer(const std::vector<T>& prepared, int layer) {
  LONGSHOT_CHECK(!prepared.empty(), "positional encoding: prepare() was not called for this batch");
  return prepared.size() == 1 ? prepared[0] : prepared.at(size_t(layer));
}

// value(distance) for each pair: (batches, rows, T).
template <class Value, class Function>
std::vector<Value> over_pairs(const Distances& distances, int64_t query_begin, int64_t rows,
                              Function value) {
  const int64_t length = distances.length();
  std::vector<Value> result(size_t(distances.batches() * rows * length));
  auto out = result.begin();
  for (int64_t sequence = 0; sequence < distances.batches(); ++sequence) {
    if (distances.pattern() == Distances::Pattern::toeplitz) {
      const int64_t width = 2 * length - 1;
      std::vector<Value> column(static_cast<size_t>(width));
      for (int64_t c = 0; c < width; ++c)
        column[size_t(c)] = value(distances.columns()[size_t(sequence * width + c)]);
      for (int64_t i = query_begin; i < query_begin + rows; ++i)
        out = std::copy_n(column.begin() + (length - 1 - i), length, out);
    } else {
      for (int64_t i = query_begin; i < query_begin + rows; ++i)
        for (int64_t j = 0; j < length; ++j) *out++ = value(distances.between(sequence, i, j));
    }
  }
  return result;
}

// An i32 for each pair, as gather and embedding take it: (rows, T), or (B, rows, T) with a row of
// positions a sequence.
Tensor upload_pairs(Context& context, const Distances& distances, int64_t rows,
                    const std::vector<int32_t>& pairs);

}  // namespace longshot
