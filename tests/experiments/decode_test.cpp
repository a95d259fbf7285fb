// Greedy decoding against the evaluator's teacher forcing, for every registered task whose model
// writes its answer; and what a task puts around a prompt.
#include "experiments/decode.h"

#include <algorithm>

#include "core/config_toml.h"
#include "experiments/run_cell.h"
#include "tests/catch.h"
#include "tests/experiments/program.h"
#include "train/evaluator.h"
#include "train/trainer.h"

using namespace longshot;

namespace {

const char* kModel = R"(name = "decode"
[device]
type = "cpu"
[model]
dim = 16
layers = 1
heads = 2
ffn = 32
causal = true
[train]
steps = 120
batch = 8
lr = 0.01
lengths = { min = 1, max = 2 }
evaluate_every = 0
checkpoint_every = 0
)";

// Every registered task that can be made without files and whose model writes an answer, with
// alphabets small enough for chance to be right now and then.
std::vector<std::pair<std::string, std::string>> answering_tasks() {
  std::vector<std::pair<std::string, std::string>> tasks;
  for (const auto& entry : Registry<Task>::instance().entries()) {
    std::string options;
    bool end_token = false, files = false;
    for (const FieldInfo& field : entry.describe()) {
      if (field.key == "symbols") options += "symbols = 4\n";
      end_token = end_token || field.key == "end_token";
      files = files || field.type == "file";
    }
    if (files || !make_task(entry.name, parse_toml(options, "task"))->spec().answers()) continue;
    tasks.emplace_back(entry.name, options);
    if (end_token) tasks.emplace_back(entry.name, options + "end_token = false\n");
  }
  return tasks;
}

}  // namespace

TEST_CASE("decoding is right where the evaluator is right, sample by sample") {
  int tasks = 0, mixed = 0;
  std::vector<std::pair<std::string, std::string>> cases = answering_tasks();
  cases.emplace_back("addition", "pad = false\n");
  cases.emplace_back("reverse", "symbols = 3\nvariant = \"reverse_copy\"\n");
  for (const auto& [name, options] : cases) {
    INFO(name << "\n" << options);
    const RunConfig config =
        resolve(parse_toml(fmt::format("{}[task]\ntype = \"{}\"\n{}[encoding]\ntype = \"{}\"\n",
                                       kModel, name, options, tasks % 2 == 0 ? "alibi" : "rope"),
                           "test.toml"));
    const uint64_t seed = uint64_t(config.seed);
    const longshot_test::Folder folder;
    BuiltModel run = build_model(config, false);
    TrainerOptions trainer;
    trainer.train = config.train;
    trainer.evaluate = config.evaluate;
    trainer.seed = seed;
    trainer.folder = folder.path();
    trainer.show_progress = false;
    REQUIRE(Trainer(*run.encoder, *run.task, trainer).run().outcome == longshot::Outcome::done);
    REQUIRE_FALSE(run.encoder->by_length());
    const TaskSpec spec = run.task->spec();
    Decoder decoder(*run.encoder, seed);
    bool some_right = false, some_wrong = false;
    for (const int64_t length : {1, 2}) {
      EvaluateOptions evaluate;
      evaluate.samples = 32;
      int64_t whole = 0;
      for (uint64_t i = 0; i < uint64_t(evaluate.samples); ++i) {
        Example example;
        run.task->example({seed, Split::test, length, i, 0}, example);
        const int64_t answers = int64_t(example.target.size());
        // BEGIN, prompt, SEPARATOR, and all of the answer but its last token.
        const int64_t prompt = int64_t(example.input.size()) - answers - 1;
        const std::span<const int32_t> given(example.input.data() + 1, size_t(prompt));
        const PromptLayout layout = lay_out(*run.task, given);
        const std::vector<int32_t> wrapped(example.input.begin(),
                                           example.input.begin() + 2 + prompt);
        CHECK(layout.tokens == wrapped);
        CHECK(layout.most >= answers);
        if (spec.answer_length_known) CHECK(layout.most == answers);
        const bool decoded = decoder.answer(*run.task, layout, i).classes == example.target;
        const bool forced =
            decoder.read(example.input, int64_t(example.input.size()) - answers, answers, i)
                .classes == example.target;
        CHECK(decoded == forced);
        whole += decoded;
        (decoded ? some_right : some_wrong) = true;
      }
      Evaluator evaluator(*run.encoder, *run.task, evaluate, seed);
      CHECK(evaluator.at_length(Split::test, length).sequence_accuracy.value ==
            double(whole) / double(evaluate.samples));
    }
    ++tasks;
    mixed += some_right && some_wrong;
  }
  CHECK(tasks == 18);         // eight tasks, with and without END, and two variants
  CHECK(mixed * 2 >= tasks);  // a comparison of nothing but failures would show little
}

TEST_CASE("a prompt is wrapped as the task's examples are, and its own tokens are refused") {
  const auto wrap = [](const char* task, const char* options, std::vector<int32_t> prompt,
                       bool raw = false) {
    return lay_out(*make_task(task, parse_toml(options, "task")), prompt, raw);
  };
  // addition: digits 0 .. 9, + 10, END 11, BEGIN 12, SEPARATOR 13, padding 14.
  PromptLayout layout = wrap("addition", "", {1, 2, 10, 3, 4});
  CHECK(layout.tokens == std::vector<int32_t>{12, 1, 2, 10, 3, 4, 13});
  CHECK(layout.outputs == 0);
  CHECK(layout.most == 4);  // three digits and END
  // No example has operands of unequal length: answered like those of 2 + 2 digits.
  CHECK(wrap("addition", "", {1, 2, 10, 3}).most == 4);
  CHECK(wrap("addition", "end_token = false", {1, 2, 10, 3, 4}).most == 3);
  CHECK(wrap("copy", "repeats = 3", {0, 1}).most == 7);
  CHECK(wrap("polynomial", "", {10, 11, 3, 12, 2, 10, 13, 2}).most == 2);
  layout = wrap("addition", "", {12, 1, 2, 13}, true);
  CHECK(layout.tokens == std::vector<int32_t>{12, 1, 2, 13});
  CHECK(layout.outputs == 4);
  for (const int32_t own : {11, 12, 13, 14})
    CHECK_THROWS_AS(wrap("addition", "", {1, own}), UsageError);
  // parity and first: CLS 2 before the string, one answer at it.
  for (const char* task : {"parity", "first"}) {
    layout = wrap(task, "", {1, 0, 1});
    CHECK(layout.tokens == std::vector<int32_t>{2, 1, 0, 1});
    CHECK(layout.begin == 0);
    CHECK(layout.outputs == 1);
    CHECK_THROWS_AS(wrap(task, "", {2, 1, 0, 1}), UsageError);
  }
  // reverse_string: placeholder 2, as many as there are symbols.
  layout = wrap("reverse_string", "", {1, 0});
  CHECK(layout.tokens == std::vector<int32_t>{1, 0, 2, 2});
  CHECK(layout.begin == 2);
  CHECK(layout.outputs == 2);
}
