// alibi: slopes of the published code, matrices by hand, and softmax numbers made with separate
// double-precision code.
#include "tests/nn/encodings/encoding_support.h"

using namespace longshot;
using namespace longshot::testing;

namespace {

EncodingModel of_heads(int64_t heads, bool causal = false) {
  return {heads, heads, 1, 1, causal, 0, 0};
}

EncodingBench bench_of(int64_t heads, const std::string& options = "", bool causal = false) {
  return EncodingBench("type = 'alibi'\n" + options, of_heads(heads, causal));
}

Doubles slopes(int64_t heads) {
  EncodingBench bench = bench_of(heads);
  const auto bias = bench.bias(bench.sequence(contiguous_positions(2)), heads, 1);
  Doubles result;
  for (int64_t head = 0; head < heads; ++head) result.push_back(-bias.at(head, 0, 1));
  return result;
}

// The bias of one head with slope 1 / 256, in units of the slope.
Doubles unit_bias(const std::string& options, const DrawnPositions& positions, int64_t begin = 0,
                  int64_t rows = 0) {
  EncodingBench bench = bench_of(1, options);
  Doubles values = bench.bias(bench.sequence(positions), 1, 1, begin, rows).values;
  for (double& value : values) value *= 256;
  return values;
}

// Attention probabilities of the first head (slope 0.25) of four for given logits: the logits come
// in as queries against unit keys, the probabilities out as a sum of unit values.
Doubles probabilities(const Doubles& logits, bool causal) {
  EncodingBench bench("type = 'alibi'", {12, 4, 3, 1, causal, 0, 0});
  const SequenceContext sequence = bench.sequence(contiguous_positions(3));
  StepScope step(bench.context);
  bench.encoding->prepare(sequence);
  Doubles queries, keys;
  for (int head = 0; head < 4; ++head) {
    queries.insert(queries.end(), logits.begin(), logits.end());
    keys.insert(keys.end(), {1, 0, 0, 0, 1, 0, 0, 0, 1});
  }
  const Tensor query = bench.tensor(queries, {1, 4, 3, 3}), key = bench.tensor(keys, {1, 4, 3, 3});
  const LogitBias bias = bench.encoding->on_logits(query, key, sequence, 0, 0);
  ops::AttentionOptions options;
  options.causal = causal;
  options.bias_table = bias.table;
  const Doubles merged = ops::attention(query, key, key, options).to_doubles();  // (1, 3, 4 * 3)
  Doubles result;
  for (size_t row = 0; row < 3; ++row)
    result.insert(result.end(), merged.begin() + long(row * 12),
                  merged.begin() + long(row * 12 + 3));
  return result;
}

}  // namespace

TEST_CASE("alibi: slopes for any number of heads") {
  check_values(slopes(1), {0.00390625});
  check_values(slopes(2), {0.0625, 0.00390625});
  check_values(slopes(3), {0.0625, 0.00390625, 0.25});
  check_values(slopes(4), {0.25, 0.0625, 0.015625, 0.00390625});
  check_values(slopes(6), {0.25, 0.0625, 0.015625, 0.00390625, 0.5, 0.125});
  check_values(slopes(8), {0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625, 0.0078125, 0.00390625});
  check_values(slopes(10), {0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625, 0.0078125, 0.00390625,
                            0.7071067811865476, 0.3535533905932738});
  check_values(slopes(12),
               {0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625, 0.0078125, 0.00390625,
                0.7071067811865476, 0.3535533905932738, 0.1767766952966369, 0.08838834764831845});
  CHECK(std::abs(slopes(16)[0] - 0.7071067811865476) < 1e-15);
  // The paper's formula for all counts would begin with 0.39685 for six heads.
  CHECK(std::abs(slopes(6)[0] - 0.3968502629920499) > 0.1);
}

TEST_CASE("alibi: symmetric and left-offset matrices") {
  const Doubles symmetric = {0, -1, -2, -3, -1, 0, -1, -2, -2, -1, 0, -1, -3, -2, -1, 0};
  check_values(unit_bias("", contiguous_positions(4)), symmetric);
  check_values(unit_bias("variant = 'ruoss'", contiguous_positions(4)),
               {0, -1, -2, -3, -0.5, 0, -1, -2, -1.5, -0.5, 0, -1, -2.5, -1.5, -0.5, 0});
  // A block of query rows is those rows of the whole.
  check_values(unit_bias("", contiguous_positions(4), 2, 1), {-2, -1, 0, -1});
}

TEST_CASE("alibi: one query at the end of five keys") {
  EncodingBench bench = bench_of(8);
  const auto bias = bench.bias(bench.sequence(contiguous_positions(5)), 8, 1, 4, 1);
  check_values({bias.values.begin(), bias.values.begin() + 5}, {-2, -1.5, -1, -0.5, 0});
}

