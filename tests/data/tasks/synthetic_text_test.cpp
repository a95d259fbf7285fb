#include <map>

#include "tests/data/task_check.h"

namespace longshot::test {
namespace {

// The whole test split as one segment, and the byte after it.
Ids test_bytes(const Task& task) {
  const Example whole = example_of(task, task.max_length(), 0);
  Ids bytes = whole.input;
  bytes.push_back(whole.target.back());
  return bytes;
}

TEST_CASE("synthetic_text: without copies, every letter has at most four successors",
          "[data][tasks]") {
  const auto task = make("synthetic_text",
                         "bytes = 40000\nsymbols = 20\ncopy_rate = 0.0\n"
                         "valid_fraction = 0.0\ntest_fraction = 0.5");
  const Ids bytes = test_bytes(*task);
  REQUIRE(bytes.size() == 20000);
  std::map<int32_t, std::map<int32_t, int>> successors;
  for (size_t i = 0; i + 1 < bytes.size(); ++i) ++successors[bytes[i]][bytes[i + 1]];
  double entropy = 0;
  for (const auto& [letter, next] : successors) {
    CHECK(letter >= '!');
    CHECK(letter < '!' + 20);
    CHECK(next.size() <= 4);
    double total = 0;
    for (const auto& [successor, times] : next) total += times;
    for (const auto& [successor, times] : next)
      entropy -= times / double(bytes.size()) * std::log2(times / total);
  }
  CHECK(entropy <= 1.76);  // 1/2, 1/4, 1/8, 1/8 is 1.75 bits; less where successors coincide
  CHECK(entropy > 0.5);
}

TEST_CASE("synthetic_text: passages come back at the distances asked for", "[data][tasks]") {
  // Always copying, always from 50 back: after the first 50 bytes the text has period 50.
  const auto task = make("synthetic_text",
                         "bytes = 4000\ncopy_rate = 1.0\nmin_distance = 50\n"
                         "max_distance = 50\nvalid_fraction = 0.0\ntest_fraction = 0.5");
  const Ids bytes = test_bytes(*task);
  for (size_t i = 50; i < bytes.size(); ++i) REQUIRE(bytes[i] == bytes[i - 50]);
}

TEST_CASE("synthetic_text: the text has its own seed, apart from the run's", "[data][tasks]") {
  const auto one = make("synthetic_text", "bytes = 5000"),
             again = make("synthetic_text", "bytes = 5000");
  const auto other = make("synthetic_text", "bytes = 5000\ntext_seed = 2");
  CHECK(test_bytes(*one) == test_bytes(*again));
  CHECK(test_bytes(*one) != test_bytes(*other));
  CHECK(example_of(*one, 20, 1, Split::test, 1).input ==
        example_of(*one, 20, 1, Split::test, 2).input);
  CHECK(inputs_of(*one, Split::train, 1, 20) != inputs_of(*one, Split::train, 2, 20));
  CHECK(one->spec().causal);
  CHECK_FALSE(make("synthetic_text", "objective = \"masked\"")->spec().causal);
}

TEST_CASE("synthetic_text: wrong use", "[data][tasks]") {
  CHECK_THROWS_WITH(make("synthetic_text", "min_distance = 9\nmax_distance = 8"),
                    ContainsSubstring("min_distance"));
  CHECK_THROWS_AS(make("synthetic_text", "symbols = 500"), UsageError);
}

}  // namespace
}  // namespace longshot::test
