// shaw: trained vectors for each clipped distance, added to the keys and, if wished, to the values
// (Shaw et al. 2018). Per layer, shared by the heads; c = clip(p_j - p_i, -K, K) + K:
//   logit_ij = q_i . (k_j + a_key[c]) / sqrt(head width),  out_i = sum_j p_ij (v_j + a_value[c])
//   a_key, a_value (2K + 1, head width)
// Vectors of the keys alone go to the attention as relative keys (core/ops.h): a row for each
// distance, or for each pair where positions are drawn and pairs few. Otherwise the product with
// all 2K + 1 vectors is formed once a query and picked from; no (T, T, head width) array is made.
#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "core/context.h"
#include "core/ops.h"
#include "nn/relative.h"

namespace longshot {
namespace {

constexpr const char* kName = "shaw";

struct ShawOptions {
  int64_t clip = 16;
  bool values = false;
  void fields(FieldVisitor& visit) {
    visit.field("clip", clip, "K: distances beyond it count as K", at_least(1));
    visit.field("values", values, "vectors for the values too");
  }
};

class Shaw final : public PositionalEncoding {
 public:
  Shaw(const ShawOptions& options, const EncodingModel& model, const ModuleScope& scope)
      : clip_(options.clip),
        head_dim_(model.head_dim),
        scale_(1 / std::sqrt(double(model.head_dim))) {
    const Shape shape{2 * clip_ + 1, model.head_dim};
    for (int64_t layer = 0; layer < model.layers; ++layer) {
      const ModuleScope at = scope.sub(fmt::format("layer.{}", layer));
      keys_.push_back(at.declare("key", shape, Initializer::truncated_normal(scale_), true));
      if (options.values)
        values_.push_back(at.declare("value", shape, Initializer::truncated_normal(scale_), true));
    }
  }

  EncodingTraits traits() const override {
    EncodingTraits traits;
    traits.logits = true;
    traits.relative = true;
    traits.beyond = fmt::format("runs; distances beyond {} count as {}", clip_, clip_);
    return traits;
  }

  void prepare(const SequenceContext& context) override {
    distances_ = distances_of_layers(context);
    index_.clear();
    for (const Distances& distances : distances_)
      index_.push_back(context.training || relative_keys(distances)
                           ? index(*context.context, distances, 0, context.length)
                           : Tensor());
  }

  LogitBias on_logits(const Tensor& query, const Tensor&, const SequenceContext& context, int layer,
                      int64_t query_begin) override {
    const Distances& distances = of_layer(distances_, layer);
    const Tensor& prepared = of_layer(index_, layer);
    const int64_t rows = query.size(2);
    LogitBias bias;
    if (relative_keys(distances)) {
      const Tensor each = ops::embedding(prepared, keys_[size_t(layer)]);
      bias.relative.scale = scale_;
      bias.relative.rows = relative_key_rows(each, 1, distances, query_begin, rows);
      return bias;
    }
    // Evaluation makes it per block of query rows, so that memory stays bounded.
    const Tensor picked = prepared.defined() && rows == context.length
                              ? prepared
                              : index(*context.context, distances, query_begin, rows);
    bias.dense_of_query = true;
    bias.dense =
        ops::gather(ops::matmul(query, keys_[size_t(layer)], {false, true, scale_}), picked);
    if (!values_.empty()) {
      bias.relative_values = values_[size_t(layer)];
      bias.value_index = picked;
    }
    return bias;
  }

 private:
  bool relative_keys(const Distances& distances) const {
    return values_.empty() && distances.has_relative_keys(head_dim_);
  }

  // Which vector each distance takes (2T - 1), or each pair.
  Tensor index(Context& context, const Distances& distances, int64_t begin, int64_t rows) const {
    const double limit = double(clip_);
    if (relative_keys(distances) && distances.pattern() == Distances::Pattern::toeplitz) {
      std::vector<int32_t> ids;
      for (const double distance : distances.columns())
        ids.push_back(int32_t(std::clamp(distance, -limit, limit) + limit));
      return context.from_host(std::span<const int32_t>(ids), {int64_t(ids.size())}, Lifetime::step,
                               "distance index");
    }
    return upload_pairs(context, distances, rows,
                        over_pairs<int32_t>(distances, begin, rows, [limit](double distance) {
                          return int32_t(std::clamp(distance, -limit, limit) + limit);
                        }));
  }

  int64_t clip_, head_dim_;
  double scale_;
  std::vector<Parameter> keys_, values_;  // by layer
  std::vector<Distances> distances_;
  std::vector<Tensor> index_;  // (2T - 1), (T, T) or (B, T, T) i32, by drawn positions
};

const RegisterType<PositionalEncoding, Shaw, ShawOptions> kRegister{
    kName, "trained vectors for clipped distances, on keys and values (Shaw et al. 2018)"};

}  // namespace
}  // namespace longshot
