// sinusoidal: waves of fixed frequency added to the input (Vaswani et al. 2017). For token position
// p:
//   interleaved    channel 2t = sin(p f_t), channel 2t + 1 = cos(p f_t), f_t = base^(-2t / dim)
//   halves         the same channels, all sines first, then all cosines
//   tensor2tensor  sines then cosines with f_t = base^(-t / (dim / 2 - 1)): other frequencies, not
//   a
//                  reordering of the two above
// An odd dim has one sine more than cosines; tensor2tensor fills its last channel with zero.
// Phases are formed in double, whatever the model's type.
#include <algorithm>
#include <cmath>
#include <vector>

#include "core/context.h"
#include "nn/absolute.h"

namespace longshot {
namespace {

constexpr const char* kName = "sinusoidal";

struct SinusoidalOptions {
  std::string layout = "interleaved";
  double base = 10000;
  double scale = 1;
  int64_t capacity = 0;
  std::string beyond = "error";
  void fields(FieldVisitor& visit) {
    visit.field("layout", layout, "order of the channels; tensor2tensor has frequencies of its own",
                one_of({"interleaved", "halves", "tensor2tensor"}));
    visit.field("base", base, "the slowest wave is about 2 pi times this long", above(0));
    visit.field("scale", scale, "factor on the waves before they are added", above(0));
    visit.field("capacity", capacity, "positions there are rows for; 0: no limit", at_least(0));
    visit.field("beyond", beyond,
                "positions past the capacity: stop, use the last one, add nothing",
                beyond_choices());
  }
};

class Sinusoidal final : public PositionalEncoding {
 public:
  Sinusoidal(const SinusoidalOptions& options, const EncodingModel& model, const ModuleScope&)
      : options_(options), dim_(model.dim), bound_{kName, options.capacity, options.beyond} {
    if (options_.layout == "tensor2tensor" && dim_ < 2)
      throw UsageError(
          fmt::format("encoding {}: layout tensor2tensor needs a model dim of at least 2, not {}",
                      kName, dim_));
    check_bound(bound_, model);
    // Where each wave goes, once for all: (sine channel, cosine channel or none, frequency).
    const bool tensor2tensor = options_.layout == "tensor2tensor";
    const int64_t sines = tensor2tensor ? dim_ / 2 : (dim_ + 1) / 2;
    for (int64_t t = 0; t < sines; ++t) {
      const double exponent = tensor2tensor ? double(t) / std::max(double(dim_ / 2) - 1.0, 1.0)
                                            : 2.0 * double(t) / double(dim_);
      const bool interleaved = options_.layout == "interleaved";
      const int64_t cosine = interleaved ? 2 * t + 1 : sines + t;
      waves_.push_back({interleaved ? 2 * t : t, cosine < dim_ ? cosine : -1,
                        std::pow(options_.base, -exponent)});
    }
  }

  EncodingTraits traits() const override {
    EncodingTraits traits;
    traits.embeddings = true;
    traits.fractional = true;
    traits.capacity = options_.capacity;
    traits.beyond = options_.capacity > 0 ? describe_beyond(bound_)
                                          : "runs; slow waves reach phases never seen in training";
    traits.free_options = {"capacity", "beyond"};
    return traits;
  }

  void prepare(const SequenceContext& context) override {
    const BoundedPositions positions = bounded_positions(context, bound_);
    std::vector<double> table(positions.values.size() * size_t(dim_), 0.0);
    for (size_t row = 0; row < positions.values.size(); ++row) {
      double* out = table.data() + row * size_t(dim_);
      const double amplitude = options_.scale * positions.present[row];
      for (const Wave& wave : waves_) {
        const double phase = positions.values[row] * wave.frequency;
        out[wave.sine] = amplitude * std::sin(phase);
        if (wave.cosine >= 0) out[wave.cosine] = amplitude * std::cos(phase);
      }
    }
    table_ = context.context->from_doubles(table, {positions.batches, positions.length, dim_},
                                           Lifetime::step, "sinusoidal table");
  }

  Tensor on_embeddings(const Tensor& x, const SequenceContext&) override {
    return add_code(x, table_);
  }

 private:
  struct Wave {
    int64_t sine, cosine;
    double frequency;
  };
  SinusoidalOptions options_;
  int64_t dim_;
  Bound bound_;
  std::vector<Wave> waves_;
  Tensor table_;  // (1 or B, T, dim)
};

const RegisterType<PositionalEncoding, Sinusoidal, SinusoidalOptions> kRegister{
    kName, "sines and cosines of the position added to the input (Vaswani et al. 2017)"};

}  // namespace
}  // namespace longshot
