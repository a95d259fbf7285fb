#include "data/batcher.h"
#include "tests/data/task_check.h"
#include "tests/data/temporary_file.h"

namespace longshot::test {
namespace {

std::string quoted(const std::string& path) {
  return quote_toml(path);
}

std::unique_ptr<Task> text_of(const TemporaryFile& file, const std::string& more = "") {
  return make("text", "corpus = " + quoted(file.path()) + "\n" + more);
}

// 100 bytes 0 .. 99: with the fractions 0.2 and 0.3, train is 0 .. 49, validation 50 .. 69, test 70
// .. 99.
std::string counting() {
  std::string bytes;
  for (int i = 0; i < 100; ++i) bytes.push_back(char(i));
  return bytes;
}
const std::string kFractions = "valid_fraction = 0.2\ntest_fraction = 0.3\n";

TEST_CASE("text: causal segments predict the next byte within their own split", "[data][tasks]") {
  const TemporaryFile file(counting());
  const auto task = text_of(file, kFractions);
  const TaskSpec spec = task->spec();
  CHECK(spec.causal);
  CHECK(spec.bytes);
  CHECK(spec.windowed);
  CHECK(spec.output == Output::per_token);
  CHECK(spec.output_classes == 256);
  CHECK(spec.chance == Approx(1.0 / 256));
  CHECK(task->max_length() == 19);  // validation holds 19 predictions
  std::vector<int> starts(50);
  for (uint64_t index = 0; index < 3000; ++index) {
    const Example example = example_of(*task, 9, index, Split::train);
    const int32_t start = example.input[0];
    REQUIRE(start >= 0);
    REQUIRE(start + 9 <= 49);
    ++starts[size_t(start)];
    for (int32_t i = 0; i < 9; ++i) {
      REQUIRE(example.input[size_t(i)] == start + i);
      REQUIRE(example.target[size_t(i)] == start + i + 1);
      REQUIRE(example.scored[size_t(i)] == 1);
    }
  }
  // Starts 0 .. 40 all occur: 3000 draws, 73 each.
  CHECK(*std::min_element(starts.begin(), starts.begin() + 41) > 30);
  CHECK(*std::max_element(starts.begin(), starts.begin() + 41) < 130);
}

// Every prediction of the test part exactly once, in order, with enough context.
void check_coverage(const Task& task, int64_t length, int64_t stride) {
  INFO("length " << length << ", stride " << stride);
  const int64_t windows = task.count(Split::test, length, stride);
  Ids predicted;
  for (int64_t i = 0; i < windows; ++i) {
    const Example example = example_of(task, length, uint64_t(i), Split::test, 1, stride);
    REQUIRE(int64_t(example.input.size()) == length);
    for (int64_t k = 0; k < length; ++k) {
      const int32_t target = example.target[size_t(k)];
      REQUIRE((example.scored[size_t(k)] == 1) == (target >= 0));
      if (target < 0) continue;
      REQUIRE(target == example.input[size_t(k)] + 1);
      predicted.push_back(target);
      if (i > 0 && stride > 0 && stride < length) REQUIRE(k >= length - stride);
    }
  }
  Ids wanted;
  for (int32_t byte = 71; byte < 100; ++byte) wanted.push_back(byte);
  REQUIRE(predicted == wanted);
}

TEST_CASE("text: windows score every byte exactly once, for any stride", "[data][tasks]") {
  const TemporaryFile file(counting());
  const auto task = text_of(file, kFractions);
  // 29 predictions. Segments of 10: 0-9, 10-19, and the last one slides back over 19-28.
  CHECK(task->count(Split::test, 10, 0) == 3);
  CHECK(task->count(Split::test, 29, 0) == 1);
  CHECK(task->count(Split::test, 30, 0) == 0);
  // Windows of 10 every 4: ends 10, 14, 18, 22, 26, 29.
  CHECK(task->count(Split::test, 10, 4) == 6);
  CHECK(task->count(Split::test, 10, 1) == 20);
  CHECK(task->count(Split::test, 10, 99) == 3);  // never a gap
  CHECK(task->count(Split::train, 10, 0) == Task::kUnlimited);
  for (int64_t length = 1; length <= 29; ++length)
    for (const int64_t stride : {0, 1, 2, 3, 4, 7, 10, 29, 50})
      check_coverage(*task, length, stride);
}

TEST_CASE("text: a sliding window worked by hand", "[data][tasks]") {
  const TemporaryFile file(counting());
  const auto task = text_of(file, kFractions);
  const Example second = example_of(*task, 4, 1, Split::test, 1, 2);
  CHECK(second.input == Ids{72, 73, 74, 75});
  CHECK(second.target == Ids{-1, -1, 75, 76});
  const Example last = example_of(*task, 10, 2, Split::test, 1, 0);
  CHECK(last.input.front() == 89);
  CHECK(last.target == Ids{-1, 91, 92, 93, 94, 95, 96, 97, 98, 99});  // 90 belongs to window 1
}

TEST_CASE("text: evaluate_bytes shortens the evaluated splits alone", "[data][tasks]") {
  const TemporaryFile file(counting());
  const auto task = text_of(file, kFractions + "evaluate_bytes = 11");
  CHECK(task->count(Split::test, 10, 0) == 1);
  CHECK(task->count(Split::validation, 5, 0) == 2);
  CHECK(task->max_length() == 10);
}

TEST_CASE("text: masked objective hides bytes and asks for them", "[data][tasks]") {
  std::string bytes;
  for (int i = 0; i < 40000; ++i) bytes.push_back(char('a' + i % 20));
  const TemporaryFile file(bytes);
  const auto task = text_of(file, "objective = \"masked\"\nmask_fraction = 0.2");
  CHECK_FALSE(task->spec().causal);
  CHECK(task->spec().input_vocabulary == 257);
  int64_t hidden = 0, places = 0;
  for (uint64_t index = 0; index < 200; ++index) {
    const Example example = example_of(*task, 100, index, Split::train);
    // Any visible neighbour tells the phase of the alphabet.
    int64_t phase = -1;
    for (int64_t i = 0; i < 100 && phase < 0; ++i)
      if (example.input[size_t(i)] != 256)
        phase = (example.input[size_t(i)] - 'a' + 100 - i % 20) % 20;
    for (int64_t i = 0; i < 100; ++i) {
      const int32_t original = int32_t('a' + (phase + i) % 20);
      if (example.input[size_t(i)] == 256) {
        REQUIRE(example.target[size_t(i)] == original);
        ++hidden;
      } else {
        REQUIRE(example.input[size_t(i)] == original);
        REQUIRE(example.target[size_t(i)] == -1);
      }
      ++places;
    }
  }
  // 0.2, and 0.008 for the one that is always hidden; standard deviation 0.0028.
  CHECK(double(hidden) / double(places) == Approx(0.208).margin(0.012));
  // Even where the share would hide nothing, one byte is.
  const auto none = text_of(file, "objective = \"masked\"\nmask_fraction = 0.0");
  for (uint64_t index = 0; index < 20; ++index) {
    const Example example = example_of(*none, 8, index, Split::test, 1, 3);
    CHECK(scored_places(example) == 1);
    CHECK(std::count(example.input.begin(), example.input.end(), 256) == 1);
    if (index > 0)
      CHECK(std::find(example.scored.begin(), example.scored.end(), 1) - example.scored.begin() >=
            5);  // among the three new ones
  }
}

TEST_CASE("text: streams, batches and separate files", "[data][tasks]") {
  std::string bytes;
  RandomSequence random({9, RandomPurpose::test, 0, 0});
  for (int i = 0; i < 20000; ++i) bytes.push_back(char(random.below(256)));
  const TemporaryFile train(bytes), test("the test text");
  const auto task =
      make("text", "train_file = " + quoted(train.path()) + "\ntest_file = " + quoted(test.path()) +
                       "\nvalid_fraction = 0.25");
  CHECK(task->count(Split::test, 12, 0) == 1);
  CHECK(task->count(Split::validation, 4999, 0) == 1);
  CHECK(task->count(Split::validation, 5000, 0) == 0);
  CHECK(example_of(*task, 3, 0).input == Ids{'t', 'h', 'e'});
  CHECK(inputs_of(*task, Split::train, 1, 20) == inputs_of(*task, Split::train, 1, 20));
  CHECK(inputs_of(*task, Split::train, 1, 20) != inputs_of(*task, Split::train, 2, 20));

  Batcher batcher(*task);
  Batch batch;
  batcher.evaluation(1, Split::test, 5, 2, 0, 5, batch);  // 12 predictions: ends 5, 7, 9, 11, 12
  CHECK(batch.target_count == 12);
  CHECK(batch.output_begin == 0);
  CHECK_FALSE(batch.padded);
  CHECK_THROWS_WITH(batcher.evaluation(1, Split::test, 5, 2, 4, 2, batch),
                    ContainsSubstring("holds 5"));
}

TEST_CASE("text: wrong use", "[data][tasks]") {
  const TemporaryFile file(counting()), tiny("x");
  CHECK_THROWS_WITH(make("text"), ContainsSubstring("corpus"));
  CHECK_THROWS_WITH(text_of(file, "train_file = \"other\""), ContainsSubstring("either"));
  CHECK_THROWS_WITH(make("text", "train_file = " + quoted(file.path())),
                    ContainsSubstring("test_file is missing"));
  CHECK_THROWS_AS(text_of(tiny), UsageError);
  CHECK_THROWS_WITH(text_of(file, "test_fraction = 0.0"), ContainsSubstring("test part"));
  CHECK_THROWS_WITH(text_of(file, "valid_fraction = 0.6\ntest_fraction = 0.4"),
                    ContainsSubstring("nothing to train on"));
  CHECK_THROWS_WITH(make("text", "corpus = \"/nonexistent/text\""),
                    ContainsSubstring("/nonexistent/text"));
  const auto task = text_of(file, kFractions);
  CHECK_THROWS_AS(example_of(*task, 30, 0), UsageError);
  CHECK_THROWS_AS(example_of(*task, 10, 3), Error);
}

TEST_CASE("text: a path in a config is relative to the config", "[data][tasks]") {
  const TemporaryFile file(counting());
  const std::filesystem::path path = file.path();
  const ConfigTable table =
      parse_toml("corpus = \"" + path.filename().string() + "\"\n" + kFractions,
                 (path.parent_path() / "study.toml").string());
  CHECK(make_task("text", table)->count(Split::test, 29, 0) == 1);
}

}  // namespace
}  // namespace longshot::test
