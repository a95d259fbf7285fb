// scalar: position 3 of length 5 in every normalisation.
#include "tests/nn/encodings/encoding_support.h"

using namespace longshot;
using namespace longshot::testing;

namespace {

const EncodingModel kModel = {3, 1, 3, 1, false, 0, 0};

double number_at(const std::string& options, double position) {
  EncodingBench bench("type = 'scalar'\nmode = 'reserved'\nchannel = 1\n" + options, kModel);
  const Doubles code = bench.code(bench.sequence(positions_at({position})), 3);
  CHECK(code[0] == 0.0);
  CHECK(code[2] == 0.0);
  return code[1];
}

}  // namespace

TEST_CASE("scalar: normalisations") {
  CHECK(number_at("normalisation = 'raw'", 3) == 3.0);
  CHECK(std::abs(number_at("length = 5", 3) - 0.6) < 1e-15);
  CHECK(std::abs(number_at("normalisation = 'length_minus_one'\nlength = 5", 3) - 0.75) < 1e-15);
  CHECK(std::abs(number_at("normalisation = 'plus_one'\nlength = 5", 3) - 0.8) < 1e-15);
  CHECK(std::abs(number_at("length = 5", 7.5) - 1.5) < 1e-15);  // past L, fractional
  CHECK(number_at("normalisation = 'length_minus_one'\nlength = 1", 3) == 3.0);
}

TEST_CASE("scalar: by each sequence's own length, not the padded one") {
  EncodingBench bench("type = 'scalar'\nmode = 'reserved'\nnormalisation = 'current'",
                      {1, 1, 1, 1, false, 0, 0});
  SequenceContext sequence = bench.sequence(contiguous_positions(4), 2);
  sequence.padded = true;
  sequence.lengths = {4, 2};
  const Doubles got = bench.code(sequence, 1);
  check_values({got.begin(), got.begin() + 6}, {0, 0.25, 0.5, 0.75, 0, 0.5}, 1e-15);
  check_values(bench.code(bench.sequence(contiguous_positions(2)), 1), {0, 0.5}, 1e-15);
}

TEST_CASE("scalar: along a trained direction, with its gradient") {
  EncodingBench bench("type = 'scalar'\nlength = 2", {2, 1, 2, 1, false, 0, 0});
  bench.set_parameter("encoding.direction", {10, -4});
  check_values(bench.code(bench.sequence(contiguous_positions(3)), 2), {0, 0, 5, -2, 10, -4});
  const SequenceContext sequence = bench.sequence(contiguous_positions(3), 2, true);
  StepScope step(bench.context);
  bench.store.begin_gradients();
  bench.encoding->prepare(sequence);
  bench.context.tape().backward(
      ops::sum(bench.encoding->on_embeddings(bench.zeros({2, 3, 2}), sequence)));
  // two sequences of 0 + 0.5 + 1
  check_values(bench.parameter("encoding.direction").gradient_to_doubles(), {3, 3});
}

TEST_CASE("scalar: where the length comes from") {
  const auto one = [](const EncodingModel& model) {
    EncodingBench bench("type = 'scalar'\nmode = 'reserved'", model);
    return bench.code(bench.sequence(positions_at({10})), 1)[0];
  };
  CHECK(one({1, 1, 1, 1, false, 20, 0}) == 0.5);
  CHECK(one({1, 1, 1, 1, false, 20, 100}) == 0.1);  // the sampler gives positions up to 99
  CHECK_THAT(refusal("type = 'scalar'", kModel), ContainsSubstring("needs length"));
  CHECK_THAT(refusal("type = 'scalar'\nlength = 5\nchannel = 1", kModel),
             ContainsSubstring("channel"));
  CHECK_THAT(refusal("type = 'scalar'\nmode = 'reserved'\nlength = 5\nchannel = 3", kModel),
             ContainsSubstring("dim 3"));
}
