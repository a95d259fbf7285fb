// transformer_xl: the sign of distances, one logit by hand, and the agreement of its two ways to
// score positions.
#include "tests/nn/encodings/encoding_support.h"

using namespace longshot;
using namespace longshot::testing;

namespace {

Doubles identity(int64_t n) {
  Doubles result(size_t(n * n), 0.0);
  for (int64_t i = 0; i < n; ++i) result[size_t(i * n + i)] = 1;
  return result;
}

// One head of width 4, W = identity, u = v = 0: the bias is q . R(i - j) / 2.
struct PlainBench : EncodingBench {
  explicit PlainBench(const std::string& options = "")
      : EncodingBench("type = 'transformer_xl'\ndeviation = 0.0\n" + options) {
    set_parameter("encoding.layer.0.position.weight", identity(4));
  }
};

// Channel `channel` of R for every pair of the given positions.
Doubles channel_of(int64_t channel, const DrawnPositions& positions,
                   const std::string& options = "") {
  PlainBench bench(options);
  const int64_t length = int64_t(positions.values.size());
  Doubles query(size_t(length * 4), 0.0);
  for (int64_t i = 0; i < length; ++i) query[size_t(i * 4 + channel)] = 2;
  return bench.bias(bench.sequence(positions), 1, 4, 0, 0, query).values;
}

}  // namespace

TEST_CASE("transformer_xl: distance is query minus key, sines first") {
  const DrawnPositions three = contiguous_positions(3);
  const double s1 = 0.8414709848078965, s2 = 0.9092974268256817;
  check_values(channel_of(0, three), {0, -s1, -s2, s1, 0, -s1, s2, s1, 0});
  const double slow1 = 0.009999833334166664, slow2 = 0.01999866669333308;
  check_values(channel_of(1, three), {0, -slow1, -slow2, slow1, 0, -slow1, slow2, slow1, 0});
  const double c1 = 0.5403023058681398, c2 = -0.4161468365471424;
  check_values(channel_of(2, three), {1, c1, c2, c1, 1, c1, c2, c1, 1});
  check_values(channel_of(3, three),
               {1, 0.9999500004166653, 0.9998000066665778, 0.9999500004166653, 1,
                0.9999500004166653, 0.9998000066665778, 0.9999500004166653, 1});
}

TEST_CASE("transformer_xl: above the diagonal stand distances of their own sign") {
  // sin(x / 100) is nearly x / 100: the whole matrix of i - j can be read off.
  Doubles read = channel_of(1, contiguous_positions(3));
  for (double& value : read) value = std::asin(value) * 100;
  check_values(read, {0, -1, -2, 1, 0, -1, 2, 1, 0}, 1e-9);
}

TEST_CASE("transformer_xl: one logit by hand") {
  // q = (1, 0.5), k = (0.2, -0.4), u = (0.1, 0.1), v = (-0.1, 0.3), W R = (0.3, 0.7). At distance 0
  // R is (0, 1), so W's second column is W R.
  EncodingBench bench("type = 'transformer_xl'", {2, 1, 2, 1, false, 0, 0});
  bench.set_parameter("encoding.layer.0.content_bias", {0.1, 0.1});
  bench.set_parameter("encoding.layer.0.position_bias", {-0.1, 0.3});
  bench.set_parameter("encoding.layer.0.position.weight", {5, 0.3, 6, 0.7});
  const SequenceContext sequence = bench.sequence(contiguous_positions(1));
  StepScope step(bench.context);
  bench.encoding->prepare(sequence);
  const Tensor q = bench.tensor({1, 0.5}, {1, 1, 1, 2}),
               k = bench.tensor({0.2, -0.4}, {1, 1, 1, 2});
  const auto [query, key] = bench.encoding->on_query_key(q, k, sequence, 0);
  const LogitBias bias = bench.encoding->on_logits(query, key, sequence, 0, 0);
  const Doubles a = query.to_doubles(), b = key.to_doubles();
  const Doubles position = ops::relative_scores(query, 1, bias.relative).to_doubles();
  const double logit = (a[0] * b[0] + a[1] * b[1]) / std::sqrt(2.0) + position[0];
  CHECK(std::abs(logit - 0.5727564927611035) < 1e-12);
}

