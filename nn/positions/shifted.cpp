// Shifted positions (SHAPE; Kiyono et al. 2021, "Shifted absolute position embedding for
// transformers"): in training, all positions of a sequence are moved by one random offset; at
// evaluation they are not moved.
//
//   p_t = t + k,  k uniform in 0 .. max (both ends included)
#include "nn/position_sampler.h"
#include "nn/positions/draw_key.h"

namespace longshot {
namespace {

struct ShiftedOptions {
  int64_t max = 100;
  std::string draw = "sequence";
  void fields(FieldVisitor& visit) {
    visit.field("max", max, "largest offset in training", between(0, 16777216));
    visit.field("draw", draw, "one offset for the whole batch or one for every sequence",
                one_of({"batch", "sequence"}));
  }
};

class Shifted final : public PositionSampler {
 public:
  explicit Shifted(const ShiftedOptions& options) : options_(options) {}

  DrawnPositions draw(const PositionRequest& request) const override {
    const int64_t length = request.length;
    DrawnPositions drawn;
    drawn.contiguous = !request.training;
    drawn.limit = request.training ? length + options_.max : length;
    drawn.batches = request.training && options_.draw == "sequence" ? request.batch : 1;
    drawn.values.reserve(size_t(drawn.batches * length));
    for (int64_t row = 0; row < drawn.batches; ++row) {
      int64_t offset = 0;
      if (request.training) {
        const bool shared = options_.draw == "batch";
        offset = position_draw(request, shared ? 0 : uint64_t(request.first_sample + row))
                     .between(0, options_.max);
      }
      for (int64_t t = 0; t < length; ++t) drawn.values.push_back(double(t + offset));
    }
    return drawn;
  }

 private:
  ShiftedOptions options_;
};

const RegisterType<PositionSampler, Shifted, ShiftedOptions> kRegister{
    "shifted", "0, 1, 2, ... plus one random offset in training (SHAPE, Kiyono et al. 2021)"};

}  // namespace
}  // namespace longshot
