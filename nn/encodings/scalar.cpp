// scalar: the position as one number s(p),
//   projected  x_i + s(p_i) w, w (dim) trained
//   reserved   s(p_i) written over one channel of the input
// With L the length numbers are measured by and n the sequence's own length:
//   raw s = p;  length p / L;  length_minus_one p / (L - 1);  plus_one (p + 1) / L;  current p / n
// p / L passes 1 beyond L; p / n changes every token's code when its sequence grows.
#include <algorithm>
#include <optional>
#include <vector>

#include "core/context.h"
#include "core/ops.h"
#include "nn/absolute.h"

namespace longshot {
namespace {

constexpr const char* kName = "scalar";

struct ScalarOptions {
  std::string mode = "projected";
  std::string normalisation = "length";
  int64_t length = 0;
  int64_t channel = 0;
  double deviation = 1;
  void fields(FieldVisitor& visit) {
    visit.field("mode", mode, "added along a trained direction, or written over a reserved channel",
                one_of({"projected", "reserved"}));
    visit.field("normalisation", normalisation,
                "p, p / L, p / (L - 1), (p + 1) / L, or p / own length",
                one_of({"raw", "length", "length_minus_one", "plus_one", "current"}));
    visit.field("length", length, "L; 0: the sampler's limit, else the training length",
                at_least(0));
    visit.field("channel", channel, "reserved: which channel", at_least(0));
    visit.field("deviation", deviation, "projected: standard deviation of the initial direction",
                at_least(0));
  }
};

class Scalar final : public PositionalEncoding {
 public:
  Scalar(const ScalarOptions& options, const EncodingModel& model, const ModuleScope& scope)
      : options_(options) {
    const bool needs_length =
        options_.normalisation != "raw" && options_.normalisation != "current";
    if (options_.length == 0)
      options_.length = model.position_limit > 0 ? model.position_limit : model.train_length;
    if (needs_length && options_.length == 0)
      throw UsageError(fmt::format("encoding {}: normalisation \"{}\" needs length", kName,
                                   options_.normalisation));
    if (options_.mode == "reserved") {
      channels_.emplace(kName, model.dim, options_.channel, 1);
      return;
    }
    if (options_.channel != 0)
      throw UsageError(
          fmt::format("encoding {}: channel has an effect only with mode = \"reserved\"", kName));
    direction_ = scope.declare("direction", {1, model.dim},
                               Initializer::truncated_normal(options_.deviation), true);
  }

  EncodingTraits traits() const override {
    EncodingTraits traits;
    traits.embeddings = true;
    traits.fractional = true;
    traits.by_length = options_.normalisation == "current";
    traits.beyond = options_.normalisation == "current"
                        ? "runs; every token's number changes with its sequence's length"
                        : "runs; the number grows past those seen in training";
    return traits;
  }

  void prepare(const SequenceContext& context) override {
    const DrawnPositions& drawn = context.positions_of(0);
    // Own lengths make the codes per sequence, whenever the batch may hold different ones.
    const bool own =
        options_.normalisation == "current" && context.padded && !context.lengths.empty();
    const int64_t batches = own ? context.batch : drawn.batches, length = context.length;
    std::vector<double> codes;
    codes.reserve(size_t(batches * length));
    for (int64_t sequence = 0; sequence < batches; ++sequence) {
      const double* position = drawn.values.data() + (drawn.batches == 1 ? 0 : sequence * length);
      const double n = double(own ? context.lengths[size_t(sequence)] : length);
      for (int64_t t = 0; t < length; ++t) codes.push_back(code(position[t], n));
    }
    if (channels_)
      channels_->prepare(context, batches, codes);
    else
      codes_ = context.context->from_doubles(codes, {batches, length, 1}, Lifetime::step,
                                             "scalar positions");
  }

  Tensor on_embeddings(const Tensor& x, const SequenceContext&) override {
    if (channels_) return channels_->write(x);
    return add_code(x, ops::matmul(codes_, direction_));
  }

 private:
  double code(double position, double own_length) const {
    const std::string& how = options_.normalisation;
    const double length = double(options_.length);
    if (how == "raw") return position;
    if (how == "current") return position / std::max(own_length, 1.0);
    if (how == "plus_one") return (position + 1) / length;
    return position / (how == "length" ? length : std::max(length - 1, 1.0));
  }

  ScalarOptions options_;
  std::optional<ReservedChannels> channels_;
  Parameter direction_;
  Tensor codes_;  // (1 or B, T, 1)
};

const RegisterType<PositionalEncoding, Scalar, ScalarOptions> kRegister{
    kName, "the position as one number, in a choice of scales"};

}  // namespace
}  // namespace longshot
