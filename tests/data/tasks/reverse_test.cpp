#include "tests/data/task_check.h"

namespace longshot::test {
namespace {

TEST_CASE("reverse: examples worked by hand", "[data][tasks]") {
  // Three symbols: END 3, BEGIN 4, SEPARATOR 5.
  const Example plain = find_example(*make("reverse", "symbols = 3"), 3, {4, 2, 0, 1, 5, 1, 0, 2});
  CHECK(plain.target == Ids{1, 0, 2, 3});
  const Example with_copy = find_example(
      *make("reverse", "symbols = 3\nvariant = \"reverse_copy\""), 2, {4, 2, 0, 5, 0, 2, 2, 0});
  CHECK(with_copy.target == Ids{0, 2, 2, 0, 3});
  const Example twice = find_example(*make("reverse", "symbols = 3\nvariant = \"reverse_twice\""),
                                     2, {4, 2, 0, 5, 0, 2, 0, 2});
  CHECK(twice.target == Ids{0, 2, 0, 2, 3});
  CHECK_THROWS_WITH(make("reverse", "variant = \"reverse_twise\""),
                    ContainsSubstring("reverse_twice"));
}

TEST_CASE("reverse: answers recomputed from the prompt", "[data][tasks]") {
  const auto task = make("reverse");
  for (const int64_t length : {1, 2, 3, 7, 40})
    for (uint64_t index = 0; index < 50; ++index) {
      const auto [prompt, answer] = causal_parts(*task, length, index);
      INFO("length " << length << ", index " << index);
      REQUIRE(answer == Ids(prompt.rbegin(), prompt.rend()));
    }
}

TEST_CASE("reverse: the variants' answers recomputed", "[data][tasks]") {
  for (const std::string variant : {"reverse_copy", "reverse_twice"}) {
    const auto task = make("reverse", "variant = \"" + variant + "\"");
    check_contract(*task);
    for (uint64_t index = 0; index < 30; ++index) {
      const auto [prompt, answer] = causal_parts(*task, 9, index);
      Ids wanted(prompt.rbegin(), prompt.rend());
      if (variant == "reverse_copy")
        wanted.insert(wanted.end(), prompt.begin(), prompt.end());
      else
        wanted.insert(wanted.end(), prompt.rbegin(), prompt.rend());
      REQUIRE(answer == wanted);
    }
  }
}

TEST_CASE("reverse: shape, streams and chance", "[data][tasks]") {
  const auto task = make("reverse");
  const TaskSpec spec = task->spec();
  CHECK(spec.causal);
  CHECK(spec.exact_match);
  CHECK(spec.output == Output::per_token);
  CHECK(spec.input_vocabulary == spec.output_classes + 3);  // BEGIN, SEPARATOR, PADDING
  check_contract(*task);
  check_contract(*make("reverse", "end_token = false"));
  check_chance(*task, 1.0 / 26);
}

}  // namespace
}  // namespace longshot::test
