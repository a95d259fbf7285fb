// alibi: a penalty on the attention logits that grows linearly with distance (Press et al. 2022),
// added after the 1 / sqrt(head width):
//   symmetric    bias[h, i, j] = -m_h |p_j - p_i|
//   ruoss        keys before the query: -m_h (|p_j - p_i| - 0.5); after: as symmetric (Ruoss et al.
//   2023) left_right   the first half of the heads sees only keys up to the query, the second half
//   only keys from it
//                on, both with the symmetric penalty (a suggestion of ALiBi's authors for encoders)
// Slopes for H heads, a power of two: m_k = 2^(-8k / H), k = 1 .. H. Otherwise those of the largest
// power of two c below H, then every second slope of 2c heads: the published code, not the paper's
// formula.
//
// The shortcut of storing -m j for every row equals this only under a causal mask; here distance is
// distance.
#include <bit>
#include <cmath>
#include <vector>

#include "core/context.h"
#include "nn/relative.h"

namespace longshot {
namespace {

constexpr const char* kName = "alibi";
// What stands for "not seen" in left_right: finite, so that nothing computes infinity minus
// infinity, and far below every logit.
constexpr double kUnseen = -1e9;

struct AlibiOptions {
  std::string variant = "symmetric";
  void fields(FieldVisitor& visit) {
    visit.field("variant", variant,
                "how the two directions differ: not at all, by half a step, or by heads",
                one_of({"symmetric", "ruoss", "left_right"}));
  }
};

std::vector<double> slopes_for(int64_t heads) {
  const auto geometric = [](int64_t count, int64_t k) {
    return std::exp2(-8.0 * double(k) / double(count));
  };
  const int64_t whole = int64_t(std::bit_floor(uint64_t(heads)));
  std::vector<double> slopes;
  for (int64_t k = 1; k <= whole; ++k) slopes.push_back(geometric(whole, k));
  for (int64_t k = 1; int64_t(slopes.size()) < heads; k += 2)
    slopes.push_back(geometric(2 * whole, k));
  return slopes;
}

class Alibi final : public PositionalEncoding {
 public:
  Alibi(const AlibiOptions& options, const EncodingModel& model, const ModuleScope&)
      : options_(options), heads_(model.heads) {
    if (options_.variant != "left_right") {
      slopes_ = slopes_for(heads_);
      return;
    }
    if (model.causal)
      throw UsageError(fmt::format(
          "encoding {}: variant left_right has heads that see only later tokens; in a causal model "
          "use symmetric",
          kName));
    if (heads_ % 2 != 0)
      throw UsageError(fmt::format(
          "encoding {}: variant left_right needs an even number of heads, not {}", kName, heads_));
    slopes_ = slopes_for(heads_ / 2);
    slopes_.insert(slopes_.end(), slopes_.begin(), slopes_.begin() + heads_ / 2);
  }

  EncodingTraits traits() const override {
    EncodingTraits traits;
    traits.logits = true;
    traits.relative = true;
    traits.distance_table = true;
    traits.fractional = true;
    traits.beyond = "runs; the penalty goes on growing with distance";
    return traits;
  }

  void prepare(const SequenceContext& context) override {
    distances_ = distances_of_layers(context);
    biases_.clear();
    for (const Distances& distances : distances_) {
      if (distances.has_table())
        biases_.push_back(table(*context.context, distances));
      else if (context.training)
        biases_.push_back(dense(*context.context, distances, 0, context.length));
      else
        biases_.emplace_back();  // made per block of query rows, so that memory stays bounded
    }
  }

  LogitBias on_logits(const Tensor& query, const Tensor&, const SequenceContext& context, int layer,
                      int64_t query_begin) override {
    const Distances& distances = of_layer(distances_, layer);
    const Tensor& prepared = of_layer(biases_, layer);
    const int64_t rows = query.size(2);
    if (distances.has_table()) return distances.table_bias(prepared, query_begin, rows);
    LogitBias bias;
    bias.dense = prepared.defined() && rows == context.length
                     ? prepared
                     : dense(*context.context, distances, query_begin, rows);
    return bias;
  }

 private:
  // distance: p_key - p_query
  double bias(int64_t head, double distance) const {
    const double penalty = -slopes_[size_t(head)] * std::abs(distance);
    if (options_.variant == "ruoss" && distance < 0) return penalty + 0.5 * slopes_[size_t(head)];
    if (options_.variant == "left_right" && (head < heads_ / 2 ? distance > 0 : distance < 0))
      return kUnseen;
    return penalty;
  }

  Tensor table(Context& context, const Distances& distances) const {
    std::vector<double> values;
    values.reserve(size_t(heads_) * distances.columns().size());
    for (int64_t head = 0; head < heads_; ++head)
      for (const double distance : distances.columns()) values.push_back(bias(head, distance));
    return context.from_doubles(values, {heads_, int64_t(distances.columns().size())},
                                Lifetime::step, "alibi table");
  }

  Tensor dense(Context& context, const Distances& distances, int64_t query_begin,
               int64_t rows) const {
    const std::vector<double> pairs =
        over_pairs<double>(distances, query_begin, rows, [](double distance) { return distance; });
    const int64_t block = rows * distances.length();
    std::vector<double> values;
    values.reserve(pairs.size() * size_t(heads_));
    for (int64_t sequence = 0; sequence < distances.batches(); ++sequence)
      for (int64_t head = 0; head < heads_; ++head)
        for (int64_t pair = 0; pair < block; ++pair)
          values.push_back(bias(head, pairs[size_t(sequence * block + pair)]));
    return context.from_doubles(values, {distances.batches(), heads_, rows, distances.length()},
                                Lifetime::step, "alibi bias");
  }

  AlibiOptions options_;
  int64_t heads_;
  std::vector<double> slopes_;
  std::vector<Distances> distances_;
  std::vector<Tensor> biases_;  // table (H, 2R - 1) or dense (1 or B, H, T, T), by layer
};

const RegisterType<PositionalEncoding, Alibi, AlibiOptions> kRegister{
    kName, "a penalty on attention that grows with distance (Press et al. 2022)"};

}  // namespace
}  // namespace longshot
