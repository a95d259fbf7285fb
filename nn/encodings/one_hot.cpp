// one_hot: the position's index as a one-hot code e_p of `capacity` numbers,
//   projected  x_i + W[p_i], W (capacity, dim) the bias-free projection of the code
//   reserved   e_p written over `capacity` channels of the input, from first_channel on
// Rows of W for positions that training never reached keep their initial noise; a reserved channel
// that training never saw set meets untrained weights all the same.
#include <cmath>
#include <optional>
#include <vector>

#include "core/context.h"
#include "core/ops.h"
#include "nn/absolute.h"

namespace longshot {
namespace {

constexpr const char* kName = "one_hot";

struct OneHotOptions {
  std::string mode = "projected";
  int64_t capacity = 2048;
  int64_t first_channel = 0;
  std::string beyond = "error";
  void fields(FieldVisitor& visit) {
    visit.field("mode", mode,
                "added through a trained projection, or written over reserved channels",
                one_of({"projected", "reserved"}));
    visit.field("capacity", capacity, "positions that have a code; reserved: at most dim",
                at_least(1));
    visit.field("first_channel", first_channel, "reserved: where the code begins", at_least(0));
    visit.field("beyond", beyond,
                "positions past the capacity: stop, use the last code, write zeros",
                beyond_choices());
  }
};

class OneHot final : public PositionalEncoding {
 public:
  OneHot(const OneHotOptions& options, const EncodingModel& model, const ModuleScope& scope)
      : bound_{kName, options.capacity, options.beyond} {
    check_bound(bound_, model);
    if (options.mode == "reserved") {
      channels_.emplace(kName, model.dim, options.first_channel, options.capacity);
      return;
    }
    if (options.first_channel != 0)
      throw UsageError(fmt::format(
          "encoding {}: first_channel has an effect only with mode = \"reserved\"", kName));
    // What a linear layer of `capacity` inputs starts with.
    projection_ =
        scope.declare("projection", {options.capacity, model.dim},
                      Initializer::truncated_normal(1 / std::sqrt(options.capacity)), true);
  }

  EncodingTraits traits() const override {
    EncodingTraits traits;
    traits.embeddings = true;
    traits.capacity = bound_.capacity;
    traits.beyond = "codes past the training length are untrained; " + describe_beyond(bound_);
    traits.free_options = {"beyond"};
    return traits;
  }

  void prepare(const SequenceContext& context) override {
    const BoundedPositions positions = bounded_positions(context, bound_);
    if (channels_) {
      std::vector<double> codes(positions.values.size() * size_t(bound_.capacity), 0.0);
      for (size_t row = 0; row < positions.values.size(); ++row)
        codes[row * size_t(bound_.capacity) + size_t(positions.values[row])] =
            positions.present[row];
      channels_->prepare(context, positions.batches, codes);
      return;
    }
    rows_ = position_rows(context, positions);
    if (bound_.beyond == "zero")
      present_ =
          context.context->from_doubles(positions.present, {positions.batches, positions.length},
                                        Lifetime::step, "positions present");
  }

  Tensor on_embeddings(const Tensor& x, const SequenceContext&) override {
    if (channels_) return channels_->write(x);
    // The product of a one-hot code and a matrix is a row of the matrix.
    Tensor code = ops::embedding(rows_, projection_);
    if (present_.defined()) code = ops::scale_rows(code, present_);
    return add_code(x, code);
  }

 private:
  Bound bound_;
  std::optional<ReservedChannels> channels_;
  Parameter projection_;
  Tensor rows_;     // (1 or B, T) i32
  Tensor present_;  // (1 or B, T), only with beyond = "zero"
};

const RegisterType<PositionalEncoding, OneHot, OneHotOptions> kRegister{
    kName, "the position as a one-hot code, projected or in reserved channels"};

}  // namespace
}  // namespace longshot
