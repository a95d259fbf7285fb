// synthetic_text: language modelling on a generated text with short and long range structure, for
// those without a file. Segments, windows and scores: data/byte_segments.h.
//
// A Markov chain over `symbols` letters, where each letter has four likely successors (1/2, 1/4,
// 1/8, 1/8), is interrupted: before each byte, with probability `copy_rate`, a passage of
// `copy_length` bytes begins that repeats what stood `d` bytes earlier, d log-uniform between
// min_distance and max_distance. The chain alone costs up to 1.75 bits a byte; only a model that
// finds the passage again, d bytes back, can predict a copied one better than that.
#include <cmath>
#include <vector>

#include "core/error.h"
#include "data/byte_segments.h"

namespace longshot {
namespace {

struct SyntheticTextOptions : SegmentOptions {
  int64_t bytes = 1 << 20;
  int64_t text_seed = 1;
  int64_t symbols = 26;
  double copy_rate = 0.02;
  int64_t copy_length = 24;
  int64_t min_distance = 32;
  int64_t max_distance = 1024;
  double valid_fraction = 0.05;
  double test_fraction = 0.05;
  void fields(FieldVisitor& visit) {
    visit.field("bytes", bytes, "bytes of the whole text", between(64, 1 << 30));
    visit.field("text_seed", text_seed, "another seed, another text; apart from the run's seed",
                at_least(0));
    visit.field("symbols", symbols, "letters of the alphabet", between(4, 94));
    visit.field("copy_rate", copy_rate, "probability that a copied passage begins",
                between(0.0, 1.0));
    visit.field("copy_length", copy_length, "bytes of a copied passage", at_least(1));
    visit.field("min_distance", min_distance, "shortest distance copied from", at_least(1));
    visit.field("max_distance", max_distance, "longest distance copied from", at_least(1));
    visit.field("valid_fraction", valid_fraction, "share of the text for validation",
                from_to_below(0, 1));
    visit.field("test_fraction", test_fraction, "share of the text for test", from_to_below(0, 1));
    SegmentOptions::fields(visit);
  }
};

std::vector<uint8_t> generate(const SyntheticTextOptions& options) {
  constexpr int kSuccessors = 4;
  const uint64_t symbols = uint64_t(options.symbols);
  const uint64_t seed = uint64_t(options.text_seed);
  // Streams of the text: 2^24 - 1 for the chain's table, 2^24 - 2 for the text. Examples use lower
  // ones.
  RandomSequence table({seed, RandomPurpose::data, 0xFFFFFF, 0});
  std::vector<uint8_t> successor(symbols * kSuccessors);
  for (uint8_t& next : successor) next = uint8_t(table.below(symbols));

  RandomSequence random({seed, RandomPurpose::data, 0xFFFFFE, 0});
  std::vector<uint8_t> text;
  text.reserve(size_t(options.bytes));
  const double ratio = std::log(double(options.max_distance) / double(options.min_distance));
  int64_t copying = 0, distance = 0;
  uint64_t letter = 0;
  while (int64_t(text.size()) < options.bytes) {
    if (copying == 0 && random.uniform() < options.copy_rate) {
      distance = int64_t(double(options.min_distance) * std::exp(random.uniform() * ratio));
      if (distance <= int64_t(text.size())) copying = options.copy_length;
    }
    if (copying > 0) {
      --copying;
      letter = uint64_t(text[text.size() - size_t(distance)]) - '!';
    } else {
      // The first one bit among three says which: 1/2, 1/4, 1/8, and 1/8 for none.
      const uint32_t bits = random.word() >> 29;
      const int which = bits & 1 ? 0 : bits & 2 ? 1 : bits & 4 ? 2 : 3;
      letter = successor[letter * kSuccessors + uint64_t(which)];
    }
    text.push_back(uint8_t('!' + letter));
  }
  return text;
}

class SyntheticText : public ByteSegments {
 public:
  explicit SyntheticText(const SyntheticTextOptions& options) : ByteSegments(options) {
    if (options.min_distance > options.max_distance)
      throw UsageError(
          fmt::format("task synthetic_text: min_distance = {} is greater than max_distance = {}",
                      options.min_distance, options.max_distance));
    text_ = generate(options);
    set_bytes(split_by_position(text_, options.valid_fraction, options.test_fraction),
              "synthetic_text");
  }

 private:
  std::vector<uint8_t> text_;
};

const RegisterType<Task, SyntheticText, SyntheticTextOptions> kRegister{
    "synthetic_text", "language modelling on generated text with long-range copies"};

}  // namespace
}  // namespace longshot
