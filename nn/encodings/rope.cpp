// rope: rotates pairs of query and key lanes by an angle proportional to the position, so that
// their product depends on the distance alone (Su et al. 2021). For pair t of width / 2 and
// position p:
//   y_a = x_a cos(p f_t) - x_b sin(p f_t),  y_b = x_b cos(p f_t) + x_a sin(p f_t),  f_t = base^(-2t
//   / width)
// with (a, b) = (2t, 2t + 1) interleaved, or (t, t + width / 2) half. Lanes past `width` pass
// unchanged; the exponent uses `width`, not the head's.
//
// Length scaling, s = factor, L = original_length, r = width:
//   linear    f_t / s (Chen et al. 2023)
//   ntk       base s^(r / (r - 2)): the fastest pair untouched, the slowest exactly / s
//   dynamic   ntk with s n / L - (s - 1) for s, n the sequence's own real length, at least L
//   yarn      linear for slow pairs, unscaled for fast ones, a ramp between; cosine and sine times
//             attention_factor, 0.1 ln s + 1 unless given (Peng et al. 2023)
//   llama3    the same idea with a ramp over wavelengths (Llama team 2024)
// Angles are formed in double and only then rounded to the model's type.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "core/context.h"
#include "core/ops.h"
#include "nn/angle_rows.h"
#include "nn/relative.h"

namespace longshot {
namespace {

constexpr const char* kName = "rope";
constexpr double kPi = std::numbers::pi;

struct RopeOptions {
  std::string pairing = "interleaved";
  double base = 10000;
  double fraction = 1;
  int64_t width = 0;
  std::string scaling = "none";
  std::string scaling_at = "always";
  double factor = 0;
  int64_t original_length = 0;
  int64_t target_length = 0;
  double attention_factor = 0;
  double beta_fast = 32;
  double beta_slow = 1;
  bool truncate = true;
  double low_frequency_factor = 1;
  double high_frequency_factor = 4;
  void fields(FieldVisitor& visit) {
    visit.field("pairing", pairing, "lanes that turn together: neighbours, or one from each half",
                one_of({"interleaved", "half"}));
    visit.field("base", base, "the slowest pair's wavelength is about 2 pi times this", above(0));
    visit.field("fraction", fraction, "part of each head's lanes that is rotated", between(0, 1));
    visit.field("width", width, "the same as a number of lanes; 0: by fraction", at_least(0));
    visit.field("scaling", scaling, "change of frequencies for longer inputs",
                one_of({"none", "linear", "ntk", "dynamic", "yarn", "llama3"}));
    visit.field("scaling_at", scaling_at, "whether training is scaled too",
                one_of({"always", "evaluation"}));
    visit.field("factor", factor,
                "how many times longer inputs may get; 0: target / original length", at_least(0));
    visit.field("original_length", original_length,
                "length the frequencies were made for; 0: the training length", at_least(0));
    visit.field("target_length", target_length,
                "length to scale to, instead of factor; 0: not given", at_least(0));
    visit.field("attention_factor", attention_factor,
                "yarn: factor on cosine and sine; 0: 0.1 ln factor + 1", at_least(0));
    visit.field("beta_fast", beta_fast,
                "yarn: turns within original_length from which a pair is "
                "left alone",
                above(0));
    visit.field("beta_slow", beta_slow, "yarn: turns up to which a pair is fully scaled", above(0));
    visit.field("truncate", truncate, "yarn: round the ramp's ends to whole pairs");
    visit.field("low_frequency_factor", low_frequency_factor,
                "llama3: waves longer than original_length / this are fully scaled", above(0));
    visit.field("high_frequency_factor", high_frequency_factor,
                "llama3: waves shorter than original_length / this are left alone", above(0));
  }
};

[[noreturn]] void refuse(const std::string& reason) {
  throw UsageError(fmt::format("encoding {}: {}", kName, reason));
}

int64_t rotary_width(const RopeOptions& options, int64_t head_dim) {
  int64_t width = options.width;
  if (width == 0) {
    const double exact = options.fraction * double(head_dim);
    width = int64_t(std::llround(exact));
    if (std::abs(exact - double(width)) > 1e-9)
      refuse(fmt::format("fraction {} of head width {} is {} lanes, not a whole number",
                         options.fraction, head_dim, exact));
  } else if (options.fraction != 1.0 &&
             std::abs(options.fraction * double(head_dim) - double(width)) > 1e-9) {
    refuse(fmt::format("width {} and fraction {} of head width {} contradict each other", width,
                       options.fraction, head_dim));
  }
  if (width % 2 != 0 || width < 2 || width > head_dim)
    refuse(fmt::format("{} rotated lanes of head width {}: must be even, at least 2 and at most {}",
                       width, head_dim, head_dim));
  return width;
}

class Frequencies {
 public:
  Frequencies(const RopeOptions& options, int64_t width, double base) {
    for (int64_t t = 0; t < width / 2; ++t)
      values_.push_back(std::pow(base, -2.0 * double(t) / double(width)));
    if (options.scaling == "yarn") yarn(options, width, base);
    if (options.scaling == "llama3") llama3(options);
    if (options.scaling == "linear")
      for (double& value : values_) value /= options.factor;
  }
  const std::vector<double>& values() const { return values_; }

