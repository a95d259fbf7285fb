// Distances between tokens; see the header.
#include "nn/relative.h"

#include <span>

#include "core/context.h"

namespace longshot {

namespace {

// Largest limit for which a table over all distances is made: 8 heads in f32 then take 1 MB.
constexpr int64_t kLargestReach = 16384;

}  // namespace

Distances::Distances(const SequenceContext& context, const DrawnPositions& drawn)
    : context_(context.context), length_(context.length) {
  const size_t expected = size_t(drawn.batches * length_);
  LONGSHOT_CHECK(drawn.values.size() == expected,
                 "positions: {} values given for {} rows of {} tokens", drawn.values.size(),
                 drawn.batches, length_);
  batches_ = drawn.batches;
  values_ = drawn.values;
  const int64_t width = 2 * length_ - 1;
  if (drawn.contiguous || !drawn.distances.empty()) {
    pattern_ = Pattern::toeplitz;
    if (drawn.distances.empty()) {
      batches_ = 1;
      values_.resize(size_t(length_));
    }
    LONGSHOT_CHECK(drawn.distances.empty() || drawn.distances.size() == expected,
                   "positions: {} distances given for {} rows of {} tokens", drawn.distances.size(),
                   drawn.batches, length_);
    reach_ = length_;
    columns_.resize(size_t(batches_ * width));
    for (int64_t sequence = 0; sequence < batches_; ++sequence) {
      for (int64_t r = 0; r < length_; ++r) {
        const double distance =
            drawn.distances.empty() ? double(r) : drawn.distances[size_t(sequence * length_ + r)];
        double* centre = columns_.data() + sequence * width + length_ - 1;
        centre[r] = distance;
        centre[-r] = -distance;
      }
    }
  } else if (!drawn.fractional && drawn.limit > 0 && drawn.limit <= kLargestReach) {
    pattern_ = Pattern::integer;
    reach_ = drawn.limit;
    columns_.resize(size_t(2 * reach_ - 1));
    for (int64_t c = 0; c < 2 * reach_ - 1; ++c) columns_[size_t(c)] = double(c - (reach_ - 1));
    const std::vector<int32_t> whole(values_.begin(), values_.end());
    positions_ = context_->from_host(std::span<const int32_t>(whole), {batches_, length_},
                                     Lifetime::step, "positions");
  } else {
    pattern_ = Pattern::general;
  }
}

bool Distances::always_a_table(const DrawnPositions& drawn) {
  if (drawn.contiguous) return true;
  return drawn.distances.empty() && !drawn.fractional && drawn.limit > 0 &&
         drawn.limit <= kLargestReach;
}

LogitBias Distances::table_bias(const Tensor& table, int64_t query_begin, int64_t rows) const {
  LogitBias bias;
  bias.table = table;
  if (pattern_ == Pattern::toeplitz) return bias;
  bias.position_k = positions_;
  if (rows == length_) {
    bias.position_q = positions_;
    return bias;
  }
  // A block of query rows, which only evaluation makes: its positions go up when they are needed.
  std::vector<int32_t> block;
  block.reserve(size_t(batches_ * rows));
  for (int64_t sequence = 0; sequence < batches_; ++sequence)
    for (int64_t i = query_begin; i < query_begin + rows; ++i)
      block.push_back(int32_t(values_[size_t(sequence * length_ + i)]));
  bias.position_q = context_->from_host(std::span<const int32_t>(block), {batches_, rows},
                                        Lifetime::step, "query positions");
  return bias;
}

std::vector<Distances> distances_of_layers(const SequenceContext& context) {
  std::vector<Distances> result;
  result.reserve(context.positions.size());
  for (const DrawnPositions& drawn : context.positions) result.emplace_back(context, drawn);
  return result;
}

Tensor upload_pairs(Context& context, const Distances& distances, int64_t rows,
                    const std::vector<int32_t>& pairs) {
  const int64_t length = distances.length();
  const Shape shape =
      distances.batches() == 1 ? Shape{rows, length} : Shape{distances.batches(), rows, length};
  return context.from_host(std::span<const int32_t>(pairs), shape, Lifetime::step, "pair index");
}

Tensor relative_key_rows(const Tensor& vectors, int64_t heads, const Distances& distances,
                         int64_t query_begin, int64_t rows) {
  const int64_t length = distances.length(), width = vectors.size(-1);
  if (distances.pattern() == Distances::Pattern::toeplitz)
    return ops::reshape(vectors, {heads, 2 * length - 1, width});
  const Tensor pairs = ops::reshape(vectors, {heads, length, length, width});
  return rows == length ? pairs : ops::slice(pairs, 1, query_begin, query_begin + rows);
}

}  // namespace longshot
