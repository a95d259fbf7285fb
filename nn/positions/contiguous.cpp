// Contiguous positions: token t of a sequence is at position t, in training and evaluation.
#include <numeric>

#include "nn/position_sampler.h"

namespace longshot {
namespace {

struct ContiguousOptions {
  void fields(FieldVisitor&) {}
};

class Contiguous final : public PositionSampler {
 public:
  explicit Contiguous(const ContiguousOptions&) {}

  DrawnPositions draw(const PositionRequest& request) const override {
    DrawnPositions drawn;
    drawn.contiguous = true;
    drawn.limit = request.length;
    drawn.values.resize(size_t(request.length));
    std::iota(drawn.values.begin(), drawn.values.end(), 0.0);
    return drawn;
  }
};

const RegisterType<PositionSampler, Contiguous, ContiguousOptions> kRegister{"contiguous",
                                                                             "0, 1, 2, ..."};

}  // namespace
}  // namespace longshot
