// one_hot: codes by hand.
#include "tests/nn/encodings/encoding_support.h"

using namespace longshot;
using namespace longshot::testing;

namespace {
const EncodingModel kModel = {6, 1, 6, 1, false, 0, 0};
}

TEST_CASE("one_hot: written over reserved channels") {
  EncodingBench bench("type = 'one_hot'\nmode = 'reserved'\ncapacity = 4\nfirst_channel = 1",
                      kModel);
  CHECK(bench.store.parameter_count() == 0);
  const SequenceContext sequence = bench.sequence(positions_at({2, 0}));
  StepScope step(bench.context);
  bench.encoding->prepare(sequence);
  const Tensor x = bench.tensor({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, {1, 2, 6});
  check_values(bench.encoding->on_embeddings(x, sequence).to_doubles(),
               {1, 0, 0, 1, 0, 6, 7, 1, 0, 0, 0, 12}, 0);
}

TEST_CASE("one_hot: the projection is a row for each position") {
  EncodingBench bench("type = 'one_hot'\ncapacity = 3", {2, 1, 2, 1, false, 0, 0});
  bench.set_parameter("encoding.projection", {1, 2, 3, 4, 5, 6});
  check_values(bench.code(bench.sequence(positions_at({2, 0})), 2), {5, 6, 1, 2}, 0);
  CHECK(bench.store.find("encoding.projection")->decay);
}

TEST_CASE("one_hot: past the capacity") {
  EncodingBench bench("type = 'one_hot'\nmode = 'reserved'\ncapacity = 4", kModel);
  const std::string message =
      error_of([&] { bench.code(bench.sequence(contiguous_positions(5)), 6); });
  CHECK_THAT(message, ContainsSubstring("encoding one_hot"));
  CHECK_THAT(message, ContainsSubstring("length 5"));
  CHECK_THAT(message, ContainsSubstring("capacity is 4"));

  EncodingBench clamp("type = 'one_hot'\nmode = 'reserved'\ncapacity = 4\nbeyond = 'clamp'",
                      kModel);
  check_values(clamp.code(clamp.sequence(positions_at({4})), 6), {0, 0, 0, 1, 0, 0}, 0);
  EncodingBench zero("type = 'one_hot'\nmode = 'reserved'\ncapacity = 4\nbeyond = 'zero'", kModel);
  check_values(zero.code(zero.sequence(positions_at({4})), 6), Doubles(6, 0.0), 0);
  EncodingBench projected("type = 'one_hot'\ncapacity = 4\nbeyond = 'zero'", kModel);
  check_values(projected.code(projected.sequence(positions_at({4})), 6), Doubles(6, 0.0), 0);
}

TEST_CASE("one_hot: options that cannot be meant are refused") {
  CHECK_THAT(refusal("type = 'one_hot'\nmode = 'reserved'", kModel), ContainsSubstring("dim 6"));
  CHECK_THAT(
      refusal("type = 'one_hot'\nmode = 'reserved'\ncapacity = 4\nfirst_channel = 3", kModel),
      ContainsSubstring("3 to 6"));
  CHECK_THAT(refusal("type = 'one_hot'\nfirst_channel = 1", kModel),
             ContainsSubstring("no effect") || ContainsSubstring("only with"));
  CHECK_THAT(refusal("type = 'one_hot'\ncapacity = 0", kModel), ContainsSubstring("capacity"));
}