TEST_CASE("alibi: drawn positions, drawn distances, fractions, limits too large for a table") {
  const Doubles drawn = {0, -3, -7, -3, 0, -4, -7, -4, 0};
  check_values(unit_bias("", positions_at({0, 3, 7})), drawn);
  check_values(unit_bias("", positions_at({0, 3, 7}, 1, 1 << 20)), drawn);
  check_values(unit_bias("", positions_at({100, 103, 107})), drawn);
  check_values(unit_bias("", positions_at({0, 0.5, 7})), {0, -0.5, -7, -0.5, 0, -6.5, -7, -6.5, 0});
  check_values(unit_bias("", positions_at({0, 0.5, 7}), 1, 2), {-0.5, 0, -6.5, -7, -6.5, 0});
  check_values(unit_bias("", positions_at({0, 3, 7}), 1, 2), {-3, 0, -4, -7, -4, 0});
  // The r-th neighbour on either side is at distance 0, 2, 9.
  DrawnPositions distances = positions_at({1, 4, 5}, 1, 10);
  distances.distances = {0, 2, 9};
  check_values(unit_bias("", distances), {0, -2, -9, -2, 0, -2, -9, -2, 0});
  check_values(unit_bias("variant = 'ruoss'", distances), {0, -2, -9, -1.5, 0, -2, -8.5, -1.5, 0});

  // One draw a sequence.
  EncodingBench bench = bench_of(1);
  const auto rows = bench.bias(bench.sequence(positions_at({0, 3, 1, 2}, 2), 2), 1, 1);
  check_values(rows.values, {0, -3 / 256., -3 / 256., 0, 0, -1 / 256., -1 / 256., 0});
  DrawnPositions two = positions_at({0, 1, 0, 1}, 2, 10);
  two.distances = {0, 5, 0, 8};
  for (const bool training : {false, true}) {
    const auto bias = bench.bias(bench.sequence(two, 2, training), 1, 1);
    CHECK(bias.batches == 2);
    check_values(bias.values, {0, -5 / 256., -5 / 256., 0, 0, -8 / 256., -8 / 256., 0});
  }
}

TEST_CASE("alibi: a fresh draw in every layer") {
  EncodingBench bench("type = 'alibi'", {1, 1, 1, 2, false, 0, 0});
  SequenceContext sequence = bench.sequence(positions_at({0, 3}));
  sequence.positions.push_back(positions_at({0, 5}));
  CHECK(bench.bias(sequence, 1, 1, 0, 0, {}, 0).at(0, 0, 1) == -3 / 256.);
  CHECK(bench.bias(sequence, 1, 1, 0, 0, {}, 1).at(0, 0, 1) == -5 / 256.);
}

TEST_CASE("alibi: softmax of three tokens, both directions and causal") {
  const Doubles logits = {0.3, -0.2, 0.5, 0.1, 0.0, 0.4, 0.2, 0.7, -0.1};
  const Doubles both = probabilities(logits, false);
  check_values(both, {0.4518375564519545, 0.21343294894013334, 0.3347294946079122,
                      0.2847629293549306, 0.3308473223841733, 0.38438974826089617,
                      0.23049957597640508, 0.48796760617126406, 0.28153281785233086});
  check_values(probabilities(logits, true),
               {1, 0, 0, 0.46257015465625045, 0.5374298453437496, 0, 0.23049957597640508,
                0.48796760617126406, 0.28153281785233086});
  // Identical rows of -m j, right under a causal mask alone, would give 0.26367 first.
  CHECK(std::abs(both[0] - 0.26367459351433425) > 0.1);
}

TEST_CASE("alibi: the penalty is added after the scaling by head width") {
  // q . k = 8 at head width 64, slope 0.5, distance 3: 1 - 1.5, not (8 - 1.5) / 8.
  EncodingBench bench("type = 'alibi'", {512, 8, 64, 1, false, 0, 0});
  const auto bias = bench.bias(bench.sequence(contiguous_positions(4)), 8, 64);
  CHECK(8 / std::sqrt(64.0) + bias.at(0, 0, 3) == -0.5);
}

TEST_CASE("alibi: heads for the left and heads for the right") {
  EncodingBench bench = bench_of(4, "variant = 'left_right'");
  const auto bias = bench.bias(bench.sequence(contiguous_positions(3)), 4, 1);
  // Two heads a direction have slopes 1/16 and 1/256.
  for (const int64_t head : {0, 1}) {
    const double slope = head == 0 ? 0.0625 : 0.00390625;
    CHECK(bias.at(head, 2, 0) == -2 * slope);
    CHECK(bias.at(head, 1, 1) == 0.0);
    CHECK(std::exp(bias.at(head, 0, 1)) == 0.0);
    CHECK(std::isfinite(bias.at(head, 0, 1)));
    CHECK(bias.at(head + 2, 0, 2) == -2 * slope);
    CHECK(std::exp(bias.at(head + 2, 1, 0)) == 0.0);
  }
  CHECK_THAT(refusal("type = 'alibi'\nvariant = 'left_right'", of_heads(3)),
             ContainsSubstring("even number of heads, not 3"));
  CHECK_THAT(refusal("type = 'alibi'\nvariant = 'left_right'", of_heads(4, true)),
             ContainsSubstring("causal"));
  CHECK_THAT(refusal("type = 'alibi'\nvariant = 'both'", of_heads(4)),
             ContainsSubstring("variant"));
}

TEST_CASE("alibi: lengths in any order, each as in a fresh model") {
  EncodingBench used = bench_of(6);
  for (const int64_t length : {512, 513, 511, 8, 64, 2048}) {
    EncodingBench fresh = bench_of(6);
    const auto table = [length](EncodingBench& bench) {
      const SequenceContext sequence = bench.sequence(contiguous_positions(length));
      StepScope step(bench.context);
      bench.encoding->prepare(sequence);
      const Tensor x = bench.zeros({1, 6, 1, 1});
      return bench.encoding->on_logits(x, x, sequence, 0, 0).table.to_doubles();
    };
    const Doubles values = table(used);
    CHECK(values.size() == size_t(6 * (2 * length - 1)));
    CHECK(values == table(fresh));
  }
}
