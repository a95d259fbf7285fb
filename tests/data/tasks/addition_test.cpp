#include "tests/data/task_check.h"

namespace longshot::test {
namespace {

// Column addition of two equally long numbers, most significant digit first, one digit longer.
Ids decimal_sum(Ids a, const Ids& b) {
  a.insert(a.begin(), 0);
  for (size_t i = 0; i < b.size(); ++i) a[i + 1] += b[i];
  for (size_t i = a.size(); i-- > 1;)
    if (a[i] >= 10) a[i] -= 10, ++a[i - 1];
  return a;
}

TEST_CASE("addition: examples worked by hand", "[data][tasks]") {
  // END 11, BEGIN 12, SEPARATOR 13, + 10. 95 + 07 = 102.
  const Example padded = find_example(*make("addition"), 2, {12, 9, 5, 10, 0, 7, 13, 1, 0, 2});
  CHECK(padded.target == Ids{1, 0, 2, 11});
  const Example reversed =
      find_example(*make("addition", "reversed = true"), 2, {12, 5, 9, 10, 7, 0, 13, 2, 0, 1});
  CHECK(reversed.target == Ids{2, 0, 1, 11});
  const Example natural = find_example(*make("addition", "pad = false"), 2,
                                       {12, 2, 5, 10, 1, 7, 13, 4, 2});  // 25 + 17 = 42
  CHECK(natural.target == Ids{4, 2, 11});
}

TEST_CASE("addition: answers recomputed from the prompt", "[data][tasks]") {
  const auto task = make("addition");
  for (const int64_t length : {1, 2, 3, 7, 40})
    for (uint64_t index = 0; index < 50; ++index) {
      const auto [prompt, answer] = causal_parts(*task, length, index);
      INFO("length " << length << ", index " << index);
      const auto plus = std::find(prompt.begin(), prompt.end(), 10);
      REQUIRE(plus - prompt.begin() == length);
      REQUIRE(int64_t(prompt.size()) == 2 * length + 1);
      Ids wanted = decimal_sum(Ids(prompt.begin(), plus), Ids(plus + 1, prompt.end()));
      REQUIRE(answer == wanted);
    }
}

TEST_CASE("addition: natural numbers have no leading zeros", "[data][tasks]") {
  const auto task = make("addition", "pad = false");
  check_contract(*task, false);
  bool short_sum = false, long_sum = false;
  for (uint64_t index = 0; index < 200; ++index) {
    const auto [prompt, answer] = causal_parts(*task, 3, index);
    REQUIRE(prompt[0] != 0);
    REQUIRE(prompt[4] != 0);
    REQUIRE(answer[0] != 0);
    Ids wanted =
        decimal_sum({prompt.begin(), prompt.begin() + 3}, {prompt.begin() + 4, prompt.end()});
    if (wanted[0] == 0) wanted.erase(wanted.begin());
    REQUIRE(answer == wanted);
    (answer.size() == 3 ? short_sum : long_sum) = true;
  }
  CHECK(short_sum);
  CHECK(long_sum);
}

TEST_CASE("addition: shape, streams and chance", "[data][tasks]") {
  const auto task = make("addition");
  const TaskSpec spec = task->spec();
  CHECK(spec.causal);
  CHECK(spec.exact_match);
  CHECK(spec.output == Output::per_token);
  CHECK(spec.input_vocabulary == spec.output_classes + 3);  // BEGIN, SEPARATOR, PADDING
  check_contract(*task);
  check_contract(*make("addition", "end_token = false"));
  check_chance(*task, 0.1);
}

}  // namespace
}  // namespace longshot::test
