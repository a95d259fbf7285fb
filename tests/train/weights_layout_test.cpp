// docs/formats.md says what every array of a checkpoint is. Here its table is held against what
// models declare, and a model is computed with plain loops from the arrays as the page describes
// them.
#include <cmath>
#include <map>
#include <set>
#include <sstream>

#include "core/files.h"
#include "tests/nn/encoder_support.h"
#include "tests/train/small_run.h"
#include "train/safetensors.h"

using namespace longshot;
using longshot::testing::TestBatch;
using longshot::testing::TestModel;

namespace {

using Row = std::vector<double>;
using Matrix = std::vector<Row>;

// ---- a model from the page ---------------------------------------------------------------------

struct Weights {
  std::map<std::string, std::pair<std::vector<int64_t>, std::vector<float>>> all;
  explicit Weights(const std::string& path) {
    const SafetensorsFile file = SafetensorsFile::open(path);
    for (const SafetensorsEntry& entry : file.entries()) {
      std::vector<float> values(file.bytes(entry).size() / sizeof(float));
      std::memcpy(values.data(), file.bytes(entry).data(), file.bytes(entry).size());
      all[entry.name] = {entry.shape, values};
    }
  }
  bool has(const std::string& name) const { return all.count(name) == 1; }
  double at(const std::string& name, int64_t i) const { return all.at(name).second.at(size_t(i)); }
  double at(const std::string& name, int64_t row, int64_t column) const {
    return at(name, row * all.at(name).first.at(1) + column);
  }
  // y = W x + b, rows [begin, begin + count) of W
  Row linear(const std::string& name, const Row& x, int64_t begin, int64_t count) const {
    Row y;
    for (int64_t r = begin; r < begin + count; ++r) {
      double sum = has(name + ".bias") ? at(name + ".bias", r) : 0;
      for (size_t c = 0; c < x.size(); ++c) sum += at(name + ".weight", r, int64_t(c)) * x[c];
      y.push_back(sum);
    }
    return y;
  }
  Row norm(const std::string& name, const Row& x, bool rms, double epsilon) const {
    double mean = 0, square = 0;
    for (const double value : x) mean += value / double(x.size());
    if (rms) mean = 0;
    for (const double value : x) square += (value - mean) * (value - mean) / double(x.size());
    Row y;
    for (size_t i = 0; i < x.size(); ++i)
      y.push_back((x[i] - mean) / std::sqrt(square + epsilon) * at(name + ".gain", int64_t(i)) +
                  (rms ? 0 : at(name + ".bias", int64_t(i))));
    return y;
  }
};

struct Plan {
  int64_t dim, layers, heads, ffn, classes;
  bool pre, rms, causal, rope, relu, scaled, tied;
};

Row sum(Row a, const Row& b) {
  for (size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

// Pairs (2t, 2t + 1) of a head turn by p * 10000^(-2t / head_dim).
void turn(Row& lanes, int64_t position) {
  for (size_t t = 0; 2 * t < lanes.size(); ++t) {
    const double angle =
        double(position) * std::pow(10000.0, -2.0 * double(t) / double(lanes.size()));
    const double a = lanes[2 * t], b = lanes[2 * t + 1];
    lanes[2 * t] = a * std::cos(angle) - b * std::sin(angle);
    lanes[2 * t + 1] = b * std::cos(angle) + a * std::sin(angle);
  }
}

Matrix attention(const Weights& w, const std::string& block, const Matrix& x, const Plan& plan) {
  const int64_t width = plan.dim / plan.heads, length = int64_t(x.size());
  Matrix mixed(x.size());
  for (int64_t h = 0; h < plan.heads; ++h) {
    Matrix q, k, v;
    for (int64_t p = 0; p < length; ++p) {
      const std::string qkv = block + ".attention.qkv";
      q.push_back(w.linear(qkv, x[size_t(p)], h * width, width));
      k.push_back(w.linear(qkv, x[size_t(p)], plan.dim + h * width, width));
      v.push_back(w.linear(qkv, x[size_t(p)], 2 * plan.dim + h * width, width));
      if (plan.rope) turn(q.back(), p), turn(k.back(), p);
    }
    for (int64_t i = 0; i < length; ++i) {
      const int64_t seen = plan.causal ? i + 1 : length;
      Row share;
      double total = 0;
      for (int64_t j = 0; j < seen; ++j) {
        double dot = 0;
        for (size_t lane = 0; lane < size_t(width); ++lane)
          dot += q[size_t(i)][lane] * k[size_t(j)][lane];
        share.push_back(std::exp(dot / std::sqrt(double(width))));
        total += share.back();
      }
      for (size_t lane = 0; lane < size_t(width); ++lane) {
        double value = 0;
        for (int64_t j = 0; j < seen; ++j) value += share[size_t(j)] / total * v[size_t(j)][lane];
        mixed[size_t(i)].push_back(value);
      }
    }
  }
  for (Row& row : mixed) row = w.linear(block + ".attention.out", row, 0, plan.dim);
  return mixed;
}

Row feed_forward(const Weights& w, const std::string& block, const Row& x, const Plan& plan) {
  Row hidden = w.linear(block + ".ffn.up", x, 0, plan.ffn);
  for (double& value : hidden)
    value = plan.relu ? std::max(value, 0.0) : value * 0.5 * std::erfc(-value / std::sqrt(2.0));
  return w.linear(block + ".ffn.down", hidden, 0, plan.dim);
}

Matrix logits_of(const Weights& w, const std::vector<int32_t>& tokens, const Plan& plan) {
  const double epsilon = 1e-5;
  const auto normed = [&](const std::string& name, const Row& row) {
    return w.norm(name, row, plan.rms, epsilon);
  };
  Matrix x;
  for (const int32_t token : tokens) {
    x.emplace_back();
    for (int64_t c = 0; c < plan.dim; ++c)
      x.back().push_back(w.at("embedding.weight", token, c) *
                         (plan.scaled ? std::sqrt(double(plan.dim)) : 1.0));
  }
  for (int64_t n = 0; n < plan.layers; ++n) {
    const std::string block = "block." + std::to_string(n);
    const std::string first = block + ".attention_norm", second = block + ".ffn_norm";
    Matrix inside = x;
    if (plan.pre)
      for (Row& row : inside) row = normed(first, row);
    const Matrix attended = attention(w, block, inside, plan);
    for (size_t p = 0; p < x.size(); ++p) {
      x[p] = sum(x[p], attended[p]);
      if (!plan.pre) x[p] = normed(first, x[p]);
      x[p] = sum(x[p], feed_forward(w, block, plan.pre ? normed(second, x[p]) : x[p], plan));
      if (!plan.pre) x[p] = normed(second, x[p]);
    }
  }
  Matrix logits;
  for (Row& row : x) {
    if (plan.pre) row = normed("final_norm", row);
    logits.emplace_back();
    for (int64_t c = 0; c < plan.classes; ++c) {
      double value = w.has("head.bias") ? w.at("head.bias", c) : 0;
      for (int64_t i = 0; i < plan.dim; ++i)
        value += w.at(plan.tied ? "embedding.weight" : "head.weight", c, i) * row[size_t(i)];
      logits.back().push_back(value);
    }
  }
  return logits;
}

// Every parameter gets numbers that differ, gains and biases included.
void spread_parameters(TestModel& model) {
  int64_t number = 0;
  for (const Parameter::Entry& entry : model.encoder().parameters().entries()) {
    std::vector<float> values = entry.tensor.to_host<float>();
    for (float& value : values) value += 0.3f * float(std::sin(double(++number)));
    model.context().backend().copy_to_device(entry.tensor.data(), values.data(),
                                             values.size() * sizeof(float));
  }
}

// ---- the page's table --------------------------------------------------------------------------

struct Stated {
  std::string name, encoding, shape;
};

std::vector<Stated> stated_weights() {
  std::istringstream page(read_file(LONGSHOT_SOURCE_DIR "/docs/formats.md"));
  std::vector<Stated> rows;
  bool inside = false;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("#")) inside = line == "### The weights";
    if (!inside || !line.starts_with("| `")) continue;
    const size_t name_end = line.find('`', 3), bar = line.find('|', name_end);
    const std::string between = line.substr(name_end + 1, bar - name_end - 1);
    const size_t open = between.find('(');
    const size_t left = line.find('(', bar), right = line.find(')', bar);
    rows.push_back(
        {line.substr(3, name_end - 3),
         open == std::string::npos ? "" : between.substr(open + 1, between.find(')') - open - 1),
         line.substr(left + 1, right - left - 1)});
  }
  return rows;
}

// "2 * clip + 1, head_dim" to extents.
std::vector<int64_t> evaluated(const std::string& shape,
                               const std::map<std::string, int64_t>& sizes) {
  std::vector<int64_t> result;
  std::istringstream extents(shape);
  for (std::string extent; std::getline(extents, extent, ',');) {
    std::istringstream words(extent);
    int64_t total = 0, product = 1;
    for (std::string word; words >> word;) {
      if (word == "+")
        total += product, product = 1;
      else if (word != "*")
        product *= sizes.count(word) == 1 ? sizes.at(word) : std::stoll(word);
    }
    result.push_back(total + product);
  }
  return result;
}

std::string pattern_of(std::string name) {
  for (const char* counted : {"block.", "layer."}) {
    const size_t at = name.find(counted);
    if (at == std::string::npos) continue;
    const size_t begin = at + 6, end = name.find('.', begin);
    name = name.substr(0, begin) + "N" + name.substr(end);
  }
  return name;
}

}  // namespace

