#include "tests/data/task_check.h"

namespace longshot::test {
namespace {

// Recursive descent over the tokens with the usual precedence, in wide integers (mod 5 only at
// the very end would overflow, so products are reduced): written for the test alone.
class Evaluator {
 public:
  Evaluator(const Ids& tokens, int32_t times, int32_t open, int32_t close)
      : tokens_(tokens), times_(times), open_(open), close_(close) {}
  int64_t value() {
    const int64_t result = sum();
    REQUIRE(at_ == tokens_.size());
    return ((result % 5) + 5) % 5;
  }

 private:
  int64_t sum() {
    int64_t result = product();
    while (at_ < tokens_.size() && (tokens_[at_] == 5 || tokens_[at_] == 6))
      result += tokens_[at_++] == 5 ? product() : -product();
    return result % 5;
  }
  int64_t product() {
    int64_t result = factor();
    while (at_ < tokens_.size() && tokens_[at_] == times_) {
      ++at_;
      result = result * factor() % 5;
    }
    return result;
  }
  int64_t factor() {
    REQUIRE(at_ < tokens_.size());
    const int32_t token = tokens_[at_++];
    if (token == 6) return -factor();
    if (token == open_) {
      const int64_t inner = sum();
      REQUIRE(at_ < tokens_.size());
      REQUIRE(tokens_[at_++] == close_);
      return inner;
    }
    REQUIRE(token <= 4);
    return token;
  }

  const Ids& tokens_;
  size_t at_ = 0;
  int32_t times_, open_, close_;
};

TEST_CASE("modular_arithmetic_brackets: examples worked by hand", "[data][tasks]") {
  const auto task = make("modular_arithmetic_brackets");
  CHECK(find_example(*task, 8, {8, 8, 3, 9, 7, 6, 2, 9}).target == Ids{4});  // ((3)*-2) = -6
  CHECK(find_example(*task, 5, {8, 4, 5, 3, 9}).target == Ids{2});           // (4+3) = 7
  CHECK(find_example(*task, 4, {8, 6, 1, 9}).target == Ids{4});              // (-1)
  CHECK(find_example(*task, 3, {8, 2, 9}).target == Ids{2});
  CHECK(find_example(*task, 2, {6, 3}).target == Ids{2});
  CHECK(find_example(*task, 1, {4}).target == Ids{4});
  CHECK(find_example(*task, 6, {8, 1, 6, 6, 3, 9}).target == Ids{4});  // (1--3) = 4
}

TEST_CASE("modular_arithmetic_brackets: targets recomputed from the input", "[data][tasks]") {
  const auto task = make("modular_arithmetic_brackets");
  for (const int64_t length : {1, 2, 3, 4, 5, 6, 7, 40, 500})
    for (uint64_t index = 0; index < 50; ++index) {
      const Example example = example_of(*task, length, index);
      const Ids& x = example.input;
      INFO("length " << length << ", index " << index);
      REQUIRE(int64_t(x.size()) == length);
      REQUIRE(example.target == Ids{int32_t(Evaluator(x, 7, 8, 9).value())});
    }
}

TEST_CASE("modular_arithmetic_brackets: shape, streams and chance", "[data][tasks]") {
  const auto task = make("modular_arithmetic_brackets");
  const TaskSpec spec = task->spec();
  CHECK(spec.level == "DCF");
  CHECK(spec.input_vocabulary == 11 + 1);
  CHECK(spec.placeholder_token == 11);
  CHECK(spec.output_classes == 5);
  CHECK(task->output_length(7) == 1);
  CHECK(task->output_length(40) == 1);
  check_contract(*task);
  check_chance(*task, 0.2);
}

}  // namespace
}  // namespace longshot::test
