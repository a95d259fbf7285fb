// What an encoder does whatever its encoding: symmetry without one, heads, masks, and mistakes.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/parallel.h"
#include "tests/nn/encoder_support.h"

using namespace longshot;
using namespace longshot::testing;

namespace {

// Row `row` of logits (..., classes).
std::vector<double> classes_at(const std::vector<double>& logits, int64_t row,
                               int64_t classes = 3) {
  return {logits.begin() + row * classes, logits.begin() + (row + 1) * classes};
}

}  // namespace

TEST_CASE("encoder: without an encoding, outputs permute with inputs and equal tokens look alike",
          "[encoder]") {
  TestModel model({});
  TestBatch batch = random_batch(1, 7, 3, 5);
  batch.tokens[4] = batch.tokens[5] = batch.tokens[6] = 5;  // placeholders
  const std::vector<double> logits = model.evaluate(batch);
  check_close(classes_at(logits, 5), classes_at(logits, 4), 1e-6, "placeholders");
  check_close(classes_at(logits, 6), classes_at(logits, 4), 1e-6, "placeholders");
  REQUIRE(classes_at(logits, 0) != classes_at(logits, 4));

  const std::vector<int> order = {6, 2, 0, 5, 1, 4, 3};
  TestBatch moved = batch;
  for (size_t i = 0; i < 7; ++i) moved.tokens[i] = batch.tokens[size_t(order[i])];
  const std::vector<double> permuted = model.evaluate(moved);
  for (int64_t i = 0; i < 7; ++i)
    check_close(classes_at(permuted, i), classes_at(logits, order[size_t(i)]), 1e-6, "permuted");
}

TEST_CASE("encoder: a causal model's outputs do not depend on later tokens", "[encoder]") {
  ModelWords words;
  words.model += "\ncausal = true";
  TestModel model(words);
  TestBatch batch = random_batch(1, 6, 4);
  const std::vector<double> before = model.evaluate(batch);
  batch.tokens[4] = (batch.tokens[4] + 1) % 6;
  const std::vector<double> after = model.evaluate(batch);
  for (int64_t i = 0; i < 4; ++i) CHECK(classes_at(after, i) == classes_at(before, i));
  CHECK(classes_at(after, 4) != classes_at(before, 4));
  CHECK(classes_at(after, 5) != classes_at(before, 5));
}

TEST_CASE("encoder: predictions on a span are those of the whole sequence", "[encoder]") {
  for (const char* norm : {"post", "pre"}) {
    ModelWords words;
    words.model += std::string("\nnorm = \"") + norm + "\"";
    TestModel model(words);
    TestBatch batch = random_batch(2, 6, 5);
    const std::vector<double> all = model.evaluate(batch);
    REQUIRE(all.size() == 2 * 6 * 3);
    batch.input.output_begin = 2;
    batch.input.outputs = 3;
    const std::vector<double> span = model.evaluate(batch);
    REQUIRE(span.size() == 2 * 3 * 3);
    for (int64_t b = 0; b < 2; ++b)
      for (int64_t o = 0; o < 3; ++o)
        check_close(classes_at(span, b * 3 + o), classes_at(all, b * 6 + 2 + o), 1e-6, norm);
  }
}

TEST_CASE("encoder: mean pooling averages real tokens only", "[encoder]") {
  ModelWords words;
  TestBatch batch = random_batch(2, 5, 6);
  batch.lengths = {5, 3};
  const std::vector<double> all = TestModel(words).evaluate(batch);
  words.interface.mean_pool = true;
  const std::vector<double> pooled = TestModel(words).evaluate(batch);  // the same initial values
  REQUIRE(pooled.size() == 2 * 3);
  // The head is linear, so the mean of the logits is the logits of the mean.
  for (int64_t b = 0; b < 2; ++b) {
    const int64_t tokens = batch.lengths[size_t(b)];
    std::vector<double> mean(3, 0.0);
    for (int64_t t = 0; t < tokens; ++t)
      for (size_t c = 0; c < 3; ++c) mean[c] += classes_at(all, b * 5 + t)[c] / double(tokens);
    check_close(classes_at(pooled, b), mean, 1e-6, "pooled");
  }
}

TEST_CASE("encoder: a tied head multiplies by the embedding and has no weight of its own",
          "[encoder]") {
  ModelWords words;
  words.model += "\ntied_head = true";
  words.interface.output_classes = 4;  // fewer than the 6 input tokens
  TestModel model(words, DType::f64);
  CHECK(model.encoder().parameters().find("head.weight") == nullptr);
  const TestBatch batch = random_batch(1, 3, 7);
  std::vector<double> hidden;
  {
    const StepScope step(model.context());
    const NoRecordingScope off(model.context());
    hidden = model.encoder().hidden(model.encoder().prepare(batch.view())).to_doubles();
  }
  const std::vector<double> logits = model.evaluate(batch),
                            table = model.parameter("embedding.weight");
  for (size_t t = 0; t < 3; ++t)
    for (size_t c = 0; c < 4; ++c) {
      double expected = 0;  // the bias starts at zero
      for (size_t d = 0; d < 16; ++d) expected += hidden[t * 16 + d] * table[c * 16 + d];
      CHECK(logits[t * 4 + c] == Approx(expected).margin(1e-12));
    }
  words.interface.output_classes = 7;
  CHECK_THROWS_WITH(TestModel(words), ContainsSubstring("tied_head") && ContainsSubstring("7"));
}

