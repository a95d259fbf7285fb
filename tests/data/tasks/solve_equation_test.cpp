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

TEST_CASE("solve_equation: examples worked by hand", "[data][tasks]") {
  const auto task = make("solve_equation");
  CHECK(find_example(*task, 7, {7, 9, 5, 4, 8, 10, 2}).target == Ids{3});  // (x+4) = 2
  CHECK(find_example(*task, 7, {7, 1, 6, 9, 8, 10, 3}).target == Ids{3});  // (1-x) = 3
  CHECK(find_example(*task, 3, {9, 10, 4}).target == Ids{4});              // x = 4
  CHECK(find_example(*task, 4, {6, 9, 10, 2}).target == Ids{3});           // -x = 2
  CHECK(find_example(*task, 1, {0}).target == Ids{0});
  CHECK(find_example(*task, 2, {0, 0}).target == Ids{0});
}

TEST_CASE("solve_equation: targets recomputed from the input", "[data][tasks]") {
  const auto task = make("solve_equation");
  for (const int64_t length : {1, 2, 3, 4, 5, 6, 7, 40, 500})
    for (uint64_t index = 0; index < 50; ++index) {
      const Example example = example_of(*task, length, index);
      const Ids& x = example.input;
      INFO("length " << length << ", index " << index);
      REQUIRE(int64_t(x.size()) == length);
      if (length < 3) continue;
      REQUIRE(x[x.size() - 2] == 10);
      REQUIRE(std::count(x.begin(), x.end(), 9) == 1);
      // Try all five digits: exactly one solves the equation.
      Ids solutions;
      for (int32_t digit = 0; digit < 5; ++digit) {
        Ids left(x.begin(), x.end() - 2);
        std::replace(left.begin(), left.end(), 9, digit);
        if (Evaluator(left, -1, 7, 8).value() == x.back()) solutions.push_back(digit);
      }
      REQUIRE(example.target == solutions);
    }
}

TEST_CASE("solve_equation: shape, streams and chance", "[data][tasks]") {
  const auto task = make("solve_equation");
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
