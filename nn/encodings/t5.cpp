// t5: a trained number for each head and bucket of distance, added to the attention logits (Raffel
// et al. 2020).
//   bias[h, i, j] = table[bucket(p_j - p_i), h], table (buckets, heads), shared by all layers
// Of b buckets (half of them for each direction, the second half for keys ahead; all of them in a
// causal model) the first e = b / 2 hold one distance each, the rest grow:
//   bucket(n) = n for n < e, else min(b - 1, e + floor(ln(n / e) / ln(max_distance / e) (b - e)))
// Added after the 1 / sqrt(head width), which T5 itself does not have.
#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "core/context.h"
#include "core/ops.h"
#include "nn/relative.h"

namespace longshot {
namespace {

constexpr const char* kName = "t5";

struct T5Options {
  int64_t buckets = 32;
  int64_t max_distance = 128;
  double deviation = 0.02;
  void fields(FieldVisitor& visit) {
    visit.field("buckets", buckets, "buckets of distance, both directions together", at_least(2));
    visit.field("max_distance", max_distance, "distances from here on share the last bucket",
                at_least(1));
    visit.field("deviation", deviation, "standard deviation of the initial values", at_least(0));
  }
};

class T5 final : public PositionalEncoding {
 public:
  T5(const T5Options& options, const EncodingModel& model, const ModuleScope& scope)
      : causal_(model.causal), heads_(model.heads), max_distance_(options.max_distance) {
    if (!causal_ && options.buckets % 2 != 0)
      throw UsageError(
          fmt::format("encoding {}: buckets = {} must be even, half of them for each direction",
                      kName, options.buckets));
    buckets_ = causal_ ? options.buckets : options.buckets / 2;
    exact_ = buckets_ / 2;
    if (exact_ < 1)
      throw UsageError(fmt::format("encoding {}: buckets = {} is too few, at least {} are needed",
                                   kName, options.buckets, causal_ ? 2 : 4));
    if (max_distance_ <= exact_)
      throw UsageError(fmt::format(
          "encoding {}: max_distance {} must be above the {} distances that have a bucket each",
          kName, max_distance_, exact_));
    table_ = scope.declare("table", {options.buckets, heads_},
                           Initializer::normal(options.deviation), false);
  }

  EncodingTraits traits() const override {
    EncodingTraits traits;
    traits.logits = true;
    traits.relative = true;
    traits.distance_table = true;
    traits.beyond = "runs; far distances share one bucket for each direction";
    return traits;
  }

  void prepare(const SequenceContext& context) override {
    distances_ = distances_of_layers(context);
    ids_.clear();
    for (const Distances& distances : distances_) {
      if (distances.has_table())
        ids_.push_back(column_ids(*context.context, distances));
      else if (context.training)
        ids_.push_back(pair_ids(*context.context, distances, 0, context.length));
      else
        ids_.emplace_back();  // made per block of query rows, so that memory stays bounded
    }
  }

  LogitBias on_logits(const Tensor& query, const Tensor&, const SequenceContext& context, int layer,
                      int64_t query_begin) override {
    const Distances& distances = of_layer(distances_, layer);
    const Tensor& prepared = of_layer(ids_, layer);
    const int64_t rows = query.size(2);
    if (distances.has_table()) {
      const Tensor columns = ops::embedding(prepared, table_);  // (2R - 1, H)
      return distances.table_bias(ops::transpose(columns, 0, 1), query_begin, rows);
    }
    const Tensor ids = prepared.defined() && rows == context.length
                           ? prepared
                           : pair_ids(*context.context, distances, query_begin, rows);
    const Tensor pairs = ops::reshape(ops::embedding(ids, table_),
                                      {distances.batches(), rows, context.length, heads_});
    LogitBias bias;
    bias.dense = ops::permute(pairs, std::array{0, 3, 1, 2});
    return bias;
  }

 private:
  int32_t bucket(double distance) const {
    int64_t first = 0;
    if (!causal_ && distance > 0) first = buckets_;
    const double size = causal_ ? std::max(-distance, 0.0) : std::abs(distance);
    if (size < double(exact_)) return int32_t(first + int64_t(size));
    // Where the quotient is a whole number, the logarithms may fall just short of it.
    const double grown = std::log(size / double(exact_)) /
                         std::log(double(max_distance_) / double(exact_)) *
                         double(buckets_ - exact_);
    return int32_t(first + std::min(buckets_ - 1, exact_ + int64_t(std::floor(grown + 1e-10))));
  }

  Tensor column_ids(Context& context, const Distances& distances) const {
    std::vector<int32_t> ids;
    for (const double distance : distances.columns()) ids.push_back(bucket(distance));
    return context.from_host(std::span<const int32_t>(ids), {int64_t(ids.size())}, Lifetime::step,
                             "buckets");
  }
  Tensor pair_ids(Context& context, const Distances& distances, int64_t begin, int64_t rows) const {
    return upload_pairs(context, distances, rows,
                        over_pairs<int32_t>(distances, begin, rows,
                                            [this](double distance) { return bucket(distance); }));
  }

  bool causal_;
  int64_t heads_, max_distance_;
  int64_t buckets_ = 0, exact_ = 0;  // of one direction
  Parameter table_;
  std::vector<Distances> distances_;
  std::vector<Tensor> ids_;  // bucket by column (2R - 1) or by pair (.., T, T), by layer
};

const RegisterType<PositionalEncoding, T5, T5Options> kRegister{
    kName, "a trained bias for each head and bucket of distance (Raffel et al. 2020)"};

}  // namespace
}  // namespace longshot
