// rope: rotations and products of query (1, 2, 3, 4) and key (0.5, -1, 2, 0.25) made with separate
// double-precision code. The length scalings are in rope_scaling_test.cpp.
#include "tests/nn/encodings/encoding_support.h"

using namespace longshot;
using namespace longshot::testing;

namespace {

EncodingModel of_head(int64_t head_dim) {
  return {head_dim, 1, head_dim, 1, false, 0, 0};
}

// `lanes` rotated to `position`.
Doubles rotated(const std::string& options, const Doubles& lanes, double position) {
  EncodingBench bench("type = 'rope'\n" + options, of_head(int64_t(lanes.size())));
  const SequenceContext sequence = bench.sequence(positions_at({position}));
  StepScope step(bench.context);
  bench.encoding->prepare(sequence);
  const Tensor x = bench.tensor(lanes, {1, 1, 1, int64_t(lanes.size())});
  const auto [query, key] = bench.encoding->on_query_key(x, x, sequence, 0);
  check_values(query.to_doubles(), key.to_doubles(), 0);
  return query.to_doubles();
}

double product(const std::string& options, double query_position, double key_position) {
  const Doubles query = rotated(options, {1, 2, 3, 4}, query_position);
  const Doubles key = rotated(options, {0.5, -1, 2, 0.25}, key_position);
  double sum = 0;
  for (size_t i = 0; i < 4; ++i) sum += query[i] * key[i];
  return sum;
}

const std::string kHalf = "pairing = 'half'\n";

}  // namespace

TEST_CASE("rope: both pairings") {
  check_values(rotated("", {1, 2, 3, 4}, 0), {1, 2, 3, 4});
  check_values(rotated("", {1, 2, 3, 4}, 1),
               {-1.1426396637476532, 1.922075596544176, 2.9598506679133294, 4.029799501669161});
  check_values(rotated("", {1, 2, 3, 4}, 3),
               {-1.27223251272018, -1.8388649851410237, 2.87866810043698, 4.088186635603437});
  check_values(rotated(kHalf, {1, 2, 3, 4}, 1),
               {-1.9841106485555495, 1.959900667496664, 2.4623779024123156, 4.019799668334994});
}

TEST_CASE("rope: products depend on distance alone") {
  CHECK(std::abs(product("", 0, 0) - 5.5) < 1e-12);
  CHECK(std::abs(product("", 5, 3) - 5.659235114308729) < 1e-12);
  CHECK(std::abs(product("", 105, 103) - 5.659235114308729) < 1e-12);
  CHECK(std::abs(product("", 3, 5) - 9.586405488664786) < 1e-12);
  CHECK(std::abs(product(kHalf, 0, 0) - 5.5) < 1e-12);
  CHECK(std::abs(product(kHalf, 5, 3) + 3.160111730690163) < 1e-12);
  CHECK(std::abs(product(kHalf, 105, 103) + 3.160111730690163) < 1e-12);
  CHECK(std::abs(product(kHalf, 3, 5) + 4.249397157755842) < 1e-12);
  CHECK(std::abs(product("", 7, 3) - 9.198548495685023) <
        1e-12);  // two of the drawn positions 0, 3, 7
}

TEST_CASE("rope: the pairings agree once the lanes are reordered") {
  // half from interleaved: lanes 0, 2, 1, 3
  const Doubles interleaved = rotated("", {1, 2, 3, 4}, 5);
  const Doubles half = rotated(kHalf, {1, 3, 2, 4}, 5);
  check_values({half[0], half[2], half[1], half[3]}, interleaved);
}