TEST_CASE("transformer_xl: any positions give what a table over distances gives") {
  const EncodingModel model = {8, 2, 4, 2, false, 0, 0};
  Doubles query;
  for (int i = 0; i < 2 * 2 * 5 * 4; ++i) query.push_back(std::sin(1.7 * i));
  EncodingBench bench("type = 'transformer_xl'\ndeviation = 0.5", model);
  const auto whole = bench.bias(bench.sequence(contiguous_positions(5), 2), 2, 4, 0, 0, query, 1);
  // The same distances from positions that are not known to step alike: rotated scores.
  const auto shifted =
      bench.bias(bench.sequence(positions_at({30, 31, 32, 33, 34}), 2), 2, 4, 0, 0, query, 1);
  check_values(shifted.values, whole.values, 1e-12);
  const auto rows =
      bench.bias(bench.sequence(positions_at({30, 31, 32, 33, 34, 0.5, 1.5, 2.5, 3.5, 4.5}, 2), 2),
                 2, 4, 0, 0, query, 1);
  check_values(rows.values, whole.values, 1e-12);
  // Drawn distances, one row for all and one a sequence.
  DrawnPositions distances = positions_at({0, 1, 2, 3, 4}, 1, 10);
  distances.distances = {0, 1, 2, 3, 4};
  check_values(bench.bias(bench.sequence(distances, 2), 2, 4, 0, 0, query, 1).values, whole.values,
               1e-12);
  DrawnPositions own = positions_at({0, 1, 2, 3, 4, 0, 1, 2, 3, 4}, 2, 10);
  own.distances = {0, 1, 2, 3, 4, 0, 1, 2, 3, 4};
  check_values(bench.bias(bench.sequence(own, 2), 2, 4, 0, 0, query, 1).values, whole.values,
               1e-12);
  // A clamp that nothing reaches, over a table and over an index.
  EncodingBench clamped("type = 'transformer_xl'\ndeviation = 0.5\nclamp = 4", model);
  check_values(
      clamped.bias(clamped.sequence(contiguous_positions(5), 2), 2, 4, 0, 0, query, 1).values,
      whole.values, 1e-12);
  check_values(
      clamped.bias(clamped.sequence(positions_at({30, 31, 32, 33, 34}), 2), 2, 4, 0, 0, query, 1)
          .values,
      whole.values, 1e-12);
}

TEST_CASE("transformer_xl: a block of query rows is those rows of the whole") {
  PlainBench bench;
  for (const DrawnPositions& positions : {contiguous_positions(4), positions_at({0, 2, 3, 9})}) {
    const SequenceContext sequence = bench.sequence(positions);
    Doubles query(16);
    for (size_t i = 0; i < 16; ++i) query[i] = double(i % 5) - 1;
    const auto whole = bench.bias(sequence, 1, 4, 0, 0, query);
    const auto block = bench.bias(sequence, 1, 4, 1, 2, {query.begin() + 4, query.begin() + 12});
    check_values(block.values, {whole.values.begin() + 4, whole.values.begin() + 12});
  }
}

TEST_CASE("transformer_xl: clamped distances") {
  const double s1 = 0.8414709848078965;
  check_values(channel_of(0, contiguous_positions(3), "clamp = 1"),
               {0, -s1, -s1, s1, 0, -s1, s1, s1, 0});
  check_values(channel_of(0, positions_at({0, 1, 7}), "clamp = 1"),
               {0, -s1, -s1, s1, 0, -s1, s1, s1, 0});
  CHECK_FALSE(PlainBench("clamp = 1").encoding->traits().fractional);
  CHECK(PlainBench().encoding->traits().fractional);
}

TEST_CASE("transformer_xl: parameters by layer, biases without decay, odd widths rounded up") {
  EncodingBench bench("type = 'transformer_xl'", {5, 1, 5, 2, false, 0, 0});
  CHECK(bench.parameter("encoding.layer.1.position.weight").shape() == Shape{5, 6});
  CHECK(bench.store.find("encoding.layer.1.position.weight")->decay);
  CHECK_FALSE(bench.store.find("encoding.layer.1.content_bias")->decay);
  CHECK_FALSE(bench.store.find("encoding.layer.1.position_bias")->decay);
  CHECK(bench.bias(bench.sequence(contiguous_positions(3)), 1, 5).values.size() == 9);
}
