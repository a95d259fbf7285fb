// sinusoidal: values for base 10000 made with separate double-precision code.
#include "tests/nn/encodings/encoding_support.h"

using namespace longshot;
using namespace longshot::testing;

namespace {

EncodingModel of_dim(int64_t dim) {
  return {dim, 1, dim, 1, false, 0, 0};
}

Doubles row_at(const std::string& options, int64_t dim, double position) {
  EncodingBench bench("type = 'sinusoidal'\n" + options, of_dim(dim));
  return bench.code(bench.sequence(positions_at({position})), dim);
}

double dot(const Doubles& a, const Doubles& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace

TEST_CASE("sinusoidal: the three layouts") {
  check_values(row_at("", 4, 0), {0, 1, 0, 1});
  const Doubles one = {0.8414709848078965, 0.5403023058681398, 0.009999833334166664,
                       0.9999500004166653};
  check_values(row_at("layout = 'interleaved'", 4, 1), one);
  check_values(row_at("", 4, 2),
               {0.9092974268256817, -0.4161468365471424, 0.01999866669333308, 0.9998000066665778});
  check_values(row_at("", 4, 1000),
               {0.8268795405320025, 0.5623790762907029, -0.5440211108893698, -0.8390715290764524});
  check_values(row_at("layout = 'halves'", 4, 1),
               {0.8414709848078965, 0.009999833334166664, 0.5403023058681398, 0.9999500004166653});
  check_values(row_at("layout = 'halves'", 4, 2),
               {0.9092974268256817, 0.01999866669333308, -0.4161468365471424, 0.9998000066665778});
  check_values(row_at("layout = 'tensor2tensor'", 4, 1),
               {0.8414709848078965, 9.999999983333325e-05, 0.5403023058681398, 0.999999995});
  check_values(row_at("layout = 'tensor2tensor'", 4, 2), {0.9092974268256817, 0.0001999999986666665,
                                                          -0.4161468365471424, 0.9999999800000001});
  check_values(row_at("", 6, 3), {0.1411200080598672, -0.9899924966004454, 0.13879810108005053,
                                  0.990320699135675, 0.006463259070189645, 0.9999791129229608});
  check_values(row_at("layout = 'tensor2tensor'", 6, 3),
               {0.1411200080598672, 0.029995500202495647, 0.0002999999954999997,
                -0.9899924966004454, 0.9995500337489875, 0.9999999550000004});
  check_values(row_at("", 8, 10000),
               {-0.30561438888825215, -0.9521553682590148, 0.8268795405320025, 0.5623790762907029,
                -0.5063656411097588, 0.8623188722876839, -0.5440211108893698, -0.8390715290764524});
}

TEST_CASE("sinusoidal: the exponent is not doubled") {
  // What a loop over 0, 2, 4, .. that still writes 2t in the exponent gives for dim 4, position 1.
  const Doubles wrong = {0.8414709848078965, 0.9999500004166653, 9.999999983333334e-05,
                         0.9999999999995};
  const Doubles got = row_at("", 4, 1);
  CHECK(std::abs(got[1] - wrong[1]) > 0.4);
  CHECK(std::abs(got[2] - wrong[2]) > 0.009);
}

TEST_CASE("sinusoidal: odd and smallest widths") {
  check_values(row_at("", 5, 1), {0.8414709848078965, 0.5403023058681398, 0.025116222909773774,
                                  0.9996845379152098, 0.0006309573026154199});
  check_values(row_at("layout = 'halves'", 5, 1),
               {0.8414709848078965, 0.025116222909773774, 0.0006309573026154199, 0.5403023058681398,
                0.9996845379152098});
  check_values(row_at("layout = 'tensor2tensor'", 5, 1),
               {0.8414709848078965, 9.999999983333325e-05, 0.5403023058681398, 0.999999995, 0});
  check_values(row_at("layout = 'tensor2tensor'", 2, 1), {0.8414709848078965, 0.5403023058681398});
  check_values(row_at("", 1, 1), {0.8414709848078965});
  CHECK_THAT(refusal("type = 'sinusoidal'\nlayout = 'tensor2tensor'", of_dim(1)),
             ContainsSubstring("at least 2"));
}

TEST_CASE("sinusoidal: added to the scaled tokens of every sequence") {
  EncodingBench bench("type = 'sinusoidal'");
  const SequenceContext sequence = bench.sequence(contiguous_positions(2), 2);
  StepScope step(bench.context);
  bench.encoding->prepare(sequence);
  const Tensor x = bench.tensor(Doubles(16, 2.0), {2, 2, 4});
  const Doubles got = bench.encoding->on_embeddings(x, sequence).to_doubles();
  const Doubles expected = {
      2, 3, 2, 3, 2.8414709848078967, 2.5403023058681398, 2.0099998333341667, 2.999950000416665};
  check_values({got.begin(), got.begin() + 8}, expected);
  check_values({got.begin() + 8, got.end()}, expected);
}

TEST_CASE("sinusoidal: PE(p + k) is a rotation of PE(p), and the product depends on k alone") {
  CHECK(std::abs(dot(row_at("", 4, 5), row_at("", 4, 2)) - 0.009557537148542017) < 1e-12);
  for (const double k : {1.0, 7.0, 40.0}) {
    double first = 0;
    for (const double p : {0.0, 3.0, 100.0}) {
      const Doubles here = row_at("", 6, p), there = row_at("", 6, p + k);
      const double product = dot(here, there);
      if (p == 0.0) first = product;
      CHECK(std::abs(product - first) < 1e-12);
      for (int t = 0; t < 3; ++t) {
        const double angle = k * std::pow(10000.0, -2.0 * t / 6);
        const double sine = here[size_t(2 * t)], cosine = here[size_t(2 * t + 1)];
        CHECK(std::abs(there[size_t(2 * t)] - (sine * std::cos(angle) + cosine * std::sin(angle))) <
              1e-12);
        CHECK(std::abs(there[size_t(2 * t + 1)] -
                       (cosine * std::cos(angle) - sine * std::sin(angle))) < 1e-12);
      }
    }
  }
}

TEST_CASE("sinusoidal: drawn, shifted and fractional positions") {
  EncodingBench bench("type = 'sinusoidal'\nlayout = 'halves'");
  check_values(
      bench.code(bench.sequence(positions_at({0, 3, 7})), 4),
      {0, 0, 1, 1, 0.1411200080598672, 0.02999550020249566, -0.9899924966004454, 0.9995500337489875,
       0.6569865987187891, 0.06994284733753277, 0.7539022543433046, 0.9975510002532796});
  EncodingBench interleaved("type = 'sinusoidal'");
  check_values(interleaved.code(interleaved.sequence(positions_at({5, 6})), 4),
               {-0.9589242746631385, 0.28366218546322625, 0.04997916927067833, 0.9987502603949663,
                -0.27941549819892586, 0.960170286650366, 0.059964006479444595, 0.9982005399352042});
  check_values(
      interleaved.code(interleaved.sequence(positions_at({3.09})), 4),
      {0.05156976839853464, -0.9986693942378135, 0.030895082963247663, 0.9995226329847133});
  // One row of positions a sequence.
  const Doubles two = interleaved.code(interleaved.sequence(positions_at({0, 1, 5, 6}, 2), 2), 4);
  check_values({two.begin() + 4, two.begin() + 12},
               {0.8414709848078965, 0.5403023058681398, 0.009999833334166664, 0.9999500004166653,
                -0.9589242746631385, 0.28366218546322625, 0.04997916927067833, 0.9987502603949663});
}

TEST_CASE("sinusoidal: scale and base") {
  check_values(row_at("scale = 0.5", 4, 1), {0.8414709848078965 / 2, 0.5403023058681398 / 2,
                                             0.009999833334166664 / 2, 0.9999500004166653 / 2});
  // base 100: second frequency 100^(-1/2) = 0.1
  check_values(row_at("base = 100", 4, 10),
               {std::sin(10.0), std::cos(10.0), std::sin(1.0), std::cos(1.0)});
}

TEST_CASE("sinusoidal: f32 tables are the double ones rounded, at any position") {
  EncodingBench bench("type = 'sinusoidal'", of_dim(64), DType::f32);
  EncodingBench exact("type = 'sinusoidal'", of_dim(64));
  for (const double p : {16.0, 1024.0, 100000.0}) {
    const Doubles rounded = bench.code(bench.sequence(positions_at({p})), 64);
    const Doubles full = exact.code(exact.sequence(positions_at({p})), 64);
    for (size_t i = 0; i < full.size(); ++i) CHECK(std::abs(rounded[i] - full[i]) < 1e-7);
  }
}

TEST_CASE("sinusoidal: the textbook class of 80 rows runs at 80 and stops at 81") {
  const std::string textbook = "type = 'sinusoidal'\ncapacity = 80\n";
  EncodingBench bench(textbook, of_dim(312));
  CHECK(bench.encoding->traits().capacity == 80);
  CHECK(bench.code(bench.sequence(contiguous_positions(80)), 312).size() == 80 * 312);
  const std::string message =
      error_of([&] { bench.code(bench.sequence(contiguous_positions(81)), 312); });
  CHECK_THAT(message, ContainsSubstring("sinusoidal"));
  CHECK_THAT(message, ContainsSubstring("length 81"));
  CHECK_THAT(message, ContainsSubstring("capacity is 80"));
  CHECK_THAT(refusal(textbook, {312, 1, 312, 1, false, 81, 0}), ContainsSubstring("length 81"));

  EncodingBench clamp("type = 'sinusoidal'\ncapacity = 2\nbeyond = 'clamp'");
  const Doubles clamped = clamp.code(clamp.sequence(contiguous_positions(4)), 4);
  check_values({clamped.begin() + 12, clamped.end()}, {clamped.begin() + 4, clamped.begin() + 8},
               0);
  EncodingBench zero("type = 'sinusoidal'\ncapacity = 2\nbeyond = 'zero'");
  const Doubles zeroed = zero.code(zero.sequence(contiguous_positions(4)), 4);
  check_values({zeroed.begin() + 8, zeroed.end()}, Doubles(8, 0.0), 0);
  CHECK(zeroed[1] == 1.0);
}
