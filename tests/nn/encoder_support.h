// Building and running small encoders from config words, for tests.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/config_toml.h"
#include "core/ops.h"
#include "nn/encoder.h"
#include "tests/catch.h"
#include "tests/support/gradient_check.h"
#include "tests/support/operation_devices.h"

namespace longshot::testing {

struct ModelWords {
  std::string model = "dim = 16\nlayers = 2\nheads = 4\nffn = 24";
  std::string encoding = "type = \"none\"";
  std::string positions = "type = \"contiguous\"";
  EncoderInterface interface {
    .input_vocabulary = 6, .output_classes = 3, .mean_pool = false, .train_length = 16
  };
  uint64_t seed = 1;
};

// A batch whose memory it owns.
struct TestBatch {
  std::vector<int32_t> tokens;
  std::vector<int32_t> lengths;
  EncoderInput input;
  EncoderInput view() const {
    EncoderInput result = input;
    result.tokens = tokens;
    result.lengths = lengths;
    return result;
  }
};
inline TestBatch random_batch(int64_t batch, int64_t length, uint64_t seed,
                              int32_t vocabulary = 6) {
  TestBatch result;
  result.tokens = random_integers(batch * length, seed, 0, vocabulary - 1);
  result.input.batch = batch;
  result.input.length = length;
  result.input.seed = 9;
  return result;
}

class TestModel {
 public:
  explicit TestModel(const ModelWords& words, DType dtype = DType::f32)
      : context_(backend_for(dtype), memory_of(dtype)) {
    ModelOptions options;
    read_options(parse_toml(words.model, "model.toml"), {"model", {}, {}}, options);
    encoder_ = std::make_unique<Encoder>(
        context_, options, parse_toml(words.encoding, "encoding.toml"),
        parse_toml(words.positions, "positions.toml"), words.interface, words.seed);
  }

  Context& context() { return context_; }
  Encoder& encoder() { return *encoder_; }

  // Logits without gradients.
  std::vector<double> evaluate(const TestBatch& batch) {
    const StepScope step(context_);
    const NoRecordingScope off(context_);
    const std::vector<double> logits =
        encoder_->forward(encoder_->prepare(batch.view())).to_doubles();
    context_.step_heap().check_guards();
    return logits;
  }

  struct Step {
    std::vector<double> logits;
    std::vector<double> gradient;  // the whole flat buffer
  };
  // Forward in training and backward from a fixed random cotangent.
  Step train(const TestBatch& batch, uint32_t step_index = 3, int64_t sample_offset = 0) {
    const StepScope step(context_);
    context_.set_step_state(
        {.seed = 9, .step = step_index, .training = 1, .sample_offset = sample_offset});
    encoder_->parameters().begin_gradients();
    EncoderInput input = batch.view();
    input.training = true;
    input.step = step_index;
    const std::vector<Tensor> logits = {encoder_->forward(encoder_->prepare(input))};
    Step result;
    result.logits = logits[0].to_doubles();
    context_.tape().backward(weighted_sum(context_, logits, 5));
    encoder_->parameters().finish_gradients();
    result.gradient = encoder_->parameters().gradients().to_doubles();
    return result;
  }

  std::vector<double> parameter(const std::string& name) {
    const Parameter::Entry* entry = encoder_->parameters().find(name);
    REQUIRE(entry != nullptr);
    return entry->tensor.to_doubles();
  }

 private:
  // Guards and poison where the host can write them; the emulated device has its own.
  static ContextOptions memory_of(DType dtype) {
    ContextOptions options{.dtype = dtype, .heap = {}};
    if (backend_for(dtype).host_accessible()) options.heap = {64, true, 0};
    return options;
  }

  Context context_;
  std::unique_ptr<Encoder> encoder_;
};

inline std::vector<std::string> encoding_names() {
  return Registry<PositionalEncoding>::instance().names();
}
inline std::string type_line(const std::string& name) {
  return "type = \"" + name + "\"";
}

// Whether a bidirectional model takes this encoding.
inline bool causal_only(const std::string& name) {
  ModelWords words;
  words.model += "\ncausal = true";
  words.encoding = type_line(name);
  return TestModel(words).encoder().encoding().traits().causal_only;
}

}  // namespace longshot::testing
