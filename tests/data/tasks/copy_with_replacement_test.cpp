#include "tests/data/task_check.h"

namespace longshot::test {
namespace {

TEST_CASE("copy_with_replacement: examples worked by hand", "[data][tasks]") {
  const Example example = find_example(*make("copy_with_replacement", "symbols = 3"), 4,
                                       {4, 2, 2, 0, 2, 5, 2, 2, 0, 2});
  CHECK(example.target == Ids{2, 2, 0, 2, 3});
}

TEST_CASE("copy_with_replacement: answers recomputed from the prompt", "[data][tasks]") {
  const auto task = make("copy_with_replacement");
  for (const int64_t length : {1, 2, 3, 7, 40})
    for (uint64_t index = 0; index < 50; ++index) {
      const auto [prompt, answer] = causal_parts(*task, length, index);
      INFO("length " << length << ", index " << index);
      REQUIRE(int64_t(prompt.size()) == length);
      REQUIRE(answer == prompt);
    }
}

TEST_CASE("copy_with_replacement: the share of replaced places is the option's", "[data][tasks]") {
  // With 65536 symbols and length 400 the base symbol is the most frequent one, and a replaced
  // place never holds it.
  const auto task = make("copy_with_replacement", "symbols = 65536\nreplace = 0.3");
  int64_t kept = 0;
  for (uint64_t index = 0; index < 100; ++index) {
    Ids prompt = causal_parts(*task, 400, index).prompt;
    std::sort(prompt.begin(), prompt.end());
    kept += std::count(prompt.begin(), prompt.end(), prompt[200]);  // the median: a majority
  }
  // 40000 places, standard deviation sqrt(0.21 / 40000) = 0.0023.
  CHECK(double(kept) / 40000 == Approx(0.7).margin(0.01));
  const Ids none = causal_parts(*make("copy_with_replacement", "replace = 0.0"), 50, 3).prompt;
  CHECK(std::count(none.begin(), none.end(), none[0]) == 50);
}

TEST_CASE("copy_with_replacement: shape, streams and chance", "[data][tasks]") {
  const auto task = make("copy_with_replacement");
  const TaskSpec spec = task->spec();
  CHECK(spec.causal);
  CHECK(spec.exact_match);
  CHECK(spec.output == Output::per_token);
  CHECK(spec.input_vocabulary == spec.output_classes + 3);  // BEGIN, SEPARATOR, PADDING
  check_contract(*task);
  check_contract(*make("copy_with_replacement", "end_token = false"));
  check_chance(*task, 1.0 / 26);
}

}  // namespace
}  // namespace longshot::test
