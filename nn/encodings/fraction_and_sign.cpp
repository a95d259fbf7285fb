// fraction_and_sign: two numbers of a position that attention needs to count ones modulo 2 at every
// length (Chiang & Cholak 2022, PARITY),
//   x_i + (p_i / n) a + cos(pi p_i) b,   n the sequence's own length in tokens, a and b (dim)
//   trained
// The fraction lets a head find the token whose place is the number of ones; the sign, +1 at even
// places and -1 at odd ones, says what to answer there.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "core/context.h"
#include "core/ops.h"
#include "nn/absolute.h"

namespace longshot {
namespace {

struct FractionAndSignOptions {
  double deviation = 1;
  void fields(FieldVisitor& visit) {
    visit.field("deviation", deviation, "standard deviation of the two vectors' initial values",
                at_least(0));
  }
};

class FractionAndSign final : public PositionalEncoding {
 public:
  FractionAndSign(const FractionAndSignOptions& options, const EncodingModel& model,
                  const ModuleScope& scope)
      : vectors_(scope.declare("vectors", {2, model.dim},
                               Initializer::truncated_normal(options.deviation), true)) {}

  EncodingTraits traits() const override {
    EncodingTraits traits;
    traits.embeddings = true;
    traits.fractional = true;
    traits.by_length = true;
    traits.beyond = "runs; every token's fraction changes with its sequence's length";
    return traits;
  }

  void prepare(const SequenceContext& context) override {
    const DrawnPositions& drawn = context.positions_of(0);
    // Own lengths make the codes per sequence, whenever the batch may hold different ones.
    const bool own = context.padded && !context.lengths.empty();
    const int64_t batches = own ? context.batch : drawn.batches, length = context.length;
    std::vector<double> codes;
    codes.reserve(size_t(2 * batches * length));
    for (int64_t sequence = 0; sequence < batches; ++sequence) {
      const double* position = drawn.values.data() + (drawn.batches == 1 ? 0 : sequence * length);
      const double n = double(own ? context.lengths[size_t(sequence)] : length);
      for (int64_t t = 0; t < length; ++t) {
        codes.push_back(position[t] / std::max(n, 1.0));
        codes.push_back(std::cos(std::numbers::pi * position[t]));
      }
    }
    codes_ = context.context->from_doubles(codes, {batches, length, 2}, Lifetime::step,
                                           "fractions and signs");
  }

  Tensor on_embeddings(const Tensor& x, const SequenceContext&) override {
    return add_code(x, ops::matmul(codes_, vectors_));
  }

 private:
  Parameter vectors_;
  Tensor codes_;  // (1 or B, T, 2)
};

const RegisterType<PositionalEncoding, FractionAndSign, FractionAndSignOptions> kRegister{
    "fraction_and_sign", "position over length, and +1 or -1 by turns (Chiang and Cholak 2022)"};

}  // namespace
}  // namespace longshot
