// Randomised positions (Ruoss et al. 2023, "Randomized positional encodings boost length
// generalization of transformers"): a sequence of n tokens gets n distinct positions out of 0 ..
// max - 1, drawn uniformly and sorted, so that training on short sequences meets the positions of
// long ones.
//
//   positions p_0 < p_1 < ... < p_(n-1),  each subset of 0 .. max - 1 equally likely
//   relative = "distances":  d_1 < ... < d_(n-1) out of 1 .. max - 1 the same way, and the r-th
//   neighbour
//                            of every token is at distance d_r (the paper's relative encodings)
//
// Drawing is also done at evaluation, as in the paper, unless `evaluate` says otherwise.
#include <vector>

#include "nn/position_sampler.h"
#include "nn/positions/draw_key.h"

namespace longshot {
namespace {

struct RandomizedOptions {
  int64_t max = 2048;
  std::string draw = "batch";
  bool per_layer = false;
  std::string evaluate = "drawn";
  int64_t draw_every = 16;
  std::string relative = "differences";
  void fields(FieldVisitor& visit) {
    // Above 2^24, f32 cannot hold every position.
    visit.field("max", max, "positions are drawn from 0 to max - 1", between(1, 16777216));
    visit.field("draw", draw, "in training, one draw for the whole batch or one for every sequence",
                one_of({"batch", "sequence"}));
    visit.field("per_layer", per_layer, "a fresh draw in every layer");
    visit.field(
        "evaluate", evaluate,
        "positions at evaluation: drawn, evenly spaced over 0 to max - 1, or 0, 1, 2, ... (off)",
        one_of({"drawn", "even", "off"}));
    visit.field("draw_every", draw_every,
                "at evaluation, samples that share a draw; 0: all samples of a length",
                at_least(0));
    visit.field(
        "relative", relative,
        "distances of relative encodings: differences of the drawn positions, or drawn distances, "
        "the same for every token (Ruoss et al.)",
        one_of({"differences", "distances"}));
  }
};

// `count` distinct whole numbers out of low .. low + range - 1, sorted, every subset equally
// likely. Floyd's method: for j = range - count .. range - 1 take a number up to j, or j itself
// when that one is taken.
void draw_sorted(RandomSequence& random, int64_t low, int64_t range, int64_t count, double* out) {
  std::vector<uint64_t> taken(size_t((range + 63) / 64), 0);
  for (int64_t j = range - count; j < range; ++j) {
    uint64_t pick = random.below(uint64_t(j) + 1);
    if (taken[pick / 64] >> (pick % 64) & 1) pick = uint64_t(j);
    taken[pick / 64] |= uint64_t(1) << (pick % 64);
  }
  for (size_t word = 0; word < taken.size(); ++word)
    for (uint64_t bits = taken[word]; bits != 0; bits &= bits - 1)
      *out++ = double(low + int64_t(word) * 64 + __builtin_ctzll(bits));
}

class Randomized final : public PositionSampler {
 public:
  explicit Randomized(const RandomizedOptions& options) : options_(options) {}

  DrawnPositions draw(const PositionRequest& request) const override {
    LONGSHOT_CHECK(request.length <= options_.max,
                   "positions randomized: a sequence of {} tokens needs {} positions, but max = {}",
                   request.length, request.length, options_.max);
    if (!request.training && options_.evaluate == "off") return plain(request.length);
    if (!request.training && options_.evaluate == "even") return even(request.length);

    const int64_t length = request.length;
    DrawnPositions drawn;
    drawn.limit = options_.max;
    const auto sample_of = [&](int64_t row) -> uint64_t {
      const uint64_t sample = uint64_t(request.first_sample + row);
      if (request.training) return options_.draw == "batch" ? 0 : sample;
      return options_.draw_every == 0 ? 0 : sample / uint64_t(options_.draw_every);
    };
    if (sample_of(0) != sample_of(request.batch - 1)) drawn.batches = request.batch;
    drawn.values.resize(size_t(drawn.batches * length));
    if (options_.relative == "distances") drawn.distances.resize(drawn.values.size(), 0.0);
    for (int64_t row = 0; row < drawn.batches; ++row) {
      RandomSequence random = position_draw(request, sample_of(row), 0);
      draw_sorted(random, 0, options_.max, length, drawn.values.data() + row * length);
      if (drawn.distances.empty()) continue;
      RandomSequence for_distances = position_draw(request, sample_of(row), 1);
      draw_sorted(for_distances, 1, options_.max - 1, length - 1,
                  drawn.distances.data() + row * length + 1);
    }
    return drawn;
  }

  bool per_layer() const override { return options_.per_layer; }
  int64_t samples_per_draw() const override {
    return options_.evaluate == "drawn" ? options_.draw_every : 0;
  }
  bool by_length() const override { return options_.evaluate != "off"; }
  int64_t capacity() const override { return options_.max; }
  int64_t position_limit() const override { return options_.max; }

 private:
  static DrawnPositions plain(int64_t length) {
    DrawnPositions drawn;
    drawn.contiguous = true;
    drawn.limit = length;
    for (int64_t t = 0; t < length; ++t) drawn.values.push_back(double(t));
    return drawn;
  }

  // floor(t (max - 1) / (n - 1)): distinct, because n <= max makes the spacing at least 1.
  DrawnPositions even(int64_t length) const {
    DrawnPositions drawn;
    drawn.limit = options_.max;
    for (int64_t t = 0; t < length; ++t)
      drawn.values.push_back(length == 1 ? 0.0 : double(t * (options_.max - 1) / (length - 1)));
    if (options_.relative == "distances") drawn.distances = drawn.values;
    return drawn;
  }

  RandomizedOptions options_;
};

const RegisterType<PositionSampler, Randomized, RandomizedOptions> kRegister{
    "randomized", "a sorted random choice out of 0 .. max - 1 (Ruoss et al. 2023)"};

}  // namespace
}  // namespace longshot
