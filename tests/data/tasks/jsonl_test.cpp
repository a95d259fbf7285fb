#include "data/batcher.h"
#include "data/task_record.h"
#include "tests/data/task_check.h"
#include "tests/data/temporary_file.h"

namespace longshot::test {
namespace {

std::unique_ptr<Task> jsonl(const std::string& train, const std::string& test,
                            const std::string& more = "") {
  const TemporaryFile train_file(train), test_file(test);
  return make("jsonl", "train = " + quote_toml(train_file.path()) +
                           "\ntest = " + quote_toml(test_file.path()) + "\n" + more);
}

TEST_CASE("jsonl: one class a token, lengths of their own", "[data][tasks]") {
  const auto task = jsonl(
      "{\"input\": [3, 1], \"target\": [0, 2]}\n"
      "\n"
      "{\"input\": [4], \"target\": [-1], \"comment\": \"other keys are free\"}\r\n",
      "{\"target\": [1, 1], \"input\": [0, 0]}\n{\"input\": [2, 2], \"target\": [0, 0]}");
  const TaskSpec spec = task->spec();
  CHECK(spec.output == Output::per_token);
  CHECK(spec.padding_token == 5);  // after the largest input id, 4
  CHECK(spec.input_vocabulary == 6);
  CHECK(spec.output_classes == 3);
  CHECK(spec.chance == Approx(1.0 / 3));
  CHECK(task->lengths(Split::train) == std::vector<int64_t>{1, 2});
  CHECK(task->lengths(Split::test) == std::vector<int64_t>{2});
  CHECK(task->count(Split::test, 2) == 2);
  CHECK(task->count(Split::test, 1) == 0);
  CHECK(example_of(*task, 2, 0).target == Ids{1, 1});
  CHECK(example_of(*task, 2, 1).input == Ids{2, 2});
  CHECK_THROWS_AS(example_of(*task, 2, 2), Error);
  CHECK_THROWS_AS(example_of(*task, 7, 0), Error);
  const Example ignored = example_of(*task, 1, 0, Split::train);
  CHECK(ignored.target == Ids{-1});
  CHECK(scored_places(ignored) == 0);
}

TEST_CASE("jsonl: one class a sequence, pooled either way", "[data][tasks]") {
  const std::string lines =
      "{\"input\": [1, 0], \"target\": 3}\n{\"input\": [1], \"target\": [0]}\n";
  const auto mean = jsonl(lines, lines, "target = \"per_sequence\"");
  CHECK(mean->spec().output == Output::mean);
  CHECK(mean->spec().output_classes == 4);
  CHECK(mean->output_length(2) == 1);
  CHECK(example_of(*mean, 2, 0).target == Ids{3});
  const auto first = jsonl(lines, lines, "target = \"per_sequence\"\npool = \"first\"");
  CHECK(first->spec().output == Output::first_token);
}

TEST_CASE("jsonl: one class a sequence, read at the last real token", "[data][tasks]") {
  const std::string lines =
      "{\"input\": [1, 0, 2], \"target\": 3}\n{\"input\": [1], \"target\": [0]}\n";
  const auto task = jsonl(lines, lines, "target = \"per_sequence\"\npool = \"last\"");
  CHECK(task->spec().output == Output::last_token);
  CHECK(task->output_length(3) == 1);
  CHECK(task->model_length(3) == 3);
  Batcher batcher(*task);
  Batch batch;
  LengthOptions lengths;
  lengths.draw = "sequence";
  for (uint64_t step = 0;; ++step) {  // until both lengths are in a batch
    REQUIRE(step < 1000);
    batcher.training(1, step, lengths, 2, 0, 2, batch);
    if (batch.task_lengths == std::vector<int64_t>{3, 1}) break;
  }
  // Padding is 3. Predictions at positions 0 to 2: the long row answers at 2, the short one at 0.
  CHECK(batch.tokens == Ids{1, 0, 2, 1, 3, 3});
  CHECK(batch.lengths == Ids{3, 1});
  CHECK(batch.output_begin == 0);
  CHECK(batch.outputs == 3);
  CHECK(batch.targets == Ids{-1, -1, 3, 0, -1, -1});
  CHECK(batch.target_count == 2);
}

TEST_CASE("jsonl: with its record, evaluation needs the test file alone", "[data][tasks]") {
  const std::string strings = "strings = \"character\"\ntarget = \"placeholders\"\n";
  const std::string lines =
      "{\"input\": \"xay\", \"target\": \"b\"}\n{\"input\": \"a\", \"target\": \"ab\"}\n";
  const TaskRecord record =
      parse_task_record(to_json(jsonl(lines, "{\"input\": \"z\", \"target\": \"z\"}\n",
                                      strings + "valid_fraction = 0")
                                    ->record()),
                        "task.json");
  // Alphabet a b x y z; seen as training input: a x y.
  CHECK(record.spec.input_symbols == "abxyz");
  CHECK(record.seen == Ids{0, 2, 3});
  CHECK(record.train_lengths == std::map<int64_t, int64_t>{{1, 1}, {3, 1}});
  CHECK(record.outputs.at == std::map<int64_t, int64_t>{{1, 2}, {3, 1}});
  CHECK_FALSE(record.from_options);
  const auto evaluate = [&](const std::string& test) {
    const TemporaryFile file(test);
    return make_task(
        "jsonl",
        parse_toml("train = \"/gone\"\ntest = " + quote_toml(file.path()) + "\n" + strings,
                   "test.toml"),
        &record);
  };
  const auto task = evaluate("{\"input\": \"yz\", \"target\": \"ba\"}\n");
  CHECK(example_of(*task, 2, 0).input == Ids{3, 4});
  CHECK(example_of(*task, 2, 0).target == Ids{1, 0});
  CHECK(task->spec().input_vocabulary == 7);  // five characters, padding, placeholder
  CHECK(task->lengths(Split::train) == std::vector<int64_t>{1, 3});
  CHECK_THROWS_AS(evaluate("{\"input\": \"q\", \"target\": \"a\"}\n"), UsageError);
  CHECK_THROWS_AS(evaluate("{\"input\": [1], \"target\": \"a\"}\n"), UsageError);
}

TEST_CASE("jsonl: answers over placeholders, mixed lengths padded", "[data][tasks]") {
  const std::string lines =
      "{\"input\": [1, 2, 3], \"target\": [7]}\n{\"input\": [1], \"target\": [5, 6]}\n";
  const auto task = jsonl(lines, lines, "target = \"placeholders\"");
  const TaskSpec spec = task->spec();
  CHECK(spec.padding_token == 4);
  CHECK(spec.placeholder_token == 5);
  CHECK(spec.input_vocabulary == 6);
  CHECK(task->output_length(3) == 1);
  CHECK(task->output_length(1) == 2);
  CHECK(task->output_length(9) == 2);  // unknown lengths: the most there is
  CHECK(task->model_length(3) == 4);
  Batcher batcher(*task);
  Batch batch;
  LengthOptions lengths;
  lengths.draw = "sequence";
  // Draw until both lengths are in a batch.
  for (uint64_t step = 0;; ++step) {
    REQUIRE(step < 1000);
    batcher.training(1, step, lengths, 2, 0, 2, batch);
    if (batch.task_lengths == std::vector<int64_t>{3, 1}) break;
  }
  CHECK(batch.tokens == Ids{1, 2, 3, 5, 1, 5, 5, 4});
  CHECK(batch.output_begin == 1);
  CHECK(batch.targets == Ids{-1, -1, 7, 5, 6, -1});
}

TEST_CASE("jsonl: strings by byte and by character", "[data][tasks]") {
  const std::string lines = "{\"input\": \"ab\\u00e9\", \"target\": \"b\\u00e9a\"}\n";
  const auto characters = jsonl(lines, lines, "strings = \"character\"\nvalid_fraction = 0.0");
  CHECK(characters->spec().padding_token == 3);  // a, b, e acute
  CHECK(characters->spec().output_classes == 3);
  CHECK(example_of(*characters, 3, 0).input == Ids{0, 1, 2});
  CHECK(example_of(*characters, 3, 0).target == Ids{1, 2, 0});
  const auto bytes = jsonl(lines, lines);
  CHECK(bytes->spec().output_classes == 256);
  CHECK(bytes->spec().input_vocabulary == 257);
  CHECK(example_of(*bytes, 4, 0).input == Ids{'a', 'b', 0xC3, 0xA9});  // UTF-8
  const std::string wide =
      "{\"input\": \"\\u4e2d\\ud83d\\ude00\", \"target\": [0, 1]}\n";  // 3 and 4 bytes
  const auto two = jsonl(wide, wide, "strings = \"character\"");
  CHECK(example_of(*two, 2, 0).input == Ids{0, 1});
  CHECK(two->spec().output_classes == 2);
}

TEST_CASE("jsonl: training draws lengths as they are distributed", "[data][tasks]") {
  std::string lines;
  for (int i = 0; i < 9; ++i) lines += "{\"input\": [1, 1], \"target\": [0, 0]}\n";
  for (int i = 0; i < 3; ++i) lines += "{\"input\": [1, 1, 1], \"target\": [1, 1, 1]}\n";
  lines += "{\"input\": [1, 1, 1, 1, 1], \"target\": [1, 1, 1, 1, 1]}\n";
  const auto task = jsonl(lines, lines, "valid_fraction = 0.0");
  int twos = 0;
  for (uint32_t i = 0; i < 4000; ++i) {
    RandomSequence random({1, RandomPurpose::test, 0, i});
    const int64_t length = task->draw_length(random, 1, 4);
    REQUIRE((length == 2 || length == 3));
    twos += length == 2;
  }
  CHECK(twos / 4000.0 == Approx(0.75).margin(0.03));  // 9 of 12; standard deviation 0.007
  RandomSequence random({1, RandomPurpose::test, 0, 0});
  CHECK_THROWS_AS(task->draw_length(random, 6, 9), UsageError);
  CHECK(task->in_range(Split::test, 1, 4, 4) == std::vector<LengthShare>{{2, 3}, {3, 1}});
  // What to ask of a split, whatever it holds: nine of twelve, three of twelve.
  CHECK(task->in_range(Split::test, 1, 4, 500) == std::vector<LengthShare>{{2, 375}, {3, 125}});
  CHECK(task->in_range(Split::test, 6, 9, 500).empty());
}

TEST_CASE("jsonl: the last lines of train validate, unless there is a file", "[data][tasks]") {
  std::string lines;
  for (int i = 0; i < 10; ++i)
    lines += "{\"input\": [" + std::to_string(i) + "], \"target\": [0]}\n";
  const auto task = jsonl(lines, lines, "valid_fraction = 0.2");
  CHECK(task->count(Split::validation, 1) == 2);
  CHECK(example_of(*task, 1, 0, Split::validation).input == Ids{8});
  for (uint64_t index = 0; index < 200; ++index)
    REQUIRE(example_of(*task, 1, index, Split::train).input[0] < 8);
  CHECK(jsonl(lines, lines, "valid_fraction = 0.0")->count(Split::validation, 1) == 0);
}

TEST_CASE("jsonl: a bad line is an error with its file and number", "[data][tasks]") {
  const std::string good = "{\"input\": [1, 2], \"target\": [0, 1]}\n";
  const auto check = [&](const std::string& bad, const std::string& message,
                         const std::string& more = "") {
    INFO(bad);
    const TemporaryFile train(good + "\n" + bad), test(good);
    const std::string toml =
        "train = " + quote_toml(train.path()) + "\ntest = " + quote_toml(test.path()) + "\n" + more;
    CHECK_THROWS_AS(make("jsonl", toml), UsageError);
    CHECK_THROWS_WITH(make("jsonl", toml),
                      ContainsSubstring(train.path() + ":3:") && ContainsSubstring(message));
  };
  check("{\"input\": [1", "not a JSON object");
  check("[1, 2]", "must be an object");
  check("{\"input\": [1]}", "\"target\" is missing");
  check("{\"target\": [1]}", "\"input\" is missing");
  check("{\"input\": [], \"target\": []}", "\"input\" is empty");
  check("{\"input\": [1, 2], \"target\": [1]}", "per_token");
  check("{\"input\": [1.5], \"target\": [1]}", "whole number");
  check("{\"input\": [1e3], \"target\": [1]}", "whole number");
  check("{\"input\": [null], \"target\": [1]}", "whole number");
  check("{\"input\": [-1], \"target\": [1]}", "ids go from 0");
  check("{\"input\": [1], \"target\": [-2]}", "ids go from -1");
  check("{\"input\": [99999999999999999999], \"target\": [1]}", "\"input\"[0]");
  check("{\"input\": [18446744073709551615], \"target\": [1]}", "18446744073709551615");
  check("{\"input\": [16777216], \"target\": [1]}", "16777216");
  check("{\"input\": \"a\", \"target\": [1]}", "a string");
  check("{\"input\": {\"a\": 1}, \"target\": [1]}", "list of ids or a string");
  check("{\"input\": 3, \"target\": [1]}", "list of ids or a string");
  check("{\"input\": [9], \"target\": [1]}", "vocabulary = 5", "vocabulary = 5");
  check("{\"input\": [1], \"target\": [9]}", "classes = 5", "classes = 5");
  check(std::string("{\"input\": \"\xff\", \"target\": [1]}"), "not a JSON object");
}

TEST_CASE("jsonl: wrong use", "[data][tasks]") {
  const std::string good = "{\"input\": [1, 2], \"target\": [0, 1]}\n";
  CHECK_THROWS_WITH(make("jsonl"), ContainsSubstring("train is missing"));
  CHECK_THROWS_WITH(jsonl(good, "\n \n"), ContainsSubstring("no sequences"));
  CHECK_THROWS_WITH(jsonl(good, good, "target = \"per_sequence\""),
                    ContainsSubstring("exactly one"));
  CHECK_THROWS_WITH(jsonl(good, "{\"input\": \"ab\", \"target\": [0, 1]}"),
                    ContainsSubstring("strings"));
  CHECK(jsonl(good, good, "causal = true")->spec().causal);
}

}  // namespace
}  // namespace longshot::test
