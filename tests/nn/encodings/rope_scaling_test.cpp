// rope's length scalings, read back from what they do: at position 1 the pair with lanes (1, 0)
// becomes amplitude (cos f, sin f). Expected frequencies were made with separate double-precision
// code.
#include <numbers>

#include "tests/nn/encodings/encoding_support.h"

using namespace longshot;
using namespace longshot::testing;

namespace {

struct Reading {
  Doubles frequencies, amplitudes;
};

EncodingModel of_head(int64_t head_dim, int64_t train_length = 0) {
  return {head_dim, 1, head_dim, 1, false, train_length, 0};
}

// Frequencies that sequence `row` of a batch is rotated with.
Reading read(EncodingBench& bench, const SequenceContext& sequence, int64_t head_dim,
             int64_t row = 0) {
  StepScope step(bench.context);
  bench.encoding->prepare(sequence);
  Doubles lanes(size_t(sequence.batch * sequence.length * head_dim), 0.0);
  for (size_t i = 0; i < lanes.size(); i += 2) lanes[i] = 1;
  const Tensor x = bench.tensor(lanes, {sequence.batch, 1, sequence.length, head_dim});
  const Doubles got = bench.encoding->on_query_key(x, x, sequence, 0).first.to_doubles();
  Reading reading;
  for (int64_t t = 0; t < head_dim; t += 2) {
    const size_t at = size_t((row * sequence.length + 1) * head_dim + t);
    reading.frequencies.push_back(std::atan2(got[at + 1], got[at]));
    reading.amplitudes.push_back(std::hypot(got[at], got[at + 1]));
  }
  return reading;
}

Reading scaled(const std::string& options, const EncodingModel& model = of_head(8),
               int64_t length = 4, bool training = false) {
  EncodingBench bench("type = 'rope'\n" + options, model);
  return read(bench, bench.sequence(contiguous_positions(length), 1, training), model.head_dim);
}

void check_frequencies(const Doubles& got, const Doubles& expected) {
  REQUIRE(got.size() == expected.size());
  for (size_t t = 0; t < got.size(); ++t) CHECK(std::abs(got[t] / expected[t] - 1) < 1e-11);
}

const Doubles kPlain = {1.0, 0.1, 0.01, 0.001};

}  // namespace

TEST_CASE("rope scaling: none") {
  check_frequencies(scaled("").frequencies, kPlain);
  check_frequencies(scaled("base = 500000").frequencies,
                    {1.0, 0.03760603093086393, 0.001414213562373095, 5.318295896944988e-05});
}

TEST_CASE("rope scaling: linear and ntk") {
  check_frequencies(scaled("scaling = 'linear'\nfactor = 4").frequencies,
                    {0.25, 0.025, 0.0025, 0.00025});
  check_frequencies(scaled("scaling = 'ntk'\nfactor = 4").frequencies,
                    {1.0, 0.06299605249474366, 0.003968502629920499, 0.00025});
  check_frequencies(
      scaled("scaling = 'linear'\noriginal_length = 32\ntarget_length = 128").frequencies,
      {0.25, 0.025, 0.0025, 0.00025});
  CHECK(scaled("scaling = 'linear'\nfactor = 4").amplitudes == Doubles(4, 1.0));
}

TEST_CASE("rope scaling: dynamic follows each sequence's own length") {
  const std::string options = "scaling = 'dynamic'\nfactor = 2\noriginal_length = 16";
  const auto at = [&](int64_t length) { return scaled(options, of_head(8), length).frequencies; };
  // base' = base (2 n / 16 - 1)^(8 / 6): the second frequency is base'^(-1/4).
  const Doubles at_32 = {1.0, 0.06933612743506347, 0.004807498567691361, 0.0003333333333333334};
  const Doubles at_64 = {1.0, 0.052275795857471025, 0.0027327588325319844, 0.00014285714285714287};
  check_frequencies(at(8), kPlain);
  check_frequencies(at(16), kPlain);
  check_frequencies(at(17),
                    {1.0, 0.09614997135382723, 0.009244816991341796, 0.0008888888888888889});
  check_frequencies(at(32), at_32);
  check_frequencies(at(64), at_64);
  CHECK(std::abs(std::pow(at(32)[1], -4) / 43267.487109222246 - 1) < 1e-10);
  CHECK(std::abs(std::pow(at(64)[1], -4) / 133905.18279406722 - 1) < 1e-10);

  // One model, a padded batch: the short row is not rotated with the long row's factor.
  EncodingBench bench("type = 'rope'\n" + options, of_head(8));
  SequenceContext padded = bench.sequence(contiguous_positions(64), 2);
  padded.padded = true;
  padded.lengths = {8, 64};
  check_frequencies(read(bench, padded, 8, 0).frequencies, kPlain);
  check_frequencies(read(bench, padded, 8, 1).frequencies, at_64);
  // And back to a short one: bit for bit what a fresh model gives.
  for (const int64_t length : {12, 16}) {
    const Reading after = read(bench, bench.sequence(contiguous_positions(length)), 8);
    CHECK(after.frequencies == at(length));
  }
  // The training length stands in for original_length.
  check_frequencies(scaled("scaling = 'dynamic'\nfactor = 2", of_head(8, 16), 32).frequencies,
                    at_32);
}

