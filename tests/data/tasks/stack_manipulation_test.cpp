#include "tests/data/task_check.h"

namespace longshot::test {
namespace {

TEST_CASE("stack_manipulation: examples worked by hand", "[data][tasks]") {
  const auto task = make("stack_manipulation");
  CHECK(find_example(*task, 5, {0, 1, 2, 4, 3}).target ==
        Ids{0, 1, 0, 2, 0, 0});  // 0 1, pop, push 1, push 0
  CHECK(find_example(*task, 3, {1, 2, 2}).target ==
        Ids{2, 0, 0, 0});  // popped empty, and once more
  CHECK(find_example(*task, 4, {1, 2, 2, 4}).target == Ids{1, 2, 0, 0, 0});
  CHECK(find_example(*task, 1, {0}).target == Ids{0, 2});
  CHECK(find_example(*task, 2, {1, 3}).target == Ids{0, 1, 2});
  const Example empty = find_example(*task, 3, {1, 2, 2});
  CHECK(empty.scored ==
        std::vector<uint8_t>{1, 0, 0, 0});  // the terminator counts, the filler does not
}

TEST_CASE("stack_manipulation: targets recomputed from the input", "[data][tasks]") {
  const auto task = make("stack_manipulation");
  for (const int64_t length : {1, 2, 3, 7, 40, 200})
    for (uint64_t index = 0; index < 50; ++index) {
      const Example example = example_of(*task, length, index);
      const Ids& x = example.input;
      INFO("length " << length << ", index " << index);
      // The content ends at the first action; its length is at least 1.
      const size_t content =
          size_t(std::find_if(x.begin(), x.end(), [](int32_t id) { return id >= 2; }) - x.begin());
      REQUIRE(content >= 1);
      if (length > 1) REQUIRE(content < x.size());
      std::string stack;
      for (size_t i = 0; i < x.size(); ++i) {
        if (x[i] == 2) {
          stack = stack.substr(0, stack.empty() ? 0 : stack.size() - 1);
        } else {
          stack += x[i] == 0 || x[i] == 3 ? 'a' : 'b';
        }
      }
      Ids wanted;
      for (size_t i = stack.size(); i-- > 0;) wanted.push_back(stack[i] == 'b');
      wanted.push_back(2);
      REQUIRE(scored_places(example) == int64_t(wanted.size()));
      wanted.resize(size_t(length + 1), 0);
      REQUIRE(example.target == wanted);
    }
}

TEST_CASE("stack_manipulation: shape, streams and chance", "[data][tasks]") {
  const auto task = make("stack_manipulation");
  const TaskSpec spec = task->spec();
  CHECK(spec.level == "DCF");
  CHECK(spec.input_vocabulary == 5 + 1);
  CHECK(spec.placeholder_token == 5);
  CHECK(spec.output_classes == 3);
  CHECK(task->output_length(7) == 8);
  CHECK(task->output_length(40) == 41);
  check_contract(*task);
  check_chance(*task, 0.5);
}

}  // namespace
}  // namespace longshot::test
