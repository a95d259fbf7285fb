// learned: a trained vector for each position, added to the input (Gehring et al. 2017, BERT,
// GPT-2).
//   x_i + table[p_i],  table (capacity, dim), initial values N(0, deviation^2)
// Rows for positions that training never reached keep their initial noise: that, not an error, is
// what a longer input within the capacity meets.
#include "core/context.h"
#include "core/ops.h"
#include "nn/absolute.h"

namespace longshot {
namespace {

constexpr const char* kName = "learned";

struct LearnedOptions {
  int64_t capacity = 2048;
  double deviation = 0.02;
  std::string beyond = "error";
  void fields(FieldVisitor& visit) {
    visit.field("capacity", capacity, "rows of the table", at_least(1));
    visit.field("deviation", deviation, "standard deviation of the initial values", at_least(0));
    visit.field("beyond", beyond,
                "positions past the capacity: stop, use the last row, add nothing",
                beyond_choices());
  }
};

class Learned final : public PositionalEncoding {
 public:
  Learned(const LearnedOptions& options, const EncodingModel& model, const ModuleScope& scope)
      : bound_{kName, options.capacity, options.beyond} {
    check_bound(bound_, model);
    table_ = scope.declare("table", {options.capacity, model.dim},
                           Initializer::normal(options.deviation), true);
  }

  EncodingTraits traits() const override {
    EncodingTraits traits;
    traits.embeddings = true;
    traits.capacity = bound_.capacity;
    traits.beyond = "rows past the training length are untrained; " + describe_beyond(bound_);
    traits.free_options = {"beyond"};
    return traits;
  }

  void prepare(const SequenceContext& context) override {
    const BoundedPositions positions = bounded_positions(context, bound_);
    rows_ = position_rows(context, positions);
    if (bound_.beyond == "zero")
      present_ =
          context.context->from_doubles(positions.present, {positions.batches, positions.length},
                                        Lifetime::step, "positions present");
  }

  Tensor on_embeddings(const Tensor& x, const SequenceContext&) override {
    Tensor code = ops::embedding(rows_, table_);
    if (present_.defined()) code = ops::scale_rows(code, present_);
    return add_code(x, code);
  }

 private:
  Bound bound_;
  Parameter table_;
  Tensor rows_;     // (1 or B, T) i32
  Tensor present_;  // (1 or B, T), only with beyond = "zero"
};

const RegisterType<PositionalEncoding, Learned, LearnedOptions> kRegister{
    kName, "a trained vector for each position added to the input"};

}  // namespace
}  // namespace longshot
