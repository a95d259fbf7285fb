// fraction_and_sign: p / n along one trained vector, (-1)^p along the other.
#include "tests/nn/encodings/encoding_support.h"

using namespace longshot;
using namespace longshot::testing;

TEST_CASE("fraction_and_sign: both numbers along their vectors") {
  EncodingBench bench("type = 'fraction_and_sign'", {2, 1, 2, 1, false, 0, 0});
  bench.set_parameter("encoding.vectors", {8, -4, 1, 0.5});  // a = (8, -4), b = (1, 0.5)
  // n = 4: fractions 0, 1/4, 1/2, 3/4; signs +, -, +, -
  check_values(bench.code(bench.sequence(contiguous_positions(4)), 2),
               {1, 0.5, 1, -1.5, 5, -1.5, 5, -3.5}, 1e-15);
  // The same position in a longer sequence: its fraction shrinks, its sign stays.
  const Doubles longer = bench.code(bench.sequence(contiguous_positions(8)), 2);
  check_values({longer[2], longer[3]}, {0, -1}, 1e-15);
}

TEST_CASE("fraction_and_sign: by each sequence's own length, not the padded one") {
  EncodingBench bench("type = 'fraction_and_sign'", {1, 1, 1, 1, false, 0, 0});
  bench.set_parameter("encoding.vectors", {1, 0});
  SequenceContext sequence = bench.sequence(contiguous_positions(4), 2);
  sequence.padded = true;
  sequence.lengths = {4, 2};
  const Doubles got = bench.code(sequence, 1);
  check_values({got.begin(), got.begin() + 6}, {0, 0.25, 0.5, 0.75, 0, 0.5}, 1e-15);
}

TEST_CASE("fraction_and_sign: gradients of both vectors") {
  EncodingBench bench("type = 'fraction_and_sign'", {1, 1, 1, 1, false, 0, 0});
  const SequenceContext sequence = bench.sequence(contiguous_positions(3), 2, true);
  StepScope step(bench.context);
  bench.store.begin_gradients();
  bench.encoding->prepare(sequence);
  bench.context.tape().backward(
      ops::sum(bench.encoding->on_embeddings(bench.zeros({2, 3, 1}), sequence)));
  // Two sequences of 0 + 1/3 + 2/3, and of 1 - 1 + 1.
  check_values(bench.parameter("encoding.vectors").gradient_to_doubles(), {2, 2}, 1e-14);
}