TEST_CASE("encoder: which parameters there are follows the options", "[encoder]") {
  const auto names = [](const std::string& more) {
    ModelWords words;
    words.model = "dim = 8\nlayers = 1\nheads = 2\nffn = 4\n" + more;
    TestModel model(words);
    std::vector<std::string> result = model.encoder().parameters().names(true);
    const std::vector<std::string> rest = model.encoder().parameters().names(false);
    result.insert(result.end(), rest.begin(), rest.end());
    std::sort(result.begin(), result.end());
    return result;
  };
  CHECK(names("") == std::vector<std::string>{
                         "block.0.attention.out.weight", "block.0.attention.qkv.weight",
                         "block.0.attention_norm.bias", "block.0.attention_norm.gain",
                         "block.0.ffn.down.bias", "block.0.ffn.down.weight", "block.0.ffn.up.bias",
                         "block.0.ffn.up.weight", "block.0.ffn_norm.bias", "block.0.ffn_norm.gain",
                         "embedding.weight", "head.bias", "head.weight"});
  CHECK(names("norm = \"pre\"\nnorm_type = \"rms\"\nattention_bias = true\nffn_bias = "
              "false\nhead_bias = false") ==
        std::vector<std::string>{"block.0.attention.out.bias", "block.0.attention.out.weight",
                                 "block.0.attention.qkv.bias", "block.0.attention.qkv.weight",
                                 "block.0.attention_norm.gain", "block.0.ffn.down.weight",
                                 "block.0.ffn.up.weight", "block.0.ffn_norm.gain",
                                 "embedding.weight", "final_norm.gain", "head.weight"});
}

TEST_CASE("encoder: the published size", "[encoder]") {
  // Ruoss et al.: 5 layers of 49,728 parameters, embedding and head aside.
  ModelWords words;
  words.model = "";
  words.interface = {
      .input_vocabulary = 3, .output_classes = 2, .mean_pool = false, .train_length = 0};
  TestModel model(words);
  CHECK(model.encoder().parameters().parameter_count() == 5 * 49728 + 3 * 64 + 2 * 64 + 2);
}

TEST_CASE("encoder: no layers at all is embedding, last norm and head", "[encoder]") {
  for (const char* norm : {"post", "pre"}) {
    ModelWords words;
    words.model = std::string("dim = 8\nlayers = 0\nheads = 2\nffn = 4\nnorm = \"") + norm + "\"";
    TestModel model(words);
    const TestBatch batch = random_batch(2, 3, 8);
    CHECK(model.evaluate(batch).size() == 2 * 3 * 3);
    CHECK(std::isfinite(model.train(batch).logits[0]));
  }
}

TEST_CASE("encoder: ln n scaling multiplies the logits by ln of the visible tokens", "[encoder]") {
  // Seen through prepare(), which makes the factors.
  const auto factors = [](bool causal, std::vector<int32_t> lengths, bool left) {
    ModelWords words;
    words.model += std::string("\nlog_n_scaling = true\ncausal = ") + (causal ? "true" : "false");
    TestModel model(words);
    TestBatch batch = random_batch(2, 4, 9);
    batch.lengths = std::move(lengths);
    batch.input.left_padded = left;
    const StepScope step(model.context());
    return model.encoder().prepare(batch.view()).row_scale.to_doubles();
  };
  const double l2 = std::log(2.0), l3 = std::log(3.0), l4 = std::log(4.0);
  check_close(factors(false, {}, false), std::vector{l4, l4, l4, l4}, 1e-6, "whole");
  check_close(factors(true, {}, false), std::vector{0.0, l2, l3, l4}, 1e-6, "causal");
  check_close(factors(false, {4, 2}, false), std::vector{l4, l4, l4, l4, l2, l2, l2, l2}, 1e-6,
              "padded");
  const std::vector<double> left = factors(true, {4, 2}, true);
  check_close(std::vector(left.begin() + 6, left.end()), std::vector{0.0, l2}, 1e-6,
              "causal, left padding");
}

TEST_CASE("encoder: gradients of a small one against differences", "[encoder]") {
  for (const char* more :
       {"norm = \"post\"\nactivation = \"gelu\"",
        "norm = \"pre\"\nnorm_type = \"rms\"\nactivation = \"gelu_tanh\"\n"
        "causal = true\nlog_n_scaling = true\ntied_head = true\nattention_bias = true"}) {
    INFO(more);
    ModelWords words;
    words.model =
        std::string(
            "dim = 4\nlayers = 2\nheads = 2\nffn = 6\ndropout = 0.2\nattention_dropout = 0.1\n") +
        more;
    words.interface.input_vocabulary = 4;
    TestModel model(words, DType::f64);
    TestBatch batch = random_batch(2, 4, 10, 4);
    batch.lengths = {4, 3};
    std::vector<Tensor> leaves;
    for (const Parameter::Entry& entry : model.encoder().parameters().entries()) {
      leaves.push_back(entry.tensor);
      if (entry.name.find("weight") == std::string::npos) continue;
      leaves.back().copy_from(std::span<const double>(
          random_values(entry.tensor.elements(), leaves.size(), -0.7, 0.7)));
    }
    check_gradients(model.context(), leaves, [&] {
      EncoderInput input = batch.view();
      input.training = true;
      return std::vector{model.encoder().forward(model.encoder().prepare(input))};
    });
  }
}

