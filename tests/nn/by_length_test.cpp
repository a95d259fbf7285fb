// Whether a prefix alone gives the logits that it has in a longer sequence: what Encoder::by_length
// says must hold for every registered encoding with every registered sampler, in all their ways.
#include <algorithm>
#include <cmath>

#include "tests/nn/encoder_support.h"

using namespace longshot;
using namespace longshot::testing;

namespace {

// Every registered type as it comes, and the options that could make a difference.
std::vector<std::string> with_options(
    std::vector<std::string> names, const std::vector<std::pair<std::string, std::string>>& more) {
  std::vector<std::string> result;
  for (const std::string& name : names) result.push_back(type_line(name));
  for (const auto& [name, options] : more) {
    REQUIRE(std::find(names.begin(), names.end(), name) != names.end());
    result.push_back(type_line(name) + "\n" + options);
  }
  return result;
}

// Whether a bidirectional model refuses it.
bool needs_causal(const std::string& encoding) {
  ModelWords words;
  words.model += "\ncausal = true";
  words.encoding = encoding;
  return TestModel(words).encoder().encoding().traits().causal_only;
}

double largest_difference(TestModel& model, int64_t prefix, int64_t length) {
  const TestBatch whole = random_batch(1, length, 21);
  TestBatch first = random_batch(1, prefix, 21);
  first.tokens.assign(whole.tokens.begin(), whole.tokens.begin() + prefix);
  const std::vector<double> alone = model.evaluate(first), within = model.evaluate(whole);
  double difference = 0;
  for (size_t i = 0; i < alone.size(); ++i)
    difference = std::max(difference, std::abs(alone[i] - within[i]));
  return difference;
}

}  // namespace

TEST_CASE("by_length tells the truth for every encoding with every sampler", "[encoder]") {
  const std::vector<std::string> encodings = with_options(
      encoding_names(), {{"rope", "scaling = \"dynamic\"\nfactor = 4\noriginal_length = 6"},
                         {"rope", "scaling = \"yarn\"\nfactor = 4"},
                         {"rope", "scaling = \"ntk\"\nfactor = 4"},
                         {"scalar", "normalisation = \"current\""},
                         {"scalar", "normalisation = \"raw\""},
                         {"learned", "capacity = 64\nbeyond = \"clamp\""}});
  const std::vector<std::string> samplers =
      with_options(Registry<PositionSampler>::instance().names(),
                   {{"randomized", "max = 64\nevaluate = \"off\""},
                    {"randomized", "max = 64\nevaluate = \"even\""},
                    {"randomized", "max = 64\nrelative = \"distances\""}});
  for (const std::string& encoding : encodings)
    for (std::string sampler : samplers)
      for (const bool causal : {true, false})
        for (const bool log_n : {false, true}) {
          if (sampler == type_line("randomized")) sampler += "\nmax = 64";
          INFO(encoding << "\n" << sampler << (causal ? ", causal" : ", bidirectional"));
          ModelWords words;
          words.model = "dim = 16\nlayers = 2\nheads = 2\nffn = 24";
          if (causal) words.model += "\ncausal = true";
          if (log_n) words.model += "\nlog_n_scaling = true";
          words.encoding = encoding;
          words.positions = sampler;
          if (!causal && needs_causal(encoding)) continue;
          TestModel model(words);
          const double difference = largest_difference(model, 7, 12);
          INFO("largest difference " << difference);
          if (model.encoder().by_length())
            CHECK(difference > 1e-5);
          else
            CHECK(difference < 1e-5);
        }
}

TEST_CASE("most_tokens is the longest sequence that can be evaluated", "[encoder]") {
  struct Case {
    std::string encoding, positions;
    int64_t most;
  };
  const std::vector<Case> cases = {
      {type_line("rope"), type_line("contiguous"), 0},
      {type_line("learned") + "\ncapacity = 20", type_line("contiguous"), 20},
      {type_line("learned") + "\ncapacity = 20\nbeyond = \"clamp\"", type_line("contiguous"), 0},
      {type_line("rope"), type_line("randomized") + "\nmax = 18", 18},
      {type_line("learned") + "\ncapacity = 20", type_line("randomized") + "\nmax = 18", 18},
      {type_line("learned") + "\ncapacity = 20", type_line("shifted"), 20}};
  for (const Case& each : cases) {
    INFO(each.encoding << "\n" << each.positions);
    ModelWords words;
    words.encoding = each.encoding;
    words.positions = each.positions;
    words.interface.train_length = 4;
    TestModel model(words);
    CHECK(model.encoder().most_tokens() == each.most);
    if (each.most == 0) {
      CHECK_NOTHROW(model.evaluate(random_batch(1, 70, 3)));
    } else {
      CHECK_NOTHROW(model.evaluate(random_batch(1, each.most, 3)));
      CHECK_THROWS_AS(model.evaluate(random_batch(1, each.most + 1, 3)), Error);
    }
  }
}