TEST_CASE("rope: part of the lanes, with an exponent of that part") {
  const Doubles x = {1, 2, 3, 4, 5, 6, 7, 8};
  const Doubles half = {
      -3.1440391170241875, 1.9196053465598233, -0.33914308281574557, 4.039197360052977, 5, 6, 7, 8};
  check_values(rotated(kHalf + "fraction = 0.5", x, 2), half);
  check_values(rotated(kHalf + "width = 4", x, 2), half);
  check_values(rotated("fraction = 0.5", x, 2), {-2.234741690198506, 0.0770037537313969,
                                                 2.919405353226401, 4.05919602674631, 5, 6, 7, 8});
  CHECK(std::abs(half[1] - 1.1654558325022384) >
        0.5);  // what an exponent of the head's width gives
}

TEST_CASE("rope: odd, wide and fractional widths are refused, naming width and head") {
  const auto says = [](const std::string& options, int64_t head_dim, const std::string& a,
                       const std::string& b) {
    const std::string message = refusal("type = 'rope'\n" + options, of_head(head_dim));
    CHECK_THAT(message, ContainsSubstring(a));
    CHECK_THAT(message, ContainsSubstring(b));
  };
  says("width = 33", 64, "33 rotated lanes", "head width 64");
  says("width = 5", 8, "5 rotated lanes", "head width 8");
  says("width = 10", 8, "10 rotated lanes", "head width 8");
  says("fraction = 0.25", 12, "3 rotated lanes", "head width 12");
  says("fraction = 0.3", 8, "2.4", "head width 8");
  says("fraction = 0.0", 8, "0 rotated lanes", "head width 8");
  says("", 5, "5 rotated lanes", "head width 5");
  says("fraction = 0.5\nwidth = 2", 8, "contradict", "head width 8");
  CHECK_THAT(refusal("type = 'rope'\npairing = 'neighbour'"), ContainsSubstring("pairing"));
  CHECK_THAT(refusal("type = 'rope'\nbase = 0.0"), ContainsSubstring("base"));
}

TEST_CASE("rope: tables are the double ones rounded, whatever the model's type") {
  // Head width 32, lane 1, position 1857: phase 1044.26784. Phases formed in f32 give 0.306711.
  EncodingBench bench("type = 'rope'", of_head(32), DType::f32);
  const SequenceContext sequence = bench.sequence(positions_at({1857}));
  StepScope step(bench.context);
  bench.encoding->prepare(sequence);
  Doubles lanes(32, 0.0);
  lanes[2] = 1;
  const Tensor x = bench.tensor(lanes, {1, 1, 1, 32});
  const Doubles got = bench.encoding->on_query_key(x, x, sequence, 0).first.to_doubles();
  CHECK(std::abs(got[2] - 0.30669280981876773) < 1e-7);
}

TEST_CASE("rope: a model built short and then called long has the rows of a long one") {
  const auto rows = [](EncodingBench& bench, int64_t length) {
    const SequenceContext sequence = bench.sequence(contiguous_positions(length));
    StepScope step(bench.context);
    bench.encoding->prepare(sequence);
    const Tensor x = bench.tensor(Doubles(size_t(length * 8), 1.0), {1, 1, length, 8});
    return bench.encoding->on_query_key(x, x, sequence, 0).first.to_doubles();
  };
  EncodingBench grown("type = 'rope'", of_head(8), DType::f32);
  EncodingBench fresh("type = 'rope'", of_head(8), DType::f32);
  rows(grown, 128);
  const Doubles after = rows(grown, 4096);
  CHECK(after == rows(fresh, 4096));
  CHECK(Doubles(after.begin() + 4094 * 8, after.begin() + 4095 * 8) !=
        Doubles(after.begin() + 4095 * 8, after.end()));
  // Every length, in any order, is the beginning of the long one.
  for (const int64_t length : {512, 513, 511, 8, 64, 2048})
    CHECK(rows(grown, length) == Doubles(after.begin(), after.begin() + length * 8));
}

TEST_CASE("rope: traits") {
  EncodingBench bench("type = 'rope'");
  const EncodingTraits traits = bench.encoding->traits();
  CHECK((traits.query_key && traits.relative && traits.fractional));
  CHECK(traits.capacity == 0);
  CHECK(bench.store.parameter_count() == 0);
}
