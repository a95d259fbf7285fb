#include "data/batcher.h"

#include <algorithm>
#include <map>

#include "tests/data/task_check.h"
#include "tests/data/temporary_file.h"

namespace longshot::test {
namespace {

LengthOptions lengths(const std::string& toml) {
  LengthOptions options;
  read_options(parse_toml(toml, "test.toml"), ReadContext{"train.lengths", {}, {}}, options);
  return options;
}

bool same(const Batch& a, const Batch& b) {
  return a.rows == b.rows && a.length == b.length && a.tokens == b.tokens &&
         a.lengths == b.lengths && a.padded == b.padded && a.output_begin == b.output_begin &&
         a.outputs == b.outputs && a.targets == b.targets && a.scored == b.scored &&
         a.target_count == b.target_count && a.scored_count == b.scored_count &&
         a.task_lengths == b.task_lengths && a.first_index == b.first_index;
}

// A task with examples of prescribed sizes, to see the layout: input length, length, ..., one more
// token per index; targets 10 + k.
class Ragged : public Task {
 public:
  explicit Ragged(Output output) : output_(output) {}
  TaskSpec spec() const override {
    TaskSpec spec;
    spec.input_vocabulary = 100;
    spec.output_classes = 50;
    spec.placeholder_token = output_ == Output::placeholders ? 98 : -1;
    spec.padding_token = 99;
    spec.output = output_;
    spec.chance = 0.5;
    return spec;
  }
  int64_t input_length(int64_t length) const override { return length + 8; }
  int64_t output_length(int64_t) const override { return 8; }
  void example(const ExampleKey& key, Example& out) const override {
    out.clear();
    const int64_t tokens = key.length + int64_t(key.index);
    for (int64_t i = 0; i < tokens; ++i) out.input.push_back(int32_t(i + 1));
    const int64_t targets = output_ == Output::placeholders || output_ == Output::per_token
                                ? 1 + int64_t(key.index)
                                : 1;
    for (int64_t k = 0; k < targets; ++k) out.predict(int32_t(10 + k), k == 0);
  }

