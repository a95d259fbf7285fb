// none: no positional encoding. A bidirectional stack is then blind to order (its outputs permute
// with its inputs); under a causal mask the mask alone tells positions apart (Haviv et al. 2022).
#include "nn/positional_encoding.h"

namespace longshot {
namespace {

struct NoneOptions {
  void fields(FieldVisitor&) {}
};

class None final : public PositionalEncoding {
 public:
  None(const NoneOptions&, const EncodingModel&, const ModuleScope&) {}

  EncodingTraits traits() const override {
    EncodingTraits traits;
    traits.relative = true;  // trivially: positions are not looked at
    traits.fractional = true;
    traits.beyond = "runs; only the softmax is over more keys";
    return traits;
  }
};

const RegisterType<PositionalEncoding, None, NoneOptions> kRegister{
    "none", "no encoding: order is invisible unless the model is causal"};

}  // namespace
}  // namespace longshot
