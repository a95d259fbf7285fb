// learned: rows of a table, their gradient, and every way past its end.
#include "tests/nn/encodings/encoding_support.h"

using namespace longshot;
using namespace longshot::testing;

namespace {

const EncodingModel kModel = {2, 1, 2, 1, false, 0, 0};
const Doubles kTable = {10, 11, 20, 21, 30, 31, 40, 41};

EncodingBench bench_of(const std::string& options) {
  return EncodingBench("type = 'learned'\ncapacity = 4\n" + options, kModel);
}

}  // namespace

TEST_CASE("learned: each token gets the row of its position") {
  EncodingBench bench = bench_of("");
  bench.set_parameter("encoding.table", kTable);
  check_values(bench.code(bench.sequence(contiguous_positions(3)), 2), {10, 11, 20, 21, 30, 31}, 0);
  check_values(bench.code(bench.sequence(positions_at({1, 3, 0, 2}, 2), 2), 2),
               {20, 21, 40, 41, 10, 11, 30, 31}, 0);
}

TEST_CASE("learned: defaults") {
  EncodingBench bench("type = 'learned'", kModel);
  CHECK(bench.parameter("encoding.table").shape() == Shape{2048, 2});
  CHECK(bench.store.find("encoding.table")->decay);
  CHECK(bench.encoding->traits().capacity == 2048);
  CHECK_FALSE(bench.encoding->traits().fractional);
  const Doubles values = bench.parameter("encoding.table").to_doubles();
  double squares = 0;
  for (const double value : values) squares += value * value;
  // Deviation 0.02; the mean of 4096 squares lies within five standard errors, 5 sqrt(2 / 4096) =
  // 11 %.
  CHECK(std::abs(squares / 4096 / 0.0004 - 1) < 0.11);
}

TEST_CASE("learned: a row's gradient is the sum over the batch, and 0 past the sequence") {
  EncodingBench bench = bench_of("");
  const SequenceContext sequence = bench.sequence(contiguous_positions(2), 2, true);
  StepScope step(bench.context);
  bench.store.begin_gradients();
  bench.encoding->prepare(sequence);
  const Tensor code = bench.encoding->on_embeddings(bench.zeros({2, 2, 2}), sequence);
  const Tensor upstream = bench.tensor({1, 2, 3, 4, 10, 20, 30, 40}, {2, 2, 2});
  bench.context.tape().backward(ops::sum(ops::mul(code, upstream)));
  check_values(bench.parameter("encoding.table").gradient_to_doubles(),
               {11, 22, 33, 44, 0, 0, 0, 0}, 0);
}

TEST_CASE("learned: eight tokens fit into capacity 8 beside padding, nine do not") {
  EncodingBench bench("type = 'learned'\ncapacity = 8", kModel);
  SequenceContext padded = bench.sequence(contiguous_positions(8), 2);
  padded.padded = true;
  padded.lengths = {8, 3};
  CHECK(bench.code(padded, 2).size() == 32);
  const std::string message =
      error_of([&] { bench.code(bench.sequence(contiguous_positions(9)), 2); });
  CHECK_THAT(message, ContainsSubstring("encoding learned"));
  CHECK_THAT(message, ContainsSubstring("length 9"));
  CHECK_THAT(message, ContainsSubstring("position 8"));
  CHECK_THAT(message, ContainsSubstring("capacity is 8"));
  // Padding past the table is not an error: nobody reads it.
  SequenceContext long_padding = bench.sequence(contiguous_positions(12), 1);
  long_padding.padded = true;
  long_padding.lengths = {8};
  CHECK(bench.code(long_padding, 2).size() == 24);
  long_padding.lengths = {9};
  CHECK_THROWS_AS(bench.code(long_padding, 2), Error);
}

TEST_CASE("learned: beyond the capacity the chosen behaviour is what happens") {
  EncodingBench clamp = bench_of("beyond = 'clamp'");
  clamp.set_parameter("encoding.table", kTable);
  const Doubles clamped = clamp.code(clamp.sequence(contiguous_positions(6)), 2);
  check_values({clamped.begin() + 6, clamped.end()}, {40, 41, 40, 41, 40, 41}, 0);

  EncodingBench zero = bench_of("beyond = 'zero'");
  zero.set_parameter("encoding.table", kTable);
  const SequenceContext sequence = zero.sequence(contiguous_positions(6), 1, true);
  const Doubles zeroed = zero.code(sequence, 2);
  check_values({zeroed.begin() + 6, zeroed.end()}, {40, 41, 0, 0, 0, 0}, 0);
  StepScope step(zero.context);
  zero.store.begin_gradients();
  zero.encoding->prepare(sequence);
  zero.context.tape().backward(
      ops::sum(zero.encoding->on_embeddings(zero.zeros({1, 6, 2}), sequence)));
  check_values(zero.parameter("encoding.table").gradient_to_doubles(), Doubles(8, 1.0), 0);

  CHECK_THAT(clamp.encoding->traits().beyond, ContainsSubstring("the last one"));
  CHECK_THAT(zero.encoding->traits().beyond, ContainsSubstring("nothing"));
  CHECK_THAT(bench_of("").encoding->traits().beyond, ContainsSubstring("error"));
  CHECK_THAT(refusal("type = 'learned'\nbeyond = 'wrap'", kModel), ContainsSubstring("beyond"));
}

TEST_CASE("learned: training on inputs longer than the table is refused at once") {
  CHECK_THAT(refusal("type = 'learned'\ncapacity = 4", {2, 1, 2, 1, false, 5, 0}),
             ContainsSubstring("length 5"));
  CHECK(refusal("type = 'learned'\ncapacity = 4\nbeyond = 'clamp'", {2, 1, 2, 1, false, 5, 0}) ==
        "not refused");
}
