// The optimizer on a real model's buffers: which parameters decay, what a skipped step leaves
// alone.
#include "train/optimizer.h"

#include <map>

#include "tests/train/small_run.h"

using namespace longshot;
using namespace longshot::test;

namespace {

// Every parameter 1, every gradient 0.1, then one update; returns the parameters' first elements by
// name.
std::map<std::string, double> after_one_update(const std::string& encoding, TrainOptions options) {
  Setup setup;
  setup.encoding = encoding;
  setup.positions = "type = \"contiguous\"";
  setup.model.norm = "pre";
  Run run(setup);
  ParameterStore& store = run.encoder->parameters();
  Context& context = *run.context;
  const auto fill = [&](const Tensor& tensor, float value) {
    const std::vector<float> values(size_t(tensor.elements()), value);
    context.backend().copy_to_device(tensor.data(), values.data(), values.size() * sizeof(float));
  };
  fill(store.parameters(), 1.0f);
  fill(store.gradients(), 0.1f);
  options.clip = 0;
  options.lr = 0.01;
  options.weight_decay = 0.1;
  Optimizer optimizer(store, options);
  StepState state;
  state.learning_rate = 0.01f;
  state.target_count = 1;
  StepScope scope(context);
  context.set_step_state(state);
  optimizer.update();
  std::map<std::string, double> result;
  for (const Parameter::Entry& entry : store.entries())
    result[entry.name] = double(entry.tensor.to_host<float>().front());
  CHECK(result.size() == store.names(true).size() + store.names(false).size());
  return result;
}

bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

}  // namespace

// Step 1 of Adam moves by lr * g / (|g| + 1e-8) whatever g is: 1 - 0.01 (1 - 1e-7) = 0.990000001;
// AdamW takes lr * decay * p = 0.001 more from what decays.
TEST_CASE("weight decay on matrices alone, never on biases, norms and learned scales (B26)",
          "[train]") {
  for (const char* encoding : {"type = \"t5\"", "type = \"shaw\"",
                               "type = \"learned\"\ncapacity = 32", "type = \"transformer_xl\""}) {
    INFO(encoding);
    const auto values = after_one_update(encoding, TrainOptions());
    int decayed = 0, plain = 0;
    for (const auto& [name, value] : values) {
      INFO(name << " = " << value);
      const bool scale = ends_with(name, ".bias") || ends_with(name, ".gain") ||
                         name.find("norm") != std::string::npos;
      if (scale) CHECK(value == Approx(0.990000001).epsilon(2e-7));
      if (name == "embedding.weight" || ends_with(name, "qkv.weight") ||
          ends_with(name, "head.weight"))
        CHECK(value == Approx(0.989000001).epsilon(2e-7));
      const bool has_decayed = value < 0.9895;
      CHECK(value == Approx(has_decayed ? 0.989000001 : 0.990000001).epsilon(2e-7));
      ++(has_decayed ? decayed : plain);
    }
    CHECK(decayed >= 8);
    CHECK(plain >= 8);
  }
  // A bias learned for each distance is no matrix either.
  const auto relative = after_one_update("type = \"t5\"", TrainOptions());
  int tables = 0;
  for (const auto& [name, value] : relative)
    if (name.find("encoding") != std::string::npos) {
      INFO(name);
      CHECK(value == Approx(0.990000001).epsilon(2e-7));
      ++tables;
    }
  CHECK(tables >= 1);
}

// The gradient becomes 0.1 + 0.1 * 1 = 0.2, and Adam's first step has the same length for any
// gradient.
TEST_CASE("Adam adds the decay to the gradient", "[train]") {
  TrainOptions options;
  options.optimizer = "adam";
  options.epsilon = 0.1;  // so that the gradient's size shows: 0.2 / (0.2 + 0.1), 0.1 / (0.1 + 0.1)
  for (const auto& [name, value] : after_one_update("type = \"none\"", options)) {
    INFO(name);
    const bool decays = name == "embedding.weight" || ends_with(name, "qkv.weight");
    if (decays) CHECK(value == Approx(1 - 0.01 * 2.0 / 3).epsilon(2e-7));
    if (ends_with(name, ".bias")) CHECK(value == Approx(1 - 0.01 * 0.5).epsilon(2e-7));
  }
}
