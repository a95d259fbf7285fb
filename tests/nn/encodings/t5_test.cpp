// t5: buckets of distance. Expected buckets were made with exact integer arithmetic by separate
// code.
#include <map>

#include "tests/nn/encodings/encoding_support.h"

using namespace longshot;
using namespace longshot::testing;

namespace {

EncodingModel model_of(bool causal) {
  return {1, 1, 1, 1, causal, 0, 0};
}

// Bucket of each distance -reach + 1 .. reach - 1, by giving every bucket its own number as bias.
std::map<int64_t, int64_t> buckets(bool causal, int64_t reach, const std::string& options = "") {
  EncodingBench bench("type = 't5'\n" + options, model_of(causal));
  Doubles numbers(size_t(bench.parameter("encoding.table").size(0)));
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = double(i);
  bench.set_parameter("encoding.table", numbers);
  const auto bias = bench.bias(bench.sequence(positions_at({0, double(reach - 1)})), 1, 1);
  std::map<int64_t, int64_t> result;
  for (int64_t distance = 0; distance < reach; ++distance) {
    const auto pair = bench.bias(bench.sequence(positions_at({0, double(distance)})), 1, 1);
    result[distance] = int64_t(pair.at(0, 0, 1));
    result[-distance] = int64_t(pair.at(0, 1, 0));
  }
  CHECK(result[reach - 1] == int64_t(bias.at(0, 0, 1)));
  return result;
}

}  // namespace

TEST_CASE("t5: bidirectional buckets") {
  const std::map<int64_t, int64_t> got = buckets(false, 201);
  const int64_t first_distance[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91};
  for (int64_t bucket = 0; bucket < 16; ++bucket) {
    const int64_t from = first_distance[bucket];
    const int64_t to = bucket == 15 ? 201 : first_distance[bucket + 1];
    for (int64_t distance = from; distance < to; ++distance) {
      CHECK(got.at(-distance) == bucket);
      if (distance > 0) CHECK(got.at(distance) == bucket + 16);
    }
  }
  CHECK(got.at(1) == 17);
  CHECK(got.at(200) == 31);
}

TEST_CASE("t5: causal buckets") {
  const std::map<int64_t, int64_t> got = buckets(true, 201);
  const int64_t first_distance[] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10,
                                    11, 12, 13, 14, 15, 16, 19, 21, 24, 27, 31,
                                    35, 40, 46, 52, 59, 67, 77, 87, 99, 113};
  for (int64_t bucket = 0; bucket < 32; ++bucket) {
    const int64_t to = bucket == 31 ? 201 : first_distance[bucket + 1];
    for (int64_t distance = first_distance[bucket]; distance < to; ++distance)
      CHECK(got.at(-distance) == bucket);
  }
  CHECK(got.at(3) == 0);
}

TEST_CASE("t5: where the logarithms' quotient is whole, the bucket is the upper one") {
  // 8 one-way buckets, 4 exact, to 64: boundaries 4 16^(k/4) = 4, 8, 16, 32.
  const std::map<int64_t, int64_t> got = buckets(true, 80, "buckets = 8\nmax_distance = 64");
  CHECK(got.at(-7) == 4);
  CHECK(got.at(-8) == 5);
  CHECK(got.at(-15) == 5);
  CHECK(got.at(-16) == 6);
  CHECK(got.at(-32) == 7);
  CHECK(got.at(-79) == 7);
}

TEST_CASE("t5: every path to the bias gives the same gradient") {
  // Three tokens, upstream 1 everywhere: distance 0 three times, -1 and 1 twice, -2 and 2 once.
  Doubles expected(32, 0.0);
  expected[0] = 3, expected[1] = 2, expected[2] = 1, expected[17] = 2, expected[18] = 1;
  const auto gradient = [](const DrawnPositions& positions, bool by_table) {
    EncodingBench bench("type = 't5'", model_of(false));
    const SequenceContext sequence = bench.sequence(positions, 1, true);
    StepScope step(bench.context);
    bench.store.begin_gradients();
    bench.encoding->prepare(sequence);
    const Tensor x = bench.zeros({1, 1, 3, 1});
    const LogitBias bias = bench.encoding->on_logits(x, x, sequence, 0, 0);
    REQUIRE(bias.table.defined() == by_table);
    const Tensor all = by_table
                           ? ops::relative_shift(ops::repeat_rows(bias.table.reshape({5}), 3), 3)
                           : bias.dense;
    bench.context.tape().backward(ops::sum(all));
    return bench.parameter("encoding.table").gradient_to_doubles();
  };
  check_values(gradient(contiguous_positions(3), true), expected);
  check_values(gradient(positions_at({4, 5, 6}, 1, 1 << 20), false), expected);
  DrawnPositions distances = positions_at({4, 5, 6});
  distances.distances = {0, 1, 2};
  check_values(gradient(distances, true), expected);
}

TEST_CASE("t5: heads have columns of their own, and drawn distances rows of their own") {
  EncodingBench bench("type = 't5'\nbuckets = 4\nmax_distance = 2", {2, 2, 1, 1, false, 0, 0});
  bench.set_parameter("encoding.table", {1, 10, 2, 20, 3, 30, 4, 40});
  // Buckets: 0 for distance 0, 1 behind, 3 ahead (2 stands for distance 0 ahead, which does not
  // occur).
  const Doubles expected = {1, 4, 2, 1, 10, 40, 20, 10};
  check_values(bench.bias(bench.sequence(contiguous_positions(2)), 2, 1).values, expected);
  DrawnPositions drawn = positions_at({0, 1, 0, 1}, 2, 10);
  drawn.distances = {0, 7, 0, 1};
  const auto bias = bench.bias(bench.sequence(drawn, 2), 2, 1);
  CHECK(bias.batches == 2);
  Doubles twice = expected;
  twice.insert(twice.end(), expected.begin(), expected.end());
  check_values(bias.values, twice);
  check_values(bench.bias(bench.sequence(drawn, 2), 2, 1, 1, 1).values,
               {2, 1, 20, 10, 2, 1, 20, 10});
}

TEST_CASE("t5: the table is no weight to decay, and its options are checked") {
  EncodingBench bench("type = 't5'", {8, 8, 1, 3, false, 0, 0});
  CHECK(bench.parameter("encoding.table").shape() == Shape{32, 8});  // shared by the layers
  CHECK_FALSE(bench.store.find("encoding.table")->decay);
  CHECK_THAT(refusal("type = 't5'\nbuckets = 5"), ContainsSubstring("even"));
  CHECK_THAT(refusal("type = 't5'\nbuckets = 2"), ContainsSubstring("too few"));
  CHECK_THAT(refusal("type = 't5'\nmax_distance = 8"), ContainsSubstring("max_distance 8"));
}
