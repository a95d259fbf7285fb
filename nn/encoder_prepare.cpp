// Host work for one batch: checks, positions, masks and weights, and their upload. After it,
// forward() is operations only, so that a step can be captured and replayed.
#include <algorithm>
#include <cmath>

#include "nn/block.h"
#include "nn/encoder.h"

namespace longshot {

namespace {

// Positions of a padded batch: every sequence gets what it would get alone, counted from its first
// real token. Padding before it has position 0, padding after it repeats the last position.
DrawnPositions draw_by_sequence(const PositionSampler& sampler, PositionRequest request,
                                const SequenceContext& sequence) {
  const int64_t batch = sequence.batch, length = sequence.length;
  DrawnPositions result;
  result.batches = batch;
  result.values.assign(size_t(batch * length), 0.0);
  bool contiguous = true, distances = false;
  for (int64_t b = 0; b < batch; ++b) {
    const int64_t tokens = sequence.lengths[size_t(b)], first = sequence.first_token[size_t(b)];
    if (tokens == 0) continue;
    PositionRequest one = request;
    one.batch = 1;
    one.length = tokens;
    one.first_sample = request.first_sample + b;
    const DrawnPositions drawn = sampler.draw(one);
    contiguous = contiguous && drawn.contiguous && first == 0;
    result.fractional = result.fractional || drawn.fractional;
    result.limit = std::max(result.limit, drawn.limit);
    double* row = result.values.data() + b * length;
    for (int64_t t = first; t < length; ++t)
      row[t] = drawn.values[size_t(std::min(t - first, tokens - 1))];
    if (drawn.distances.empty()) continue;
    if (!distances) result.distances.assign(size_t(batch * length), 0.0);
    distances = true;
    double* distance = result.distances.data() + b * length;
    for (int64_t r = 0; r < length; ++r)
      distance[r] = drawn.distances[size_t(std::min(r, tokens - 1))];
  }
  if (contiguous) {  // padding on the right only: one row serves all
    result.batches = 1;
    result.contiguous = true;
    result.limit = length;
    result.values.resize(size_t(length));
    for (int64_t t = 0; t < length; ++t) result.values[size_t(t)] = double(t);
  }
  return result;
}

}  // namespace

void Encoder::check_input(const EncoderInput& input) const {
  LONGSHOT_CHECK(input.batch >= 1 && input.length >= 1,
                 "encoder: a batch of {} sequences of {} tokens; both must be at least 1",
                 input.batch, input.length);
  LONGSHOT_CHECK(int64_t(input.tokens.size()) == input.batch * input.length,
                 "encoder: {} tokens given for a batch of ({}, {})", input.tokens.size(),
                 input.batch, input.length);
  for (size_t i = 0; i < input.tokens.size(); ++i)
    LONGSHOT_CHECK(input.tokens[i] >= 0 && input.tokens[i] < interface_.input_vocabulary,
                   "encoder: token {} at row {}, position {}; the vocabulary has tokens 0 to {}",
                   input.tokens[i], int64_t(i) / input.length, int64_t(i) % input.length,
                   interface_.input_vocabulary - 1);
  LONGSHOT_CHECK(input.lengths.empty() || int64_t(input.lengths.size()) == input.batch,
                 "encoder: {} sequence lengths given for a batch of {}", input.lengths.size(),
                 input.batch);
  for (size_t b = 0; b < input.lengths.size(); ++b)
    LONGSHOT_CHECK(input.lengths[b] >= 0 && input.lengths[b] <= input.length,
                   "encoder: row {} has {} real tokens of {}", b, input.lengths[b], input.length);
  if (interface_.mean_pool) return;
  LONGSHOT_CHECK(input.output_begin >= 0 && input.outputs >= 0 &&
                     input.output_begin + input.outputs <= input.length &&
                     (input.outputs > 0 || input.output_begin == 0),
                 "encoder: predictions at positions {} to {} of a sequence of {} tokens",
                 input.output_begin, input.output_begin + input.outputs - 1, input.length);
}

void Encoder::draw_positions(const EncoderInput& input, SequenceContext& sequence) const {
  PositionRequest request;
  request.batch = input.batch;
  request.length = input.length;
  request.training = input.training;
  request.seed = input.seed;
  request.step = input.step;
  request.first_sample = input.first_sample;
  const int64_t draws =
      positions_->per_layer() ? std::max<int64_t>(1, options_.layers) : int64_t(1);
  for (int64_t layer = 0; layer < draws; ++layer) {
    request.layer = int(layer);
    sequence.positions.push_back(sequence.padded ? draw_by_sequence(*positions_, request, sequence)
                                                 : positions_->draw(request));
    if (sequence.positions.back().fractional && !encoding_->traits().fractional)
      throw UsageError(fmt::format(
          "{}: encoding {} takes whole positions only, but {} gives fractions",
          encoding_config_.find("type")->where().to_string(),
          encoding_config_.find("type")->to_toml(), positions_config_.find("type")->to_toml()));
  }
}

// ln of the number of tokens a query may see (Chiang and Cholak 2022, "Overcoming a theoretical
// limitation of self-attention"): bidirectional, the sequence's real length; causal, its tokens up
// to the query's own. One visible token gives ln 1 = 0, and then the only logit does not matter.
void Encoder::prepare_row_scale(PreparedInput& prepared) const {
  const SequenceContext& sequence = prepared.sequence;
  const int64_t rows = sequence.padded ? sequence.batch : 1, length = sequence.length;
  std::vector<double> scale(size_t(rows * length));
  for (int64_t b = 0; b < rows; ++b) {
    const int64_t tokens = sequence.lengths[size_t(b)], first = sequence.first_token[size_t(b)];
    for (int64_t t = 0; t < length; ++t) {
      const int64_t visible = sequence.causal ? std::min(t - first + 1, tokens) : tokens;
      scale[size_t(b * length + t)] = std::log(double(std::max<int64_t>(visible, 1)));
    }
  }
  prepared.row_scale = context_.from_doubles(scale, {rows, length}, Lifetime::step, "row scale");
}

void Encoder::prepare_masks(PreparedInput& prepared) const {
  SequenceContext& sequence = prepared.sequence;
  const int64_t batch = sequence.batch, length = sequence.length;
  const bool composable = encoding_->traits().logits;
  if (sequence.padded) {
    std::vector<int32_t> mask(size_t(batch * length), 0);
    for (int64_t b = 0; b < batch; ++b) {
      const auto first = mask.begin() + b * length + sequence.first_token[size_t(b)];
      std::fill(first, first + sequence.lengths[size_t(b)], 1);
    }
    sequence.key_mask = context_.from_host(std::span<const int32_t>(mask), {batch, length},
                                           Lifetime::step, "key mask");
    if (composable)
      prepared.key_allowed = context_.from_doubles(std::vector<double>(mask.begin(), mask.end()),
                                                   {batch, length}, Lifetime::step, "allowed keys");
  }
  if (sequence.causal && composable) {
    std::vector<double> allowed(size_t(2 * length - 1), 0.0);
    std::fill(allowed.begin(), allowed.begin() + length, 1.0);
    prepared.distance_allowed =
        context_.from_doubles(allowed, {2 * length - 1}, Lifetime::step, "allowed distances");
  }
}

void Encoder::prepare_pooling(PreparedInput& prepared) const {
  const SequenceContext& sequence = prepared.sequence;
  const int64_t batch = sequence.batch, length = sequence.length;
  std::vector<double> weight(size_t(batch * length), 0.0);
  for (int64_t b = 0; b < batch; ++b) {
    const int64_t tokens = sequence.lengths[size_t(b)];
    const auto first = weight.begin() + b * length + sequence.first_token[size_t(b)];
    std::fill(first, first + tokens, tokens > 0 ? 1.0 / double(tokens) : 0.0);
  }
  prepared.pool_weight =
      context_.from_doubles(weight, {batch, length}, Lifetime::step, "pool weight");
}

PreparedInput Encoder::prepare(const EncoderInput& input) {
  check_input(input);
  PreparedInput prepared;
  SequenceContext& sequence = prepared.sequence;
  sequence.context = &context_;
  sequence.batch = input.batch;
  sequence.length = input.length;
  sequence.lengths.assign(size_t(input.batch), int32_t(input.length));
  sequence.first_token.assign(size_t(input.batch), 0);
  for (size_t b = 0; b < input.lengths.size(); ++b) {
    sequence.lengths[b] = input.lengths[b];
    if (input.left_padded) sequence.first_token[b] = int32_t(input.length) - input.lengths[b];
    sequence.padded = sequence.padded || input.lengths[b] != input.length;
  }
  sequence.training = input.training;
  sequence.causal = options_.causal;
  sequence.seed = input.seed;
  sequence.step = input.step;
  draw_positions(input, sequence);

  prepared.tokens =
      context_.from_host(input.tokens, {input.batch, input.length}, Lifetime::step, "tokens");
  prepared.output_begin = input.output_begin;
  prepared.outputs = input.outputs;
  prepare_masks(prepared);
  if (options_.log_n_scaling) prepare_row_scale(prepared);
  if (interface_.mean_pool) prepare_pooling(prepared);
  encoding_->prepare(sequence);
  return prepared;
}

}  // namespace longshot
