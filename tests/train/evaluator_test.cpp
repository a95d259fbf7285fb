// What is measured: in range and beyond, by position, within a memory limit, and what nothing was
// measured of.
#include "train/evaluator.h"

#include <cmath>

#include "tests/data/temporary_file.h"
#include "tests/train/small_run.h"

using namespace longshot;
using namespace longshot::test;

TEST_CASE("positions add up to the whole", "[train]") {
  Setup setup;
  Run run(setup);
  EvaluateOptions options;
  options.by_position = true;
  options.samples = 30;
  Evaluator evaluator(*run.encoder, *run.task, options, 3);
  const Score score = evaluator.at_length(Split::test, 6);
  REQUIRE(score.position_accuracy.size() == 6);  // one prediction a symbol, each in all 30 samples
  REQUIRE(score.position_loss.size() == 6);
  double accuracy = 0, loss = 0;
  for (size_t i = 0; i < 6; ++i)
    accuracy += score.position_accuracy[i] / 6, loss += score.position_loss[i] / 6;
  CHECK(accuracy == Approx(score.accuracy.value).epsilon(1e-9));
  CHECK(loss == Approx(score.loss).epsilon(1e-6));
  CHECK(score.targets == 180);
  options.by_position = false;
  CHECK(Evaluator(*run.encoder, *run.task, options, 3)
            .at_length(Split::test, 6)
            .position_loss.empty());
}

TEST_CASE("in range is measured on the training lengths, whatever the list of lengths", "[train]") {
  Setup setup;
  Run run(setup);
  EvaluateOptions options;
  options.in_range_samples = 20;
  options.samples = 4;
  options.lengths =
      parse_toml("lengths = [3, { from = 8, to = 12, step = 2 }]", "t").find("lengths")[0];
  const Evaluation all = Evaluator(*run.encoder, *run.task, options, 3).all(1, 10);
  REQUIRE(all.in_range.size() == 1);
  CHECK(all.in_range[0].score.samples == 20);
  // Two samples of each length 1 .. 10, one target a symbol.
  CHECK(all.in_range[0].score.targets == 2 * 55);
  REQUIRE(all.lengths.size() == 4);
  CHECK(all.lengths[0].length == 3);
  CHECK(all.lengths[3].length == 12);
  CHECK(all.lengths[3].score.targets == 4 * 12);
}

// B23, for evaluation: a mean over nothing is not a loss of 0, and a sample without scored
// predictions is not a sequence that is right.
TEST_CASE("what was not measured is no number", "[train]") {
  const TemporaryFile ignored(
      "{\"input\": [1, 2], \"target\": [-1, -1]}\n{\"input\": [1, 2], \"target\": [-1, -1]}\n");
  const TemporaryFile mixed(
      "{\"input\": [1, 2], \"target\": [-1, -1]}\n{\"input\": [1, 2], \"target\": [0, 1]}\n");
  Setup setup;
  setup.task = "jsonl";
  setup.positions = "type = \"contiguous\"";
  setup.task_options = fmt::format("train = \"{}\"\ntest = \"{}\"\nvalid_fraction = 0",
                                   mixed.path(), ignored.path());
  Run run(setup);
  Evaluator evaluator(*run.encoder, *run.task, EvaluateOptions(), 3);
  Score score = evaluator.at_length(Split::test, 2);
  CHECK(score.samples == 2);
  CHECK(score.targets == 0);
  CHECK(std::isnan(score.loss));
  CHECK(std::isnan(score.accuracy.value));
  CHECK(std::isnan(score.sequence_accuracy.value));
  score = evaluator.at_length(Split::test, 7);  // no such sequences
  CHECK(score.samples == 0);
  CHECK(std::isnan(score.loss));
  CHECK(evaluator.available(Split::validation, 1, 10) == 0);
  CHECK(evaluator.available(Split::test, 1, 10) == 2);

  setup.task_options =
      fmt::format("train = \"{}\"\ntest = \"{}\"\nvalid_fraction = 0", mixed.path(), mixed.path());
  Run other(setup);
  score = Evaluator(*other.encoder, *other.task, EvaluateOptions(), 3).at_length(Split::test, 2);
  CHECK(score.samples == 2);
  CHECK(score.targets == 2);
  // One sequence counts, and it is right or it is not.
  const double whole = score.sequence_accuracy.value;
  CHECK((whole == 0 || whole == 1));
  CHECK((whole == 1) == (score.accuracy.value == 1));
}

namespace {

// `lines` lines of one length and one class.
std::string lines_of(int64_t length, int lines, int target) {
  std::string input, text;
  for (int64_t i = 0; i < length; ++i) input += (i == 0 ? "" : ", ") + std::to_string(i % 2);
  for (int i = 0; i < lines; ++i)
    text += fmt::format("{{\"input\": [{}], \"target\": {}}}\n", input, target);
  return text;
}

}  // namespace

