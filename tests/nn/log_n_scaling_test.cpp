// Logits multiplied by ln n (Chiang and Cholak 2022), which is every query multiplied by it: the
// same as a model without the option whose query side is ln n times as large. So the query's
// products with keys and with an encoding's vectors (Shaw, Transformer-XL) grow, a bias that does
// not read the query (ALiBi, T5) stays.
#include <cmath>

#include "tests/nn/encoder_support.h"

using namespace longshot;
using namespace longshot::testing;

namespace {

// Values far from the small initial ones, so that every term of the logits matters.
void spread_parameters(TestModel& model) {
  uint64_t seed = 1;
  for (const Parameter::Entry& entry : model.encoder().parameters().entries()) {
    Tensor tensor = entry.tensor;
    tensor.copy_from(std::span<const double>(random_values(tensor.elements(), ++seed, -0.7, 0.7)));
  }
}

// Multiplies what makes the query: the first third of W_qkv (and of its bias), and what an encoding
// adds to the query.
void scale_queries(TestModel& model, double factor) {
  int64_t scaled = 0;
  for (const Parameter::Entry& entry : model.encoder().parameters().entries()) {
    const auto named = [&](const char* part) { return entry.name.find(part) != std::string::npos; };
    const bool whole = named(".content_bias") || named(".position_bias");
    if (!whole && !named(".qkv.")) continue;
    std::vector<double> values = entry.tensor.to_doubles();
    const size_t end = whole ? values.size() : values.size() / 3;
    for (size_t i = 0; i < end; ++i) values[i] *= factor;
    Tensor tensor = entry.tensor;
    tensor.copy_from(std::span<const double>(values));
    ++scaled;
  }
  REQUIRE(scaled > 0);
}

std::vector<std::string> encodings() {
  std::vector<std::string> result;
  for (const std::string& name : encoding_names()) result.push_back(type_line(name));
  result.push_back("type = \"shaw\"\nclip = 2\nvalues = true");
  result.push_back("type = \"transformer_xl\"\nclamp = 2");
  return result;
}

}  // namespace

TEST_CASE("ln n scaling is a larger query, for every encoding", "[encoder]") {
  const int64_t length = 7;
  const TestBatch batch = random_batch(2, length, 3);
  for (const char* positions : {"type = \"contiguous\"", "type = \"randomized\"\nmax = 40"})
    for (const std::string& encoding : encodings()) {
      INFO(encoding << " " << positions);
      ModelWords words;
      words.encoding = encoding;
      words.positions = positions;
      words.model += "\nattention_bias = true";
      TestModel plain(words, DType::f64);
      words.model += "\nlog_n_scaling = true";
      TestModel scaled(words, DType::f64);
      spread_parameters(plain);
      spread_parameters(scaled);
      const std::vector<double> logits = scaled.evaluate(batch);
      CHECK(logits != plain.evaluate(batch));
      scale_queries(plain, std::log(double(length)));
      check_close(plain.evaluate(batch), logits, 1e-9, "bidirectional");
    }
}

TEST_CASE("ln n scaling in a causal model follows the visible tokens, for every encoding",
          "[encoder]") {
  // One layer, so that a row's output depends on its own factor alone.
  const int64_t length = 5, classes = 3;
  const TestBatch batch = random_batch(1, length, 4);
  for (const std::string& encoding : encodings()) {
    INFO(encoding);
    ModelWords words;
    words.encoding = encoding;
    words.model = "dim = 16\nlayers = 1\nheads = 4\nffn = 24\ncausal = true";
    TestModel plain(words, DType::f64);
    words.model += "\nlog_n_scaling = true";
    TestModel scaled(words, DType::f64);
    spread_parameters(scaled);
    const std::vector<double> logits = scaled.evaluate(batch);
    for (int64_t row = 0; row < length; ++row) {
      spread_parameters(plain);
      scale_queries(plain, std::log(double(row + 1)));
      const std::vector<double> all = plain.evaluate(batch);
      check_close({all.begin() + row * classes, all.begin() + (row + 1) * classes},
                  {logits.begin() + row * classes, logits.begin() + (row + 1) * classes}, 1e-9,
                  "row " + std::to_string(row));
    }
  }
}

TEST_CASE("relative values with ln n scaling: with vectors of zero, the fused attention's result",
          "[encoder]") {
  // Shaw with values goes through the composed attention, without them through the fused one.
  for (const bool causal : {false, true}) {
    INFO((causal ? "causal" : "bidirectional"));
    ModelWords words;
    words.model += "\nlog_n_scaling = true";
    if (causal) words.model += "\ncausal = true";
    words.encoding = "type = \"shaw\"\nclip = 3";
    TestModel fused(words, DType::f64);
    words.encoding += "\nvalues = true";
    TestModel composed(words, DType::f64);
    for (const Parameter::Entry& entry : composed.encoder().parameters().entries()) {
      Tensor tensor = entry.tensor;
      if (fused.encoder().parameters().find(entry.name) != nullptr) continue;
      tensor.copy_from(
          std::span<const double>(std::vector<double>(size_t(tensor.elements()), 0.0)));
    }
    TestBatch batch = random_batch(2, 6, 5);
    batch.lengths = {6, 4};
    check_close(composed.train(batch).logits, fused.train(batch).logits, 1e-10, "outputs");
    for (const Parameter::Entry& entry : fused.encoder().parameters().entries())
      check_close(composed.encoder().parameters().find(entry.name)->tensor.gradient_to_doubles(),
                  entry.tensor.gradient_to_doubles(), 1e-9, entry.name);
  }
}
