// shaw: which vector each pair takes, and one logit by hand.
#include "tests/nn/encodings/encoding_support.h"

using namespace longshot;
using namespace longshot::testing;

TEST_CASE("shaw: clipped distances, key minus query") {
  EncodingBench bench("type = 'shaw'\nclip = 2\nvalues = true", {1, 1, 1, 1, false, 0, 0});
  const SequenceContext sequence = bench.sequence(contiguous_positions(4));
  StepScope step(bench.context);
  bench.encoding->prepare(sequence);
  const Tensor x = bench.zeros({1, 1, 4, 1});
  const LogitBias bias = bench.encoding->on_logits(x, x, sequence, 0, 0);
  CHECK(bias.value_index.to_host<int32_t>() ==
        std::vector<int32_t>{2, 3, 4, 4, 1, 2, 3, 4, 0, 1, 2, 3, 0, 0, 1, 2});
  CHECK(bias.value_index.shape() == Shape{4, 4});
  CHECK(bias.relative_values.shape() == Shape{5, 1});
  const LogitBias block = bench.encoding->on_logits(bench.zeros({1, 1, 2, 1}), x, sequence, 0, 1);
  CHECK(block.value_index.to_host<int32_t>() == std::vector<int32_t>{1, 2, 3, 4, 0, 1, 2, 3});
}

TEST_CASE("shaw: the logit's part is scaled like the product") {
  // q = (1, 2), k = (0.5, -1), a = (0.1, 0.2): (-1.5 + 0.5) / sqrt(2)
  EncodingBench bench("type = 'shaw'\nclip = 1", {2, 1, 2, 1, false, 0, 0});
  bench.set_parameter("encoding.layer.0.key", {9, 9, 0.1, 0.2, 9, 9});
  const auto bias = bench.bias(bench.sequence(contiguous_positions(1)), 1, 2, 0, 0, {1, 2});
  CHECK(std::abs((0.5 - 2.0) / std::sqrt(2.0) + bias.at(0, 0, 0) + 0.7071067811865475) < 1e-12);
}

TEST_CASE("shaw: the vector depends on the pair, the head and sequence do not matter") {
  EncodingBench bench("type = 'shaw'\nclip = 2", {2, 2, 1, 1, false, 0, 0});
  bench.set_parameter("encoding.layer.0.key", {-2, -1, 0, 1, 2});
  const Doubles ones(12, 1.0);
  const auto bias = bench.bias(bench.sequence(contiguous_positions(3), 2), 2, 1, 0, 0, ones);
  for (int64_t batch = 0; batch < bias.batches; ++batch)
    for (int64_t head = 0; head < 2; ++head)
      for (int64_t i = 0; i < 3; ++i)
        for (int64_t j = 0; j < 3; ++j) CHECK(bias.at(head, i, j, batch) == double(j - i));
  // Drawn positions: differences clipped at 2; drawn distances: by neighbour.
  const auto drawn =
      bench.bias(bench.sequence(positions_at({0, 1, 7, 0, 5, 6}, 2), 2), 2, 1, 0, 0, ones);
  CHECK(drawn.at(0, 0, 1, 0) == 1.0);
  CHECK(drawn.at(0, 0, 2, 0) == 2.0);
  CHECK(drawn.at(1, 2, 1, 1) == -1.0);
  DrawnPositions distances = positions_at({0, 1, 2, 0, 1, 2}, 2, 10);
  distances.distances = {0, 1, 2, 0, 2, 9};
  const auto neighbours = bench.bias(bench.sequence(distances, 2), 2, 1, 0, 0, ones);
  CHECK(neighbours.at(0, 1, 2, 0) == 1.0);
  CHECK(neighbours.at(0, 1, 2, 1) == 2.0);
  CHECK(neighbours.at(0, 1, 0, 1) == -2.0);
}

TEST_CASE("shaw: parameters by layer, values only when asked for") {
  EncodingBench bench("type = 'shaw'", {8, 2, 4, 2, false, 0, 0});
  CHECK(bench.parameter("encoding.layer.1.key").shape() == Shape{33, 4});
  CHECK(bench.store.find("encoding.layer.0.value") == nullptr);
  EncodingBench with_values("type = 'shaw'\nvalues = true", {8, 2, 4, 2, false, 0, 0});
  CHECK(with_values.parameter("encoding.layer.1.value").shape() == Shape{33, 4});
  CHECK_THAT(refusal("type = 'shaw'\nclip = 0"), ContainsSubstring("clip"));
}