TEST_CASE("encoder: equal bits for any number of threads", "[encoder]") {
  ModelWords words;
  words.model = "dim = 64\nlayers = 2\nheads = 4\nffn = 128\ndropout = 0.1";
  const TestBatch batch = random_batch(8, 50, 11);
  const int before = threads();
  std::vector<TestModel::Step> results;
  for (int n = 1; n <= 4; ++n) {
    set_threads(n);
    TestModel model(words);
    results.push_back(model.train(batch));
    CHECK(results.back().logits == results.front().logits);
    CHECK(results.back().gradient == results.front().gradient);
  }
  set_threads(before);
}

TEST_CASE("encoder: cutting a batch into micro-batches moves no dropout mask", "[encoder]") {
  ModelWords words;
  words.model += "\ndropout = 0.3\nattention_dropout = 0.2";
  TestModel model(words);
  const TestBatch whole = random_batch(4, 5, 12);
  TestBatch second = whole;
  second.tokens.erase(second.tokens.begin(), second.tokens.begin() + 10);
  second.input.batch = 2;
  second.input.first_sample = 2;
  const std::vector<double> all = model.train(whole).logits,
                            half = model.train(second, 3, 2).logits;
  check_close(half, std::vector(all.begin() + 30, all.end()), 1e-6, "second half");
  CHECK(model.train(whole, 4).logits != all);             // another step, other masks
  CHECK(model.evaluate(whole) == model.evaluate(whole));  // none at evaluation
}

TEST_CASE("encoder: mistakes are refused when the model is built", "[encoder]") {
  ModelWords words;
  words.model = "dim = 16\nheads = 5";
  CHECK_THROWS_WITH(TestModel(words),
                    ContainsSubstring("heads = 5") && ContainsSubstring("dim = 16"));
  CHECK_THROWS_AS(TestModel(words), UsageError);

  words = {};
  words.encoding = "type = \"nonne\"";
  CHECK_THROWS_WITH(TestModel(words),
                    ContainsSubstring("encoding.toml:1") && ContainsSubstring("did you mean"));
  words.encoding = "";
  CHECK_THROWS_WITH(TestModel(words), ContainsSubstring("needs a type"));
  words.encoding = "type = \"none\"\nbase = 3";
  CHECK_THROWS_WITH(TestModel(words), ContainsSubstring("encoding.toml:2"));

  words = {};
  words.positions = "type = \"randomized\"\nmax = 12";  // training meets 16 tokens
  CHECK_THROWS_WITH(TestModel(words), ContainsSubstring("positions.toml:1") &&
                                          ContainsSubstring("16") && ContainsSubstring("12"));
}

TEST_CASE("encoder: mistakes in a batch are refused", "[encoder]") {
  TestModel model({});
  const auto refused = [&](auto change, const char* text) {
    TestBatch batch = random_batch(2, 4, 13);
    change(batch);
    const StepScope step(model.context());
    CHECK_THROWS_WITH(model.encoder().prepare(batch.view()), ContainsSubstring(text));
  };
  refused([](TestBatch& b) { b.tokens[5] = 6; }, "token 6 at row 1, position 1");
  refused([](TestBatch& b) { b.tokens[0] = -1; }, "token -1");
  refused([](TestBatch& b) { b.tokens.pop_back(); }, "7 tokens");
  refused([](TestBatch& b) { b.lengths = {4}; }, "1 sequence lengths");
  refused([](TestBatch& b) { b.lengths = {4, 5}; }, "row 1 has 5 real tokens of 4");
  refused([](TestBatch& b) { b.input.output_begin = 3, b.input.outputs = 2; }, "positions 3 to 4");
  refused([](TestBatch& b) { b.input.length = 0, b.tokens.clear(); }, "at least 1");
}

TEST_CASE("encoder: configs written out build the same model again", "[encoder]") {
  ModelWords words;
  words.positions = "type = \"randomized\"\nmax = 77";
  TestModel model(words);
  const ConfigTable& positions = model.encoder().positions_config();
  CHECK(positions.find("max")->to_toml() == "77");
  CHECK(positions.find("draw") != nullptr);  // defaults included
  words.positions = positions.to_toml();
  words.encoding = model.encoder().encoding_config().to_toml();
  TestModel again(words);
  const TestBatch batch = random_batch(2, 5, 14);
  CHECK(again.evaluate(batch) == model.evaluate(batch));
}
