// Whole encoders against PyTorch: outputs and all gradients, from numbers made by
// tests/reference/encoder_reference.py, which says how weights and loss are fixed.
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/nn/encoder_support.h"

using namespace longshot;
using namespace longshot::testing;
using nlohmann::json;

namespace {

double rule(int64_t parameter, int64_t element) {
  const int64_t h = element * 7919 + parameter * 104729 + 12345;
  return double(h * h % 1000003) / 1000003.0 - 0.5;
}

void set_weights(ParameterStore& store) {
  std::vector<std::string> names;
  for (const Parameter::Entry& entry : store.entries()) names.push_back(entry.name);
  std::sort(names.begin(), names.end());
  for (size_t p = 0; p < names.size(); ++p) {
    const Tensor& tensor = store.find(names[p])->tensor;
    const bool gain = names[p].size() > 5 && names[p].substr(names[p].size() - 5) == ".gain";
    std::vector<double> values(size_t(tensor.elements()));
    for (size_t e = 0; e < values.size(); ++e) {
      const double u = rule(int64_t(p), int64_t(e));
      values[e] = gain ? 1 + 0.5 * u : u;
    }
    if (tensor.dtype() == DType::f64)
      tensor.copy_from(std::span<const double>(values));
    else
      tensor.copy_from(std::span<const float>(std::vector<float>(values.begin(), values.end())));
  }
}

void check_case(const json& reference, DType dtype, double tolerance) {
  ModelWords words;
  words.model = reference["model"];
  words.encoding = reference["encoding"];
  words.interface = {.input_vocabulary = reference["vocabulary"],
                     .output_classes = reference["classes"],
                     .mean_pool = reference["mean_pool"],
                     .train_length = reference["length"]};
  TestModel model(words, dtype);
  Encoder& encoder = model.encoder();
  set_weights(encoder.parameters());

  TestBatch batch;
  batch.tokens = reference["tokens"].get<std::vector<int32_t>>();
  batch.lengths = reference["lengths"].get<std::vector<int32_t>>();
  batch.input.batch = reference["batch"];
  batch.input.length = reference["length"];
  batch.input.left_padded = reference["left_padded"];
  batch.input.output_begin = reference["output_begin"];
  batch.input.outputs = reference["outputs"];

  const StepScope step(model.context());
  encoder.parameters().begin_gradients();
  const Tensor logits = encoder.forward(encoder.prepare(batch.view()));
  const auto expected = reference["logits"].get<std::vector<double>>();
  const auto counts = reference["counts"].get<std::vector<int>>();
  const std::vector<double> actual = logits.to_doubles();
  const int64_t classes = words.interface.output_classes;
  REQUIRE(actual.size() == expected.size());
  REQUIRE(actual.size() == counts.size() * size_t(classes));
  std::vector<double> cotangent(actual.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    if (counts[i / size_t(classes)] == 0) continue;
    INFO("logit " << i);
    CHECK(actual[i] == Approx(expected[i]).epsilon(tolerance).margin(tolerance));
    cotangent[i] = rule(1000, int64_t(i));
  }
  const Tensor weights = model.context().from_doubles(cotangent, logits.shape());
  model.context().tape().backward(ops::sum(ops::mul(logits, weights)));
  encoder.parameters().finish_gradients();

  REQUIRE(reference["gradients"].size() == encoder.parameters().entries().size());
  for (const auto& [name, values] : reference["gradients"].items()) {
    const Parameter::Entry* entry = encoder.parameters().find(name);
    INFO("parameter " << name);
    REQUIRE(entry != nullptr);
    check_close(entry->tensor.gradient_to_doubles(), values.get<std::vector<double>>(), tolerance,
                name);
  }
}

}  // namespace

TEST_CASE("encoder: outputs and gradients agree with PyTorch", "[encoder][reference]") {
  std::ifstream file(LONGSHOT_SOURCE_DIR "/tests/reference/encoder_reference.json");
  REQUIRE(file.good());
  const json references = json::parse(file);
  REQUIRE(references.size() >= 10);
  for (const json& reference : references) {
    INFO(reference["name"].get<std::string>());
    check_case(reference, DType::f64, 1e-7);  // the numbers have 9 digits
    check_case(reference, DType::f32, 1e-5);
  }
}