TEST_CASE("rope scaling: yarn") {
  const std::string options = "scaling = 'yarn'\nfactor = 4\noriginal_length = 2048\n";
  const Reading reading = scaled(options);
  check_frequencies(reading.frequencies, {1.0, 0.1, 0.00625, 0.00025});
  for (const double amplitude : reading.amplitudes)
    CHECK(std::abs(amplitude - 1.138629436111989) < 1e-12);
  check_frequencies(scaled(options + "truncate = false").frequencies,
                    {1.0, 0.1, 0.005056971521129435, 0.00025});
  check_frequencies(scaled("scaling = 'yarn'\nfactor = 4\noriginal_length = 4").frequencies,
                    {1.0, 0.025, 0.0025, 0.00025});

  // Head width 64, factor 16, length 4096: the ramp runs from pair 10 to pair 23.
  const Reading wide = scaled("scaling = 'yarn'\nfactor = 16\noriginal_length = 4096", of_head(64));
  for (int t = 0; t < 32; ++t) {
    const double plain = std::pow(10000.0, -2.0 * t / 64);
    const double ramp = std::min(1.0, std::max(0.0, (t - 10) / 13.0));
    CHECK(std::abs(wide.frequencies[size_t(t)] / (plain / 16 * ramp + plain * (1 - ramp)) - 1) <
          1e-11);
  }
  CHECK(std::abs(wide.amplitudes[0] - 1.2772588722239782) < 1e-12);
}

TEST_CASE("rope scaling: a given attention factor is the one used") {
  const std::string options = "scaling = 'yarn'\nfactor = 4\noriginal_length = 2048\n";
  for (const double amplitude : scaled(options + "attention_factor = 1.0").amplitudes)
    CHECK(std::abs(amplitude - 1.0) < 1e-14);
  for (const double amplitude : scaled(options + "attention_factor = 1.5").amplitudes)
    CHECK(std::abs(amplitude - 1.5) < 1e-14);
  for (const double amplitude :
       scaled("scaling = 'yarn'\nfactor = 1\noriginal_length = 2048").amplitudes)
    CHECK(std::abs(amplitude - 1.0) < 1e-14);
}

TEST_CASE("rope scaling: llama3") {
  const std::string options =
      "base = 500000\nscaling = 'llama3'\nfactor = 8\noriginal_length = 8192\n";
  check_frequencies(scaled(options).frequencies,
                    {1.0, 0.03760603093086393, 0.0005248461609929547, 6.647869871181235e-06});
  // A low factor of 3 puts the third pair (8192 / 4442.88 = 1.84 waves) below the ramp.
  const Doubles low = scaled(options + "low_frequency_factor = 3").frequencies;
  CHECK(std::abs(low[2] / (0.001414213562373095 / 8) - 1) < 1e-11);
}

TEST_CASE("rope scaling: at evaluation only") {
  const std::string options = "scaling = 'linear'\nfactor = 4\n";
  for (const std::string& scaling :
       {options, std::string("scaling = 'yarn'\nfactor = 4\noriginal_length = 2048\n")}) {
    const std::string late = scaling + "scaling_at = 'evaluation'";
    check_frequencies(scaled(late, of_head(8), 4, true).frequencies, kPlain);
    CHECK(std::abs(scaled(late, of_head(8), 4, true).amplitudes[0] - 1) < 1e-15);
    CHECK(scaled(late, of_head(8), 4, false).frequencies == scaled(scaling).frequencies);
    CHECK(scaled(scaling, of_head(8), 4, true).frequencies == scaled(scaling).frequencies);
  }
}

TEST_CASE("rope scaling: what contradicts itself or has no effect is refused") {
  const auto says = [](const std::string& options, const std::string& expected,
                       int64_t head_dim = 8) {
    CHECK_THAT(refusal("type = 'rope'\n" + options, of_head(head_dim)),
               ContainsSubstring(expected));
  };
  says("scaling = 'yarn'\nfactor = 4\noriginal_length = 16\ntarget_length = 32", "contradicts");
  says("scaling = 'linear'", "needs factor");
  says("scaling = 'linear'\nfactor = 0.5", "below 1");
  says("scaling = 'yarn'\nfactor = 4", "needs original_length");
  says("scaling = 'dynamic'\nfactor = 4", "needs original_length");
  says("scaling = 'llama3'\nfactor = 4", "needs original_length");
  says("factor = 4", "factor has no effect");
  says("scaling = 'linear'\nfactor = 4\nattention_factor = 1", "attention_factor has no effect");
  says("scaling = 'ntk'\nfactor = 4\nlow_frequency_factor = 2",
       "low_frequency_factor has no effect");
  says("scaling_at = 'evaluation'", "scaling_at has no effect");
  says("scaling = 'ntk'\nfactor = 4", "at least 4 rotated lanes", 2);
  says("scaling = 'llama3'\nfactor = 4\noriginal_length = 16\nhigh_frequency_factor = 1",
       "high_frequency_factor");
  says("scaling = 'stretch'", "scaling");
  says("scale = 2", "scale");
}
