// binary: the position's bits, least or most significant first, as 0 / 1 or -1 / +1,
//   projected  x_i + bits(p_i) W, W (width, dim) trained, no bias
//   reserved   the bits written over `width` channels of the input
// width bits tell 2^width positions apart; unless given it is max(1, ceil(log2 capacity)).
#include <cmath>
#include <optional>
#include <vector>

#include "core/context.h"
#include "core/ops.h"
#include "nn/absolute.h"

namespace longshot {
namespace {

constexpr const char* kName = "binary";

struct BinaryOptions {
  std::string mode = "projected";
  std::string order = "lsb_first";
  std::string values = "zero_one";
  int64_t capacity = 2048;
  int64_t width = 0;
  int64_t first_channel = 0;
  std::string beyond = "error";
  void fields(FieldVisitor& visit) {
    visit.field("mode", mode,
                "added through a trained projection, or written over reserved channels",
                one_of({"projected", "reserved"}));
    visit.field("order", order, "least or most significant bit first",
                one_of({"lsb_first", "msb_first"}));
    visit.field("values", values, "bits as 0 and 1, or as -1 and +1",
                one_of({"zero_one", "plus_minus_one"}));
    visit.field("capacity", capacity, "positions that have a code", at_least(1));
    visit.field("width", width, "bits; 0: as many as the capacity needs", between(0, 31));
    visit.field("first_channel", first_channel, "reserved: where the code begins", at_least(0));
    visit.field("beyond", beyond,
                "positions past the capacity: stop, use the last code, write zeros",
                beyond_choices());
  }
};

int64_t bits_needed(int64_t count) {
  int64_t bits = 1;
  while ((int64_t(1) << bits) < count) ++bits;
  return bits;
}

class Binary final : public PositionalEncoding {
 public:
  Binary(const BinaryOptions& options, const EncodingModel& model, const ModuleScope& scope)
      : options_(options), bound_{kName, options.capacity, options.beyond} {
    const int64_t needed = bits_needed(options_.capacity);
    if (options_.width == 0) options_.width = needed;
    if (options_.width < needed)
      throw UsageError(fmt::format("encoding {}: {} bits tell {} positions apart, capacity is {}",
                                   kName, options_.width, int64_t(1) << options_.width,
                                   options_.capacity));
    check_bound(bound_, model);
    if (options_.mode == "reserved") {
      channels_.emplace(kName, model.dim, options_.first_channel, options_.width);
      return;
    }
    if (options_.first_channel != 0)
      throw UsageError(fmt::format(
          "encoding {}: first_channel has an effect only with mode = \"reserved\"", kName));
    projection_ =
        scope.declare("projection", {options_.width, model.dim},
                      Initializer::truncated_normal(1 / std::sqrt(double(options_.width))), true);
  }

  EncodingTraits traits() const override {
    EncodingTraits traits;
    traits.embeddings = true;
    traits.capacity = bound_.capacity;
    traits.beyond = "high bits never set in training are untrained; " + describe_beyond(bound_);
    traits.free_options = {"beyond"};
    return traits;
  }

  void prepare(const SequenceContext& context) override {
    const BoundedPositions positions = bounded_positions(context, bound_);
    const int64_t width = options_.width;
    const double unset = options_.values == "zero_one" ? 0.0 : -1.0;
    std::vector<double> codes(positions.values.size() * size_t(width));
    for (size_t row = 0; row < positions.values.size(); ++row) {
      const int64_t position = int64_t(positions.values[row]);
      for (int64_t bit = 0; bit < width; ++bit) {
        const int64_t channel = options_.order == "lsb_first" ? bit : width - 1 - bit;
        codes[row * size_t(width) + size_t(channel)] =
            positions.present[row] * ((position >> bit) & 1 ? 1.0 : unset);
      }
    }
    if (channels_)
      channels_->prepare(context, positions.batches, codes);
    else
      codes_ = context.context->from_doubles(codes, {positions.batches, positions.length, width},
                                             Lifetime::step, "binary positions");
  }

  Tensor on_embeddings(const Tensor& x, const SequenceContext&) override {
    if (channels_) return channels_->write(x);
    return add_code(x, ops::matmul(codes_, projection_));
  }

 private:
  BinaryOptions options_;
  Bound bound_;
  std::optional<ReservedChannels> channels_;
  Parameter projection_;
  Tensor codes_;  // (1 or B, T, width)
};

const RegisterType<PositionalEncoding, Binary, BinaryOptions> kRegister{
    kName, "the position's bits, projected or in reserved channels"};

}  // namespace
}  // namespace longshot
