// binary: the bits of 5 in four digits, and how many digits a capacity needs.
#include "tests/nn/encodings/encoding_support.h"

using namespace longshot;
using namespace longshot::testing;

namespace {

const EncodingModel kModel = {4, 1, 4, 1, false, 0, 0};

Doubles bits_of(const std::string& options, double position) {
  EncodingBench bench("type = 'binary'\nmode = 'reserved'\ncapacity = 16\n" + options, kModel);
  return bench.code(bench.sequence(positions_at({position})), 4);
}

}  // namespace

TEST_CASE("binary: orders and values") {
  check_values(bits_of("", 5), {1, 0, 1, 0}, 0);
  check_values(bits_of("order = 'msb_first'", 5), {0, 1, 0, 1}, 0);
  check_values(bits_of("values = 'plus_minus_one'", 5), {1, -1, 1, -1}, 0);
  check_values(bits_of("", 15), {1, 1, 1, 1}, 0);
  check_values(bits_of("", 0), {0, 0, 0, 0}, 0);
}

TEST_CASE("binary: width follows the capacity") {
  const int64_t cases[][2] = {{1, 1}, {2, 1}, {3, 2},   {4, 2},  {5, 3},
                              {8, 3}, {9, 4}, {128, 7}, {129, 8}};
  for (const auto& [capacity, width] : cases) {
    EncodingBench bench(fmt::format("type = 'binary'\ncapacity = {}", capacity), kModel);
    CHECK(bench.parameter("encoding.projection").shape() == Shape{width, 4});
  }
  EncodingBench wide("type = 'binary'\ncapacity = 4\nwidth = 5", kModel);
  CHECK(wide.parameter("encoding.projection").size(0) == 5);
}

TEST_CASE("binary: projected bits") {
  EncodingBench bench("type = 'binary'\ncapacity = 8", {2, 1, 2, 1, false, 0, 0});
  bench.set_parameter("encoding.projection", {1, 10, 2, 20, 4, 40});
  check_values(bench.code(bench.sequence(positions_at({6, 5}, 2), 2), 2), {6, 60, 5, 50}, 0);
}

TEST_CASE("binary: past the capacity") {
  EncodingBench bench("type = 'binary'\ncapacity = 4", kModel);
  const std::string message =
      error_of([&] { bench.code(bench.sequence(contiguous_positions(5)), 4); });
  CHECK_THAT(message, ContainsSubstring("encoding binary"));
  CHECK_THAT(message, ContainsSubstring("length 5"));
  CHECK_THAT(message, ContainsSubstring("capacity is 4"));
  check_values(bits_of("beyond = 'clamp'", 16), {1, 1, 1, 1}, 0);
  check_values(bits_of("beyond = 'zero'\nvalues = 'plus_minus_one'", 16), {0, 0, 0, 0}, 0);
}

TEST_CASE("binary: options that cannot be meant are refused") {
  CHECK_THAT(refusal("type = 'binary'\ncapacity = 9\nwidth = 3", kModel),
             ContainsSubstring("3 bits"));
  CHECK_THAT(refusal("type = 'binary'\nmode = 'reserved'\ncapacity = 32", kModel),
             ContainsSubstring("dim 4"));
  CHECK_THAT(refusal("type = 'binary'\nfirst_channel = 2", kModel),
             ContainsSubstring("first_channel"));
}
