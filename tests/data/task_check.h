// What every task's test starts from: making one, finding the example with a given input, and the
// contract that all tasks keep (sizes, ids, purity, streams that never meet, chance level).
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "core/config_toml.h"
#include "data/task.h"
#include "tests/catch.h"

namespace longshot::test {

using Ids = std::vector<int32_t>;

inline std::unique_ptr<Task> make(const std::string& type, const std::string& toml = "") {
  return make_task(type, parse_toml(toml, "test.toml"));
}

inline Example example_of(const Task& task, int64_t length, uint64_t index,
                          Split split = Split::test, uint64_t seed = 1, int64_t stride = 0) {
  Example example;
  task.example({seed, split, length, index, stride}, example);
  return example;
}

// The example of this length whose input is exactly `input`: random tasks meet every short input
// sooner or later. Fails the test when it does not turn up.
inline Example find_example(const Task& task, int64_t length, const Ids& input,
                            uint64_t tries = 200000) {
  Example example;
  for (uint64_t index = 0; index < tries; ++index) {
    task.example({1, Split::test, length, index, 0}, example);
    if (example.input == input) return example;
  }
  FAIL("no example of length " << length << " has the input that was worked out by hand");
  return example;
}

// How many of the first `count` scored places of a target there are: the accuracy mask in short.
inline int64_t scored_places(const Example& example) {
  int64_t places = 0;
  for (const uint8_t scored : example.scored) places += scored;
  return places;
}

inline std::vector<Ids> inputs_of(const Task& task, Split split, uint64_t seed, int64_t length,
                                  uint64_t first = 0) {
  std::vector<Ids> inputs;
  for (uint64_t i = 0; i < 64; ++i)
    inputs.push_back(example_of(task, length, first + i, split, seed).input);
  return inputs;
}

// Sizes as declared (at most, when not `exact`), ids within the vocabularies, an accuracy mask only
// where there is a target; examples pure, and different from stream to stream.
inline void check_contract(const Task& task, bool exact = true) {
  const TaskSpec spec = task.spec();
  REQUIRE(spec.input_vocabulary >= 1);
  REQUIRE(spec.output_classes >= 2);
  CHECK(spec.chance > 0);
  CHECK(spec.chance < 1);
  CHECK_FALSE(spec.chance_reason.empty());
  CHECK(spec.padding_token >= 0);
  CHECK(spec.padding_token < spec.input_vocabulary);
  CHECK((spec.placeholder_token >= 0) == (spec.output == Output::placeholders));
  CHECK(spec.placeholder_token < spec.input_vocabulary);
  CHECK(int64_t(spec.input_symbols.size()) <= spec.input_vocabulary);
  CHECK(int64_t(spec.output_symbols.size()) <= spec.output_classes);

  Example reused, fresh;
  for (const int64_t length : {1, 2, 3, 4, 5, 17, 40}) {
    for (uint64_t index = 0; index < 40; ++index) {
      const ExampleKey key{7, Split::train, length, index, 0};
      task.example(key, reused);
      fresh = Example();
      task.example(key, fresh);
      INFO("length " << length << ", index " << index);
      REQUIRE(reused.input == fresh.input);
      REQUIRE(reused.target == fresh.target);
      REQUIRE(reused.scored == fresh.scored);
      REQUIRE(reused.scored.size() == reused.target.size());
      if (exact) {
        REQUIRE(int64_t(reused.input.size()) == task.input_length(length));
        REQUIRE(int64_t(reused.target.size()) == task.output_length(length));
      } else {
        REQUIRE(int64_t(reused.input.size()) <= task.input_length(length));
        REQUIRE(int64_t(reused.target.size()) <= task.output_length(length));
      }
      for (const int32_t id : reused.input) {
        REQUIRE(id >= 0);
        REQUIRE(id < spec.input_vocabulary);
        REQUIRE(id != spec.placeholder_token);
      }
      for (size_t k = 0; k < reused.target.size(); ++k) {
        REQUIRE(reused.target[k] >= -1);
        REQUIRE(reused.target[k] < spec.output_classes);
        REQUIRE((reused.scored[k] == 0 || reused.target[k] >= 0));
      }
    }
  }

  const auto train = inputs_of(task, Split::train, 1, 20);
  CHECK(train != inputs_of(task, Split::test, 1, 20));
  CHECK(train != inputs_of(task, Split::validation, 1, 20));
  CHECK(inputs_of(task, Split::test, 1, 20) != inputs_of(task, Split::validation, 1, 20));
  CHECK(train != inputs_of(task, Split::train, 2, 20));
  CHECK(train != inputs_of(task, Split::train, 1, 20, uint64_t(1) << 32));
}

// Guessing uniformly among the first 1 / chance classes is right as often as the listing says, at
// the scored places that hold one of these classes (a terminator is not guessed).
inline void check_chance(const Task& task, double expected) {
  const double chance = task.spec().chance;
  CHECK(chance == Approx(expected));
  const uint64_t classes = uint64_t(1.0 / chance + 0.5);
  RandomSequence guess({3, RandomPurpose::test, 0, 0});
  double right = 0, places = 0;
  for (uint64_t index = 0; index < 4000; ++index) {
    const Example example = example_of(task, 12, index);
    for (size_t k = 0; k < example.target.size(); ++k) {
      if (!example.scored[k] || uint64_t(example.target[k]) >= classes) continue;
      right += uint64_t(example.target[k]) == guess.below(classes);
      ++places;
    }
  }
  REQUIRE(places >= 1000);
  const double deviation = std::sqrt(chance * (1 - chance) / places);
  CHECK(std::abs(right / places - chance) < 4.5 * deviation);
}

// A causal example taken apart by the layout of data/causal_task.h.
struct CausalParts {
  Ids prompt, answer;
};
inline CausalParts take_apart(const Task& task, const Example& example) {
  const int32_t end = int32_t(task.spec().output_classes - 1);
  const int32_t begin = end + 1, separator = end + 2;
  CausalParts parts;
  REQUIRE(example.input.front() == begin);
  const auto mark = std::find(example.input.begin(), example.input.end(), separator);
  REQUIRE(mark != example.input.end());
  parts.prompt.assign(example.input.begin() + 1, mark);
  parts.answer = example.target;
  // Teacher forcing: after the separator stands the answer without its last token.
  REQUIRE(Ids(mark + 1, example.input.end()) == Ids(parts.answer.begin(), parts.answer.end() - 1));
  REQUIRE(scored_places(example) == int64_t(parts.answer.size()));
  if (parts.answer.back() == end) parts.answer.pop_back();
  for (const int32_t id : parts.answer) REQUIRE(id < end);
  return parts;
}
inline CausalParts causal_parts(const Task& task, int64_t length, uint64_t index) {
  return take_apart(task, example_of(task, length, index));
}

}  // namespace longshot::test