 private:
  void yarn(const RopeOptions& options, int64_t width, double base) {
    // The pair that makes `turns` turns within the original length.
    const auto pair = [&](double turns) {
      return double(width) * std::log(double(options.original_length) / (2 * kPi * turns)) /
             (2 * std::log(base));
    };
    double low = pair(options.beta_fast), high = pair(options.beta_slow);
    if (options.truncate) low = std::floor(low), high = std::ceil(high);
    low = std::clamp(low, 0.0, double(width - 1));
    high = std::clamp(high, 0.0, double(width - 1));
    if (high == low) high += 0.001;  // a step instead of 0 / 0
    for (size_t t = 0; t < values_.size(); ++t) {
      const double ramp = std::clamp((double(t) - low) / (high - low), 0.0, 1.0);
      values_[t] = values_[t] / options.factor * ramp + values_[t] * (1 - ramp);
    }
  }
  void llama3(const RopeOptions& options) {
    const double low = options.low_frequency_factor, high = options.high_frequency_factor;
    for (double& value : values_) {
      const double waves = double(options.original_length) * value / (2 * kPi);
      const double keep = std::clamp((waves - low) / (high - low), 0.0, 1.0);
      value = (1 - keep) * value / options.factor + keep * value;
    }
  }
  std::vector<double> values_;
};

class Rope final : public PositionalEncoding {
 public:
  Rope(const RopeOptions& given, const EncodingModel& model, const ModuleScope&)
      : options_(given), width_(rotary_width(given, model.head_dim)) {
    complete_scaling(model);
    RopeOptions unscaled = options_;
    unscaled.scaling = "none";
    plain_ = AngleRows(Frequencies(unscaled, width_, options_.base).values());
    const double base = base_for(options_.scaling == "ntk", options_.factor);
    scaled_ = AngleRows(Frequencies(options_, width_, base).values(),
                        options_.scaling == "yarn" ? options_.attention_factor : 1.0);
  }

  EncodingTraits traits() const override {
    EncodingTraits traits;
    traits.query_key = true;
    traits.relative = true;
    traits.fractional = true;
    traits.by_length = options_.scaling == "dynamic";
    traits.beyond = options_.scaling == "none"
                        ? "runs; slow pairs reach angles never seen in training"
                        : "runs; frequencies scaled by \"" + options_.scaling + "\"";
    traits.free_options = {"base",
                           "scaling",
                           "scaling_at",
                           "factor",
                           "original_length",
                           "target_length",
                           "attention_factor",
                           "beta_fast",
                           "beta_slow",
                           "truncate",
                           "low_frequency_factor",
                           "high_frequency_factor"};
    return traits;
  }

  void prepare(const SequenceContext& context) override {
    angles_.clear();
    const bool scaled = !context.training || options_.scaling_at == "always";
    for (const DrawnPositions& drawn : context.positions)
      angles_.push_back(angles(context, drawn, scaled));
  }

  std::pair<Tensor, Tensor> on_query_key(const Tensor& query, const Tensor& key,
                                         const SequenceContext&, int layer) override {
    const Angles& angles = of_layer(angles_, layer);
    const ops::RotateOptions rotation{width_, options_.pairing == "half"};
    return {ops::rotate(query, angles.cosine, angles.sine, rotation),
            ops::rotate(key, angles.cosine, angles.sine, rotation)};
  }

 private:
  struct Angles {
    Tensor cosine, sine;  // (1 or B, T, width / 2)
  };
  double base_for(bool stretched, double factor) const {
    if (!stretched) return options_.base;
    return options_.base * std::pow(factor, double(width_) / double(width_ - 2));
  }