 private:
  Output output_;
};

TEST_CASE("batcher: placeholders follow the input, short rows are padded", "[data]") {
  const Ragged task(Output::placeholders);
  Batcher batcher(task);
  Batch batch;
  batcher.evaluation(1, Split::test, 2, 0, 0, 2, batch);
  // Row 0: tokens 1 2, one answer. Row 1: tokens 1 2 3, two answers; only its first is scored.
  CHECK(batch.length == 5);
  CHECK(batch.tokens == Ids{1, 2, 98, 99, 99, 1, 2, 3, 98, 98});
  CHECK(batch.lengths == Ids{3, 5});
  CHECK(batch.padded);
  CHECK(batch.output_begin == 2);  // row 0's answer stands at position 2, row 1's at 3 and 4
  CHECK(batch.outputs == 3);
  CHECK(batch.targets == Ids{10, -1, -1, -1, 10, 11});
  CHECK(batch.scored == std::vector<uint8_t>{1, 0, 0, 0, 1, 0});
  CHECK(batch.target_count == 3);
  CHECK(batch.scored_count == 2);
}

TEST_CASE("batcher: per-token targets are the last positions of each row", "[data]") {
  const Ragged task(Output::per_token);
  Batcher batcher(task);
  Batch batch;
  batcher.evaluation(1, Split::test, 2, 0, 0, 2, batch);
  CHECK(batch.tokens == Ids{1, 2, 99, 1, 2, 3});
  CHECK(batch.lengths == Ids{2, 3});
  CHECK(batch.output_begin == 1);
  CHECK(batch.outputs == 2);
  CHECK(batch.targets == Ids{10, -1, 10, 11});
}

TEST_CASE("batcher: pooled tasks have one output at position 0", "[data]") {
  for (const Output output : {Output::first_token, Output::mean}) {
    const Ragged task(output);
    Batcher batcher(task);
    Batch batch;
    batcher.evaluation(1, Split::test, 2, 0, 3, 2, batch);
    CHECK(batch.first_index == 3);
    CHECK(batch.lengths == Ids{5, 6});
    CHECK(batch.output_begin == 0);
    CHECK(batch.outputs == 1);
    CHECK(batch.targets == Ids{10, 10});
    CHECK(batch.target_count == 2);
  }
}

TEST_CASE("batcher: one length a batch needs no padding and is uniform", "[data]") {
  const auto task = make("reverse_string");
  Batcher batcher(*task);
  Batch batch;
  const LengthOptions range = lengths("min = 3\nmax = 7").resolve(1000, *task);
  std::map<int64_t, int> seen;
  for (uint64_t step = 0; step < 2000; ++step) {
    batcher.training(5, step, range, 4, 0, 4, batch);
    const int64_t n = batch.task_lengths[0];
    REQUIRE(batch.task_lengths == std::vector<int64_t>(4, n));
    REQUIRE_FALSE(batch.padded);
    REQUIRE(batch.length == 2 * n);
    REQUIRE(batch.output_begin == n);
    REQUIRE(batch.outputs == n);
    REQUIRE(batch.target_count == 4 * n);
    ++seen[n];
  }
  REQUIRE(seen.size() == 5);
  // 2000 draws of 5 lengths: 400 each, standard deviation sqrt(2000 * 0.16) = 17.9.
  for (const auto& [n, times] : seen) CHECK(std::abs(times - 400) < 80);
}

TEST_CASE("batcher: a step is a pure function, whatever was made before it", "[data]") {
  const auto task = make("binary_addition");
  const LengthOptions range = lengths("max = 20").resolve(100, *task);
  Batcher one(*task), two(*task);
  Batch a, b;
  for (uint64_t step = 0; step < 9; ++step) one.training(1, step, range, 8, 0, 8, a);
  one.training(1, 4, range, 8, 0, 8, a);
  two.training(1, 4, range, 8, 0, 8, b);
  CHECK(same(a, b));
  two.training(2, 4, range, 8, 0, 8, b);
  CHECK_FALSE(same(a, b));
}

// Rows first .. first + part.rows - 1 of the whole batch, padding and span of predictions included.
void check_rows(const Batch& part, const Batch& whole, int64_t first) {
  const auto rows = [&](const auto& all, int64_t width) {
    return std::vector(all.begin() + first * width, all.begin() + (first + part.rows) * width);
  };
  REQUIRE(part.length == whole.length);
  REQUIRE(part.output_begin == whole.output_begin);
  REQUIRE(part.outputs == whole.outputs);
  REQUIRE(part.first_index == whole.first_index + uint64_t(first));
  REQUIRE(part.lengths == rows(whole.lengths, 1));
  REQUIRE(part.task_lengths == rows(whole.task_lengths, 1));
  REQUIRE(part.tokens == rows(whole.tokens, whole.length));
  REQUIRE(part.targets == rows(whole.targets, whole.outputs));
  REQUIRE(part.scored == rows(whole.scored, whole.outputs));
}

// Where rows differ in length, each micro-batch alone would often be padded to less.
TEST_CASE("batcher: micro-batches are rows of the large batch, padding included", "[data]") {
  // Three tokens each, and one to four placeholders.
  const TemporaryFile file(
      "{\"input\": [1, 2, 3], \"target\": [0]}\n{\"input\": [3, 2, 1], \"target\": [1, 0]}\n"
      "{\"input\": [2, 2, 3], \"target\": [0, 0, 1]}\n"
      "{\"input\": [1, 1, 3], \"target\": [1, 1, 1, 0]}\n");
  struct Case {
    std::string task, options, draw;
  };
  for (const Case& c : {Case{"bucket_sort", "", "batch"}, Case{"bucket_sort", "", "sequence"},
                        Case{"even_pairs", "", "sequence"}, Case{"addition", "", "sequence"},
                        Case{"jsonl",
                             fmt::format("train = \"{0}\"\ntest = \"{0}\"\nvalid_fraction = 0\n"
                                         "target = \"placeholders\"",
                                         file.path()),
                             "batch"}}) {
    INFO(c.task << ", draw = " << c.draw);
    const auto task = make(c.task, c.options);
    const LengthOptions range = lengths("max = 9\ndraw = \"" + c.draw + "\"").resolve(100, *task);
    Batcher batcher(*task), other(*task);
    Batch whole, part;
    bool moved = false;
    for (uint64_t step = 0; step < 8; ++step) {
      batcher.training(1, step, range, 6, 0, 6, whole);
      int64_t counted = 0;
      for (int64_t first = 0; first < 6; first += 2) {
        batcher.training(1, step, range, 6, first, 2, part);
        check_rows(part, whole, first);
        counted += part.target_count;
        moved = moved || *std::max_element(part.lengths.begin(), part.lengths.end()) < part.length;
        // In any order, and after other work.
        const int64_t back = 4 - first;
        other.training(1, step, range, 6, back, 2, part);
        check_rows(part, whole, back);
        other.evaluation(1, Split::test, 3, 0, 0, 2, part);
      }
      REQUIRE(counted == whole.target_count);
    }
    CHECK(moved == (c.task == "jsonl" || c.draw == "sequence"));
  }
}

TEST_CASE("batcher: a length for each sequence", "[data]") {
  const auto task = make("reverse_string");
  Batcher batcher(*task);
  Batch batch;
  const LengthOptions range = lengths("max = 12\ndraw = \"sequence\"").resolve(100, *task);
  batcher.training(1, 3, range, 64, 0, 64, batch);
  CHECK(batch.padded);
  std::map<int64_t, int> seen;
  for (int64_t row = 0; row < 64; ++row) {
    const int64_t n = batch.task_lengths[size_t(row)];
    ++seen[n];
    REQUIRE(batch.lengths[size_t(row)] == 2 * n);
    // The target of answer k, at position n + k, is the bit at position n - 1 - k.
    for (int64_t position = 0; position < batch.length; ++position) {
      const int64_t column = position - batch.output_begin;
      if (column < 0) continue;
      const int32_t target = batch.targets[size_t(row * batch.outputs + column)];
      if (position < n || position >= 2 * n)
        REQUIRE(target == -1);
      else
        REQUIRE(target == batch.tokens[size_t(row * batch.length + 2 * n - 1 - position)]);
      if (position >= 2 * n)
        REQUIRE(batch.tokens[size_t(row * batch.length + position)] == task->spec().padding_token);
    }
  }
  CHECK(seen.size() > 6);
}

TEST_CASE("batcher: fixed lengths and the curriculum", "[data]") {
  const auto task = make("even_pairs");
  const LengthOptions fixed = lengths("draw = \"fixed\"\nlength = 6").resolve(100, *task);
  CHECK(fixed.low() == 6);
  CHECK(fixed.high() == 6);
  const LengthOptions fixed_max = lengths("draw = \"fixed\"\nmax = 9").resolve(100, *task);
  CHECK(fixed_max.low() == 9);
  Batcher batcher(*task);
  Batch batch;
  for (uint64_t step = 0; step < 20; ++step) {
    batcher.training(1, step, fixed, 2, 0, 2, batch);
    REQUIRE(batch.task_lengths == std::vector<int64_t>{6, 6});
  }
  // From 2 at step 0 to 10 at step 8: one more a step.
  const LengthOptions growing =
      lengths("min = 2\nmax = 10\ncurriculum = \"linear\"\ncurriculum_steps = 8")
          .resolve(100, *task);
  CHECK(growing.high_at(0) == 2);
  CHECK(growing.high_at(1) == 3);
  CHECK(growing.high_at(7) == 9);
  CHECK(growing.high_at(8) == 10);
  CHECK(growing.high_at(1000) == 10);
  for (uint64_t step = 0; step < 30; ++step) {
    batcher.training(1, step, growing, 2, 0, 2, batch);
    REQUIRE(batch.task_lengths[0] <= growing.high_at(step));
  }
  // Half of the training when no number is given.
  const LengthOptions half = lengths("max = 11\ncurriculum = \"linear\"").resolve(100, *task);
  CHECK(half.curriculum_steps == 50);
  CHECK(half.high_at(25) == 6);
}

TEST_CASE("batcher: the largest batches are those of the longest length that occurs", "[data]") {
  const auto task = make("even_pairs");
  const LengthOptions grown =
      lengths("min = 2\nmax = 11\ncurriculum = \"linear\"").resolve(9, *task);
  CHECK(grown.longest_only(*task).low() == 11);
  CHECK(grown.longest_only(*task).high_at(0) == 11);
  // Sequences of 2, 3 and 5 tokens; the second has the most targets.
  const TemporaryFile file(
      "{\"input\": [1, 1], \"target\": [0]}\n{\"input\": [1, 1, 1], \"target\": [0, 0, 0, 0]}\n"
      "{\"input\": [1, 1, 1, 1, 1], \"target\": [0]}\n");
  const auto own = make("jsonl", fmt::format("train = \"{0}\"\ntest = \"{0}\"\nvalid_fraction = 0\n"
                                             "target = \"placeholders\"",
                                             file.path()));
  CHECK(lengths("max = 40").longest_only(*own).high() == 3);  // 7 tokens with its placeholders
  CHECK(lengths("min = 4\nmax = 40").longest_only(*own).high() == 5);
  CHECK(lengths("max = 2").longest_only(*own).high() == 2);
}

TEST_CASE("batcher: contradictory lengths are usage errors", "[data]") {
  const auto task = make("even_pairs");
  CHECK_THROWS_AS(lengths("min = 9\nmax = 3").resolve(1, *task), UsageError);
  CHECK_THROWS_WITH(lengths("length = 3").resolve(1, *task), ContainsSubstring("fixed"));
  CHECK_THROWS_WITH(lengths("curriculum_steps = 3").resolve(1, *task), ContainsSubstring("linear"));
  CHECK_THROWS_AS(lengths("draw = \"fixed\"\ncurriculum = \"linear\"").resolve(1, *task),
                  UsageError);
  CHECK_THROWS_AS(lengths("min = 0"), UsageError);
  CHECK_THROWS_WITH(lengths("draw = \"sequences\""), ContainsSubstring("sequence"));
}

TEST_CASE("batcher: evaluation rows do not depend on how they are cut into batches", "[data]") {
  const auto task = make("stack_manipulation");
  Batcher batcher(*task);
  Batch whole, part;
  batcher.evaluation(3, Split::test, 15, 0, 10, 8, whole);
  for (int64_t row = 0; row < 8; ++row) {
    batcher.evaluation(3, Split::test, 15, 0, uint64_t(10 + row), 1, part);
    CHECK(std::equal(part.tokens.begin(), part.tokens.end(),
                     whole.tokens.begin() + row * whole.length));
    CHECK(std::equal(part.targets.begin(), part.targets.end(),
                     whole.targets.begin() + row * whole.outputs));
    CHECK(std::equal(part.scored.begin(), part.scored.end(),
                     whole.scored.begin() + row * whole.outputs));
  }
  CHECK(whole.scored_count < whole.target_count);  // filler is trained on and not scored
}

}  // namespace
}  // namespace longshot::test
