// Small encoders over every registered encoding and sampler, for conformance_test.cpp. Nothing here
// knows an encoding or a sampler by name but for the option sets listed in sampler_configs().
#pragma once

#include <algorithm>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "core/parallel.h"
#include "nn/encoder.h"
#include "tests/nn/encodings/encoding_support.h"
#include "tests/support/operation_devices.h"

namespace longshot::testing {

inline std::vector<std::string> encoding_names() {
  return Registry<PositionalEncoding>::instance().names();
}

// Every registered sampler with its defaults, and the option sets that give positions another
// shape. On the emulated device, where an element costs a thousand times more, one of each shape.
inline std::vector<std::string> sampler_configs() {
  if (testing_cuda())
    return {"type = 'contiguous'",
            "type = 'randomized'\nmax = 40\ndraw = 'sequence'\nrelative = 'distances'\nper_layer = "
            "true"};
  std::vector<std::string> result;
  for (const std::string& name : Registry<PositionSampler>::instance().names())
    result.push_back("type = '" + name + "'");
  for (const char* relative : {"differences", "distances"})
    for (const char* draw : {"batch", "sequence"})
      for (const char* per_layer : {"false", "true"})
        result.push_back(fmt::format(
            "type = 'randomized'\nmax = 40\ndraw = '{}'\nrelative = '{}'\nper_layer = {}\n"
            "draw_every = 1",
            draw, relative, per_layer));
  result.push_back("type = 'randomized'\nmax = 40\nevaluate = 'even'");
  result.push_back("type = 'shifted'\nmax = 20\ndraw = 'batch'");
  return result;
}

struct SmallModel {
  std::string encoding, positions = "type = 'contiguous'";
  bool causal = false;
  int64_t layers = 2, dim = 8, heads = 2;
  int64_t train_length = 6;
  double dropout = 0;
  uint64_t seed = 3;
  OperationDevice device = model_device();
};

constexpr int64_t kVocabulary = 5, kClasses = 3;

class SmallEncoder {
 public:
  explicit SmallEncoder(const SmallModel& model)
      : context(*model.device.backend, {.dtype = model.device.dtype, .heap = {}}),
        encoder(context, options_of(model), parse_toml(model.encoding, "encoding.toml"),
                parse_toml(model.positions, "positions.toml"),
                {kVocabulary, kClasses, false, model.train_length}, model.seed) {}

  // Outputs (batch, length, classes) of one evaluation.
  Doubles run(const EncoderInput& input) {
    StepScope step(context);
    NoRecordingScope no_recording(context);
    set_state(input);
    const PreparedInput prepared = encoder.prepare(input);
    return encoder.forward(prepared).to_doubles();
  }
  // The same with every position moved by `offset`, as no sampler was asked to.
  Doubles run_shifted(const EncoderInput& input, double offset) {
    StepScope step(context);
    NoRecordingScope no_recording(context);
    set_state(input);
    PreparedInput prepared = encoder.prepare(input);
    for (DrawnPositions& drawn : prepared.sequence.positions) {
      drawn.contiguous = false;
      drawn.limit += int64_t(offset) + 1;
      drawn.fractional = offset != double(int64_t(offset));
      for (double& value : drawn.values) value += offset;
    }
    encoder.encoding().prepare(prepared.sequence);
    return encoder.forward(prepared).to_doubles();
  }
  // A scalar that every real token's outputs enter with weights of their own. Call inside a step.
  Tensor loss(const EncoderInput& input) {
    set_state(input);
    const PreparedInput prepared = encoder.prepare(input);
    const Tensor logits = encoder.forward(prepared);
    Doubles weights(size_t(logits.elements()));
    for (size_t i = 0; i < weights.size(); ++i) {
      const size_t token = i / size_t(kClasses), row = token / size_t(input.length);
      const bool real =
          input.lengths.empty() || int64_t(token) % input.length < int64_t(input.lengths[row]);
      weights[i] = real ? std::sin(1.0 + 2.3 * double(i)) : 0.0;
    }
    return ops::sum(ops::mul(logits, context.from_doubles(weights, logits.shape())));
  }

  Context context;
  Encoder encoder;

 private:
  static ModelOptions options_of(const SmallModel& model) {
    ModelOptions options;
    options.dim = model.dim;
    options.layers = model.layers;
    options.heads = model.heads;
    options.ffn = 8;
    options.activation = "gelu";  // smooth, so that finite differences are meaningful
    options.causal = model.causal;
    options.dropout = model.dropout;
    options.embedding_scale = true;
    return options;
  }
  void set_state(const EncoderInput& input) {
    StepState state;
    state.seed = input.seed;
    state.step = input.step;
    state.training = input.training ? 1 : 0;
    context.set_step_state(state);
  }
};

// Whether this pair may be refused by design: only a causal-only encoding in a bidirectional model.
inline bool refused_by_design(const std::string& encoding, bool causal) {
  if (causal) return false;
  EncodingBench bench("type = '" + encoding + "'", {8, 2, 4, 2, true, 8, 0});
  return bench.encoding->traits().causal_only;
}

// Every registered encoding with its defaults, and the options that lead through other code.
struct EncodingConfig {
  std::string name, toml;
  bool bidirectional_only = false;
  bool refused(bool causal) const {
    return causal ? bidirectional_only : refused_by_design(name, causal);
  }
};
inline std::vector<EncodingConfig> encoding_configs() {
  std::vector<EncodingConfig> result;
  for (const std::string& name : encoding_names())
    result.push_back({name, "type = '" + name + "'"});
  const auto add = [&](const std::string& name, const std::string& options, bool only = false) {
    result.push_back({name, "type = '" + name + "'\n" + options, only});
  };
  add("one_hot", "mode = 'reserved'\ncapacity = 3\nbeyond = 'clamp'");
  add("learned", "capacity = 3\nbeyond = 'zero'");
  add("scalar", "normalisation = 'current'");
  add("binary", "mode = 'reserved'\ncapacity = 64\nbeyond = 'clamp'");
  add("rope", "pairing = 'half'\nfraction = 0.5");
  add("rope", "scaling = 'dynamic'\nfactor = 2\noriginal_length = 4");
  add("alibi", "variant = 'ruoss'");
  add("alibi", "variant = 'left_right'", true);
  add("shaw", "clip = 2\nvalues = true");
  add("transformer_xl", "clamp = 3");
  return result;
}

inline std::vector<int32_t> tokens_for(int64_t count) {
  std::vector<int32_t> tokens(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i)
    tokens[size_t(i)] = int32_t((i * i * 3 + i * 7 + i / 3) % kVocabulary);
  return tokens;
}

inline EncoderInput input_of(const std::vector<int32_t>& tokens, int64_t batch,
                             bool training = false) {
  EncoderInput input;
  input.batch = batch;
  input.length = int64_t(tokens.size()) / batch;
  input.tokens = tokens;
  input.training = training;
  input.seed = 11;
  input.step = 4;
  return input;
}

inline double largest_difference(const Doubles& a, const Doubles& b) {
  REQUIRE(a.size() == b.size());
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    // A NaN must not pass for a small difference.
    if (!(std::abs(a[i] - b[i]) <= largest)) largest = std::abs(a[i] - b[i]);
    if (std::isnan(a[i]) || std::isnan(b[i])) return HUGE_VAL;
  }
  return largest;
}

}  // namespace longshot::testing