TEST_CASE("the page's table of weights is what models declare", "[train][formats]") {
  const std::vector<Stated> rows = stated_weights();
  REQUIRE(rows.size() > 20);
  std::set<size_t> met;
  const std::pair<const char*, const char*> variants[] = {
      {"", ""},
      {"\nnorm = \"pre\"\nattention_bias = true\ntied_head = true", ""},
      {"\nnorm = \"pre\"\nnorm_type = \"rms\"\nffn_bias = false\nhead_bias = false\ncausal = true",
       ""},
      {"", "values = true"}};
  for (const std::string& encoding : longshot::testing::encoding_names())
    for (const auto& [model_words, encoding_words] : variants) {
      if (*encoding_words != 0 && encoding != "shaw") continue;
      INFO(encoding << " " << model_words);
      longshot::testing::ModelWords words;
      words.model = "dim = 20\nlayers = 2\nheads = 2\nffn = 24" + std::string(model_words);
      words.encoding = longshot::testing::type_line(encoding) + "\n" + encoding_words;
      TestModel model(words);
      std::map<std::string, int64_t> sizes = {{"dim", 20},      {"ffn", 24},   {"heads", 2},
                                              {"head_dim", 10}, {"width", 20}, {"vocabulary", 6},
                                              {"classes", 3}};
      for (const auto& [key, value] : model.encoder().encoding_config().entries())
        if (const int64_t* number = std::get_if<int64_t>(&value.variant())) sizes[key] = *number;
      sizes["width"] = 20;
      sizes["bits"] = 11;  // of 2048 positions, binary's default
      for (const Parameter::Entry& entry : model.encoder().parameters().entries()) {
        INFO(entry.name);
        size_t found = rows.size();
        for (size_t i = 0; i < rows.size(); ++i)
          if (rows[i].name == pattern_of(entry.name) &&
              (rows[i].encoding.empty() || rows[i].encoding == encoding))
            found = i;
        REQUIRE(found < rows.size());
        met.insert(found);
        std::vector<int64_t> shape;
        for (int i = 0; i < entry.shape.rank(); ++i) shape.push_back(entry.shape[i]);
        CHECK(evaluated(rows[found].shape, sizes) == shape);
      }
    }
  for (size_t i = 0; i < rows.size(); ++i) {
    INFO(rows[i].name << " " << rows[i].encoding << ": no model declares it");
    CHECK(met.count(i) == 1);
  }
}