// R1.1, R1.2: the training lengths' own distribution, or another split, and it says how much of it.
TEST_CASE("own data: in range is where the training lengths are", "[train]") {
  // Trained on lengths 1 (three quarters) and 3 (a quarter).
  const TemporaryFile train(lines_of(1, 30, 0) + lines_of(3, 10, 1));
  const TemporaryFile valid(lines_of(1, 2, 0) + lines_of(3, 4, 1));
  const TemporaryFile long_only(lines_of(11, 5, 0));
  const TemporaryFile three_only(lines_of(3, 5, 1) + lines_of(11, 5, 0));
  Setup setup;
  setup.task = "jsonl";
  setup.positions = "type = \"contiguous\"";
  EvaluateOptions options;
  options.in_range_samples = 8;
  const auto evaluate = [&](const TemporaryFile& test, const std::string& validation) {
    setup.task_options = fmt::format("train = \"{}\"\ntest = \"{}\"\ntarget = \"per_sequence\"\n{}",
                                     train.path(), test.path(), validation);
    Run run(setup);
    return Evaluator(*run.encoder, *run.task, options, 3).all(1, 10);
  };
  const std::string with_valid = fmt::format("valid = \"{}\"", valid.path());

  // The test lines have no training length: the validation lines stand in. The plan asks for six of
  // length 1 and two of length 3; there are two of the first, which count three times.
  Evaluation all = evaluate(long_only, with_valid);
  CHECK(all.in_range_split == Split::validation);
  CHECK(all.in_range[0].score.samples == 4);
  CHECK(all.in_range[0].score.coverage == 1);
  CHECK(all.in_range[0].score.constant == Approx(0.75));
  CHECK(all.in_range[0].score.constant_class == 0);
  // Without them there is nothing, and no number.
  all = evaluate(long_only, "valid_fraction = 0");
  CHECK(all.in_range_split == Split::test);
  CHECK(all.in_range[0].score.samples == 0);
  CHECK(all.in_range[0].score.coverage == 0);
  CHECK(std::isnan(all.in_range[0].score.accuracy.value));
  // Test lines of length 3 alone are a quarter of what training is.
  all = evaluate(three_only, "valid_fraction = 0");
  CHECK(all.in_range[0].score.samples == 2);
  CHECK(all.in_range[0].score.coverage == Approx(0.25));
  CHECK(evaluate(three_only, with_valid).in_range_split == Split::validation);
  // The training file itself has what it takes, and is the test.
  all = evaluate(train, with_valid);
  CHECK(all.in_range_split == Split::test);
  CHECK(all.in_range[0].score.samples == 8);
}

// R1.4
TEST_CASE("the best constant answer of the very samples is known", "[train]") {
  const TemporaryFile data(lines_of(4, 7, 1) + lines_of(4, 3, 0) + lines_of(5, 1, 0));
  Setup setup;
  setup.task = "jsonl";
  setup.positions = "type = \"contiguous\"";
  setup.task_options = fmt::format("train = \"{}\"\ntest = \"{}\"\ntarget = \"per_sequence\"",
                                   data.path(), data.path());
  Run run(setup);
  Evaluator evaluator(*run.encoder, *run.task, EvaluateOptions(), 3);
  CHECK(evaluator.at_length(Split::test, 4).constant == Approx(0.7));
  CHECK(evaluator.at_length(Split::test, 4).constant_class == 1);
  CHECK(evaluator.at_length(Split::test, 5).constant == 1);
  CHECK(std::isnan(evaluator.at_length(Split::test, 6).constant));
}

// The step heap is what an evaluation takes beside the parameters. 1,000 symbols and as many
// placeholders.
TEST_CASE("memory_mb bounds an evaluation at length 2,000", "[train][memory]") {
  Setup setup;
  setup.positions = "type = \"contiguous\"";
  setup.model.layers = 1;
  setup.model.dim = 32;
  setup.model.heads = 4;
  setup.model.ffn = 128;
  EvaluateOptions options;
  options.samples = options.batch = 6;
  const auto taken = [&](int64_t memory_mb) {
    options.memory_mb = memory_mb;
    Run run(setup);
    const Score score = Evaluator(*run.encoder, *run.task, options, 3).at_length(Split::test, 1000);
    CHECK(score.samples == options.samples);
    return int64_t(run.context->step_heap().capacity());
  };
  const int64_t mb = 1024 * 1024;
  for (const char* encoding : {"type = \"sinusoidal\"", "type = \"rope\"", "type = \"alibi\""}) {
    INFO(encoding);
    setup.encoding = encoding;
    CHECK(taken(8) <= 8 * mb);
    CHECK(taken(1024) > 8 * mb);  // all six at once take more: the limit did something
  }
  // A bias of T x T numbers a head is made for blocks of query rows: the memory of two sequences
  // suffices for two, and one that is larger than the limit is evaluated alone.
  options.samples = options.batch = 2;
  for (const char* encoding : {"type = \"shaw\"", "type = \"transformer_xl\""}) {
    INFO(encoding);
    setup.encoding = encoding;
    const int64_t each = Run(setup).encoder->evaluation_bytes_per_sequence(2000);
    const int64_t alone = taken(1);
    CHECK(alone <= each);
    CHECK(alone < 4 * 2000 * 2000 * 4);  // never the whole bias
  }
}
