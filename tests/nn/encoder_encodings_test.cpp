// What holds for an encoder with every registered encoding: padding changes nothing, switching
// encoding changes neither dropout nor other parameters, long evaluation stays in bounded memory.
#include <algorithm>
#include <cmath>

#include "nn/attention.h"
#include "tests/nn/encoder_support.h"

using namespace longshot;
using namespace longshot::testing;

namespace {

// body(words, causal) for every encoding in every kind of model that takes it.
template <class Body>
void for_every_encoding(const Body& body) {
  REQUIRE(encoding_names().size() >= 11);
  for (const std::string& name : encoding_names()) {
    for (const bool causal : {false, true}) {
      if (!causal && causal_only(name)) continue;
      INFO("encoding " << name << (causal ? ", causal" : ", bidirectional"));
      ModelWords words;
      words.encoding = type_line(name);
      if (causal) words.model += "\ncausal = true";
      body(words);
    }
  }
}

}  // namespace

TEST_CASE("every encoding: padding left or right changes nothing", "[encoder][padding]") {
  const int64_t tokens = 6, padded = 12;
  for (const char* positions :
       {"type = \"contiguous\"", "type = \"randomized\"\nmax = 64",
        "type = \"randomized\"\nmax = 64\nrelative = \"distances\"\nper_layer = true"}) {
    INFO(positions);
    for_every_encoding([&](ModelWords words) {
      words.positions = positions;
      words.model += "\nlog_n_scaling = true";
      TestModel model(words);
      const TestBatch alone = random_batch(1, tokens, 3);
      const std::vector<double> expected = model.evaluate(alone);
      for (const bool left : {false, true}) {
        // Beside it a row of full length and one of a single token.
        TestBatch batch = random_batch(3, padded, 4);
        batch.lengths = {int32_t(tokens), int32_t(padded), 1};
        batch.input.left_padded = left;
        const int64_t begin = left ? padded - tokens : 0;
        std::copy(alone.tokens.begin(), alone.tokens.end(), batch.tokens.begin() + begin);
        const std::vector<double> logits = model.evaluate(batch);
        const std::vector<double> row(logits.begin() + begin * 3,
                                      logits.begin() + (begin + tokens) * 3);
        check_close(row, expected, 1e-6, left ? "left padding" : "right padding");
        CHECK(std::all_of(logits.begin(), logits.end(), [](double x) { return std::isfinite(x); }));
      }
    });
  }
}

TEST_CASE("every encoding: a row of padding alone gives finite gradients", "[encoder][padding]") {
  for_every_encoding([](const ModelWords& words) {
    TestModel model(words);
    TestBatch batch = random_batch(2, 5, 5);
    batch.lengths = {5, 0};
    const TestModel::Step step = model.train(batch);
    CHECK(std::all_of(step.gradient.begin(), step.gradient.end(),
                      [](double x) { return std::isfinite(x); }));
  });
}

TEST_CASE("every encoding: other parameters start with the same values", "[encoder]") {
  TestModel plain({});
  for_every_encoding([&](const ModelWords& words) {
    TestModel model(words);
    for (const Parameter::Entry& entry : plain.encoder().parameters().entries()) {
      INFO(entry.name);
      CHECK(model.parameter(entry.name) == entry.tensor.to_doubles());
    }
  });
}

TEST_CASE("switching encoding does not switch embedding scale or dropout", "[encoder]") {
  // An additive encoding whose table is zero is no encoding: the same activations, dropout on, to
  // the bit.
  ModelWords words;
  words.model += "\ndropout = 0.3\nattention_dropout = 0.2";
  const TestBatch batch = random_batch(3, 7, 6);
  TestModel plain(words);
  words.encoding = "type = \"learned\"\ndeviation = 0.0";
  TestModel zero(words);
  const std::vector<double> expected = plain.train(batch).logits;
  CHECK(zero.train(batch).logits == expected);
  CHECK(plain.evaluate(batch) != expected);  // so dropout was on
  // And a logit bias of zero, which takes another way through attention.
  words.encoding = "type = \"t5\"\ndeviation = 0.0";
  check_close(TestModel(words).train(batch).logits, expected, 1e-6, "zero bias");
}

TEST_CASE("every encoding and sampler: four times the training length runs", "[encoder]") {
  for (const char* positions :
       {"type = \"contiguous\"", "type = \"shifted\"\nmax = 50", "type = \"randomized\"\nmax = 100",
        "type = \"randomized\"\nmax = 100\nrelative = \"distances\"\ndraw = "
        "\"sequence\"\ndraw_every = 1"}) {
    INFO(positions);
    for_every_encoding([&](ModelWords words) {
      words.positions = positions;
      TestModel model(words);
      const TestModel::Step step = model.train(random_batch(2, 16, 7));
      const std::vector<double> logits = model.evaluate(random_batch(2, 64, 8));
      CHECK(std::all_of(step.gradient.begin(), step.gradient.end(),
                        [](double x) { return std::isfinite(x); }));
      CHECK(std::all_of(logits.begin(), logits.end(), [](double x) { return std::isfinite(x); }));
    });
  }
}