TEST_CASE("a model computed from its checkpoint as the page describes it", "[train][formats]") {
  struct Case {
    const char *model, *encoding;
    Plan plan;
  };
  const Case cases[] = {
      {"", "none", {16, 2, 4, 24, 3, false, false, false, false, true, true, false}},
      {"\nattention_bias = true",
       "rope",
       {16, 2, 4, 24, 3, false, false, false, true, true, true, false}},
      {"\nnorm = \"pre\"\nactivation = \"gelu\"\ncausal = true\nembedding_scale = false",
       "rope",
       {16, 2, 4, 24, 3, true, false, true, true, false, false, false}},
      {"\nnorm = \"pre\"\nnorm_type = \"rms\"\nffn_bias = false\ntied_head = true",
       "none",
       {16, 2, 4, 24, 3, true, true, false, false, true, true, true}},
  };
  const std::string path = longshot::test::fresh_folder("layout") + "/checkpoint.safetensors";
  for (const Case& each : cases) {
    INFO(each.encoding << each.model);
    longshot::testing::ModelWords words;
    words.model += each.model;
    words.encoding = longshot::testing::type_line(each.encoding);
    TestModel model(words);
    spread_parameters(model);
    save_parameters(path, model.encoder());
    const TestBatch batch = longshot::testing::random_batch(1, 7, 3);
    const std::vector<double> got = model.evaluate(batch);
    const Matrix expected = logits_of(Weights(path), batch.tokens, each.plan);
    REQUIRE(got.size() == expected.size() * 3);
    for (size_t i = 0; i < got.size(); ++i) {
      INFO(i);
      CHECK(got[i] == Approx(expected[i / 3][i % 3]).margin(1e-5).epsilon(1e-5));
    }
  }
}