  // Fills in what can be derived and refuses what contradicts itself or would have no effect.
  void complete_scaling(const EncodingModel& model) {
    RopeOptions& o = options_;
    const RopeOptions defaults;
    const bool yarn = o.scaling == "yarn", llama3 = o.scaling == "llama3";
    const auto only_for = [&](const char* key, bool changed, bool used, const char* scaling) {
      if (changed && !used)
        refuse(fmt::format("{} has no effect with scaling = \"{}\"; it belongs to {}", key,
                           o.scaling, scaling));
    };
    only_for("attention_factor", o.attention_factor != defaults.attention_factor, yarn, "yarn");
    only_for("beta_fast", o.beta_fast != defaults.beta_fast, yarn, "yarn");
    only_for("beta_slow", o.beta_slow != defaults.beta_slow, yarn, "yarn");
    only_for("truncate", o.truncate != defaults.truncate, yarn, "yarn");
    only_for("low_frequency_factor", o.low_frequency_factor != defaults.low_frequency_factor,
             llama3, "llama3");
    only_for("high_frequency_factor", o.high_frequency_factor != defaults.high_frequency_factor,
             llama3, "llama3");
    const bool any = o.scaling != "none";
    only_for("factor", o.factor != 0, any, "a scaling");
    only_for("target_length", o.target_length != 0, any, "a scaling");
    only_for("original_length", o.original_length != 0, any, "a scaling");
    only_for("scaling_at", o.scaling_at != defaults.scaling_at, any, "a scaling");
    if (!any) return;

    if (o.original_length == 0) o.original_length = model.train_length;
    const bool needs_length = yarn || llama3 || o.scaling == "dynamic" || o.target_length != 0;
    if (needs_length && o.original_length == 0)
      refuse(fmt::format("scaling = \"{}\" needs original_length", o.scaling));
    if (o.target_length != 0) {
      const double ratio = double(o.target_length) / double(o.original_length);
      if (o.factor != 0 && std::abs(o.factor - ratio) > 1e-6 * ratio)
        refuse(fmt::format("factor {} contradicts target_length / original_length = {} / {} = {}",
                           o.factor, o.target_length, o.original_length, ratio));
      o.factor = ratio;
    }
    if (o.factor == 0)
      refuse(fmt::format("scaling = \"{}\" needs factor (or target_length)", o.scaling));
    if (o.factor < 1)
      refuse(fmt::format("factor {} is below 1: it says how many times longer inputs may get",
                         o.factor));
    if ((o.scaling == "ntk" || o.scaling == "dynamic") && width_ < 4)
      refuse(fmt::format("scaling = \"{}\" needs at least 4 rotated lanes, there are {}", o.scaling,
                         width_));
    if (yarn && o.beta_fast < o.beta_slow)
      refuse(fmt::format("beta_fast {} must not be below beta_slow {}", o.beta_fast, o.beta_slow));
    if (yarn && o.base == 1.0) refuse("scaling = \"yarn\" is not defined for base 1");
    if (yarn && o.attention_factor == 0) o.attention_factor = 0.1 * std::log(o.factor) + 1;
    if (llama3 && o.high_frequency_factor <= o.low_frequency_factor)
      refuse(fmt::format("high_frequency_factor {} must be above low_frequency_factor {}",
                         o.high_frequency_factor, o.low_frequency_factor));
  }

  Angles angles(const SequenceContext& context, const DrawnPositions& drawn, bool scaled) {
    // Dynamic scaling looks at each sequence's real length, so in a padded batch each has its own
    // angles.
    const bool dynamic = scaled && options_.scaling == "dynamic";
    const bool own = dynamic && context.padded && !context.lengths.empty();
    const int64_t batches = own ? context.batch : drawn.batches;
    const int64_t half = width_ / 2, length = context.length;
    std::vector<double> cosine(size_t(batches * length * half)), sine(cosine.size());
    for (int64_t sequence = 0; sequence < batches; ++sequence) {
      const double* position = drawn.values.data() + (drawn.batches == 1 ? 0 : sequence * length);
      double* to_cosine = cosine.data() + sequence * length * half;
      double* to_sine = sine.data() + sequence * length * half;
      const int64_t real = own ? context.lengths[size_t(sequence)] : length;
      AngleRows stretched;
      if (dynamic && real > options_.original_length) {
        const double growth = options_.factor * double(real) / double(options_.original_length) -
                              (options_.factor - 1);
        stretched = AngleRows(Frequencies(options_, width_, base_for(true, growth)).values());
      }
      AngleRows& rows = stretched.width() > 0 ? stretched : scaled ? scaled_ : plain_;
      for (int64_t t = 0; t < length; ++t)
        rows.write(position[t], to_cosine + t * half, to_sine + t * half);
    }
    const Shape shape{batches, length, half};
    return {context.context->from_doubles(cosine, shape, Lifetime::step, "rotary cosine"),
            context.context->from_doubles(sine, shape, Lifetime::step, "rotary sine")};
  }

  RopeOptions options_;
  int64_t width_;
  AngleRows plain_, scaled_;
  std::vector<Angles> angles_;  // one, or one a layer
};

const RegisterType<PositionalEncoding, Rope, RopeOptions> kRegister{
    kName, "rotation of query and key by position (Su et al. 2021), with length scaling"};

}  // namespace
}  // namespace longshot