TEST_CASE("every encoding: evaluation needs no more memory than stated", "[encoder][memory]") {
  // The last gives positions too far apart for a table over distances.
  for (const char* positions : {"type = \"contiguous\"", "type = \"randomized\"\nmax = 2000",
                                "type = \"randomized\"\nmax = 20000"}) {
    INFO(positions);
    for_every_encoding([&](ModelWords words) {
      // A bounded encoding must have a row for every position that may be drawn.
      if (TestModel(words).encoder().encoding().traits().capacity > 0)
        words.encoding += "\ncapacity = 20000";
      words.positions = positions;
      words.model.replace(words.model.find("layers = 2"), 10, "layers = 1");
      words.model += "\nlog_n_scaling = true";
      for (const int64_t length : {int64_t(16), int64_t(64), int64_t(512)}) {
        TestModel model(words);
        model.evaluate(random_batch(1, length, 9));
        const auto peak = int64_t(model.context().step_heap().peak());
        const int64_t stated = model.encoder().evaluation_bytes_per_sequence(length);
        INFO("length " << length << ": peak " << peak << ", stated " << stated);
        CHECK(peak <= stated + 16 * 1024);  // guards around blocks of the test's heap
      }
    });
  }
}

TEST_CASE("every encoding: a bias by distance alone costs a long evaluation no dense block",
          "[encoder][memory]") {
  const int64_t length = 16384;
  ModelWords words;
  words.model = "dim = 64\nlayers = 1\nheads = 8\nffn = 256";
  const auto stated = [&](const std::string& encoding) {
    words.encoding = encoding;
    return TestModel(words).encoder().evaluation_bytes_per_sequence(length);
  };
  words.positions = "type = \"contiguous\"";
  const int64_t without = stated(type_line("none"));
  int tables = 0, dense = 0;
  for (const std::string& name : encoding_names()) {
    INFO(name);
    words.encoding = type_line(name);
    const EncodingTraits traits = TestModel(words).encoder().encoding().traits();
    if (!traits.logits) continue;
    if (traits.distance_table) {
      ++tables;
      CHECK(stated(type_line(name)) == without);
    } else {
      ++dense;
      CHECK(stated(type_line(name)) > without + MultiHeadAttention::kDenseBytes);
    }
  }
  CHECK(tables > 0);
  CHECK(dense > 0);
  // And what is stated is enough, at a length whose dense bias would take 134 MB.
  words.model = "dim = 16\nlayers = 1\nheads = 2\nffn = 16";
  for (const std::string& name : encoding_names()) {
    words.encoding = type_line(name);
    TestModel model(words);
    if (!model.encoder().encoding().traits().distance_table) continue;
    INFO(name);
    model.evaluate(random_batch(1, 4096, 9));
    CHECK(int64_t(model.context().step_heap().peak()) <=
          model.encoder().evaluation_bytes_per_sequence(4096) + 16 * 1024);
  }
}

TEST_CASE("evaluation with a dense bias grows with the length, not with its square",
          "[encoder][memory]") {
  ModelWords words;
  words.encoding = "type = \"shaw\"\nvalues = true";
  words.model = "dim = 32\nlayers = 1\nheads = 4\nffn = 8\ncausal = true";
  const auto peak = [&](int64_t length) {
    TestModel model(words);
    TestBatch batch = random_batch(1, length, 9);
    batch.lengths = {int32_t(length - 1)};
    model.evaluate(batch);
    return double(model.context().step_heap().peak());
  };
  // Both are past the point where blocks begin (4 + 8 numbers a pair, 32 MB: 836 tokens).
  const double once = peak(900), three_times = peak(2700);
  CHECK(three_times < 2 * once);
  CHECK(once < 4 * 32e6 + 1e7);
}

TEST_CASE("every encoding: evaluation in blocks of query rows gives the same outputs",
          "[encoder][memory]") {
  // Eight sequences of 700 tokens need several blocks, one alone needs one.
  const int64_t length = 700, batch = 8;
  for (const std::string& name : encoding_names()) {
    ModelWords words;
    words.encoding = type_line(name);
    words.model = "dim = 16\nlayers = 1\nheads = 2\nffn = 8\ncausal = true";
    TestModel model(words);
    if (!model.encoder().encoding().traits().logits) continue;
    INFO("encoding " << name);
    const TestBatch all = random_batch(batch, length, 10);
    TestBatch one = all;
    one.tokens.assign(all.tokens.end() - length, all.tokens.end());
    one.input.batch = 1;
    const std::vector<double> logits = model.evaluate(all), alone = model.evaluate(one);
    check_close(std::vector(logits.end() - length * 3, logits.end()), alone, 1e-5, "last row");
  }
}
