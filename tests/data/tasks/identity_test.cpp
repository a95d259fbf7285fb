#include <set>

#include "tests/data/task_check.h"

namespace longshot::test {
namespace {

TEST_CASE("identity: an example worked by hand", "[data][tasks]") {
  CHECK(find_example(*make("identity", "symbols = 4"), 4, {3, 0, 2, 0}).target == Ids{3, 0, 2, 0});
}

TEST_CASE("identity: every target is its token, every symbol occurs", "[data][tasks]") {
  const auto task = make("identity", "symbols = 64");
  std::set<int32_t> seen;
  for (const int64_t length : {1, 2, 7, 512})
    for (uint64_t index = 0; index < 20; ++index) {
      const Example example = example_of(*task, length, index);
      REQUIRE(int64_t(example.input.size()) == length);
      REQUIRE(example.target == example.input);
      REQUIRE(scored_places(example) == length);
      seen.insert(example.input.begin(), example.input.end());
    }
  CHECK(seen.size() == 64);
  CHECK(*seen.begin() == 0);
  CHECK(*seen.rbegin() == 63);
}

TEST_CASE("identity: the vocabulary is the number of symbols, nothing more", "[data][tasks]") {
  const auto task = make("identity", "symbols = 256");
  const TaskSpec spec = task->spec();
  CHECK(spec.output == Output::per_token);
  CHECK(spec.input_vocabulary == 256);
  CHECK(spec.output_classes == 256);
  CHECK(spec.placeholder_token == -1);
  CHECK_FALSE(spec.causal);
  CHECK(task->model_length(300) == 300);
  CHECK(task->max_length() == Task::kUnlimited);
  check_contract(*task);
  check_chance(*make("identity"), 1.0 / 16);
}

TEST_CASE("identity: options out of range name the key", "[data][tasks]") {
  CHECK_THROWS_WITH(make("identity", "symbols = 1"), ContainsSubstring("symbols"));
}

}  // namespace
}  // namespace longshot::test
