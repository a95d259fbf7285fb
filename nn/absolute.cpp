// Bounds on absolute positions and reserved input channels; see the header.
#include "nn/absolute.h"

#include <algorithm>

#include "core/ops.h"

namespace longshot {

namespace {

struct TokenRange {
  int64_t begin = 0, end = 0;
};

// Which columns of row `row` of the positions hold real tokens of some sequence.
TokenRange real_tokens(const SequenceContext& context, int64_t batches, int64_t row) {
  if (context.lengths.empty()) return {0, context.length};
  const auto range = [&](int64_t sequence) {
    const size_t s = size_t(sequence);
    const int64_t begin = context.first_token.empty() ? 0 : context.first_token[s];
    return TokenRange{begin, begin + context.lengths[s]};
  };
  if (batches > 1) return range(row);
  TokenRange all = range(0);
  for (int64_t sequence = 1; sequence < context.batch; ++sequence) {
    const TokenRange each = range(sequence);
    all = {std::min(all.begin, each.begin), std::max(all.end, each.end)};
  }
  return all;
}

}  // namespace

Limits beyond_choices() {
  return one_of({"error", "clamp", "zero"});
}

std::string describe_beyond(const Bound& bound) {
  const std::string past = fmt::format("positions from {} on ", bound.capacity);
  if (bound.beyond == "clamp") return past + "are treated as the last one";
  if (bound.beyond == "zero") return past + "get nothing";
  return past + "are an error";
}

void check_bound(const Bound& bound, const EncodingModel& model) {
  if (bound.capacity == 0 || bound.beyond != "error") return;
  if (model.train_length > bound.capacity)
    throw UsageError(fmt::format(
        "encoding {}: training has inputs of length {}, but its capacity is {}; choose a larger "
        "capacity, or beyond = \"clamp\" or \"zero\"",
        bound.encoding, model.train_length, bound.capacity));
}

BoundedPositions bounded_positions(const SequenceContext& context, const Bound& bound) {
  const DrawnPositions& drawn = context.positions_of(0);
  BoundedPositions result{drawn.batches, context.length, drawn.values,
                          std::vector<double>(drawn.values.size(), 1.0)};
  if (bound.capacity == 0) return result;
  const double last = double(bound.capacity - 1);
  for (int64_t row = 0; row < drawn.batches; ++row) {
    const TokenRange real = real_tokens(context, drawn.batches, row);
    for (int64_t t = 0; t < context.length; ++t) {
      double& value = result.values[size_t(row * context.length + t)];
      if (value <= last) continue;
      if (bound.beyond == "error" && t >= real.begin && t < real.end)
        throw Error(fmt::format(
            "encoding {}: a sequence of length {} reaches position {}, but the capacity is {} "
            "(positions 0 to {}); choose a larger capacity, or beyond = \"clamp\" or \"zero\"",
            bound.encoding, real.end - real.begin,
            drawn.values[size_t(row * context.length + real.end - 1)], bound.capacity,
            bound.capacity - 1));
      value = last;
      if (bound.beyond == "zero") result.present[size_t(row * context.length + t)] = 0.0;
    }
  }
  return result;
}

Tensor position_rows(const SequenceContext& context, const BoundedPositions& positions) {
  const std::vector<int32_t> rows(positions.values.begin(), positions.values.end());
  return context.context->from_host(std::span<const int32_t>(rows),
                                    {positions.batches, positions.length}, Lifetime::step,
                                    "positions");
}

Tensor add_code(const Tensor& x, const Tensor& code) {
  if (code.shape().rank() == x.shape().rank() && code.size(0) == 1 && x.size(0) != 1)
    return ops::add(x, ops::reshape(code, {code.size(1), code.size(2)}));
  return ops::add(x, code);
}

ReservedChannels::ReservedChannels(const std::string& encoding, int64_t dim, int64_t first,
                                   int64_t width)
    : dim_(dim), first_(first), width_(width) {
  if (first < 0 || first + width > dim)
    throw UsageError(fmt::format(
        "encoding {}: reserved channels {} to {} ({} of them) do not fit into the model's dim {}",
        encoding, first, first + width - 1, width, dim));
}

void ReservedChannels::prepare(const SequenceContext& context, int64_t batches,
                               std::span<const double> codes) {
  const int64_t length = context.length;
  std::vector<double> keep(size_t(dim_), 1.0);
  std::fill_n(keep.begin() + first_, width_, 0.0);
  keep_ = context.context->from_doubles(keep, {dim_}, Lifetime::step, "kept channels");
  std::vector<double> full(size_t(batches * length * dim_), 0.0);
  for (int64_t row = 0; row < batches * length; ++row)
    std::copy_n(codes.begin() + row * width_, width_, full.begin() + row * dim_ + first_);
  code_ =
      context.context->from_doubles(full, {batches, length, dim_}, Lifetime::step, "position code");
}

Tensor ReservedChannels::write(const Tensor& x) const {
  return add_code(ops::mul(x, keep_), code_);
}

}  // namespace longshot
