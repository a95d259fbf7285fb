// What [train] offers beside the plain loop: given weights, best parameters across a resume,
// smoothing, lengths, steps without targets, data without validation part.
#include <algorithm>
#include <cmath>
#include <csignal>
#include <nlohmann/json.hpp>
#include <sys/wait.h>

#include "tests/data/temporary_file.h"
#include "tests/train/small_run.h"
#include "train/evaluator.h"

using namespace longshot;
using namespace longshot::test;

namespace {

double first_loss(const Setup& setup) {
  const std::string text = read_file(setup.options.folder + "/metrics.jsonl");
  return nlohmann::json::parse(text.substr(0, text.find('\n'))).at("loss");
}

// The loss of the first step, before any update.
double initial_loss(double smoothing) {
  Setup setup;
  setup.model.dropout = 0;
  setup.options.train.steps = 1;
  setup.options.train.log_every = 1;
  setup.options.train.label_smoothing = smoothing;
  setup.options.folder = fresh_folder(fmt::format("smoothing-{}", smoothing));
  trained(setup);
  return first_loss(setup);
}

// A task that asks for a stop while the examples of a training step are made.
class StoppingTask : public Task {
 public:
  StoppingTask(const Task& task, uint64_t first_example) : task_(task), first_(first_example) {}
  TaskSpec spec() const override { return task_.spec(); }
  int64_t output_length(int64_t length) const override { return task_.output_length(length); }
  void example(const ExampleKey& key, Example& out) const override {
    if (key.split == Split::train && key.index == first_) request_stop();
    task_.example(key, out);
  }

 private:
  const Task& task_;
  uint64_t first_;
};

}  // namespace

TEST_CASE("steps = 0 with init_from leaves given weights as they are", "[train]") {
  Setup source_setup;
  Run source(source_setup);
  REQUIRE(source.trainer->run().outcome == Outcome::done);
  const std::string path = fresh_folder("init") + "/p.safetensors";
  save_parameters(path, *source.encoder);

  Setup setup;
  setup.options.seed = 9;
  setup.options.train.steps = 0;
  setup.options.train.init_from = path;
  Run given(setup);
  const TrainResult result = given.trainer->run();
  CHECK(result.outcome == Outcome::done);
  CHECK(result.progress.step == 0);
  CHECK(given.parameters() == source.parameters());
  EvaluateOptions options;
  options.samples = 10;
  CHECK(Evaluator(*given.encoder, *given.task, options, 5).at_length(Split::test, 8).loss ==
        Evaluator(*source.encoder, *source.task, options, 5).at_length(Split::test, 8).loss);

  // A further step starts from them, and a resumed run does not start from them again.
  setup.options.train.steps = 2;
  setup.options.folder = fresh_folder("init-two");
  step_by_step(setup, 1);
  const std::vector<float> resumed = trained(setup);
  setup.options.folder = "";
  CHECK(resumed == trained(setup));
  CHECK(resumed != source.parameters());
}

TEST_CASE("init_from refuses weights that mean something else", "[train]") {
  Setup setup;
  Run source(setup);
  const std::string path = fresh_folder("wrong") + "/p.safetensors";
  save_parameters(path, *source.encoder);
  const auto refusal = [&](const std::string& file, auto change) -> std::string {
    Setup changed;
    change(changed);
    changed.options.train.init_from = file;
    changed.options.seed = 8;
    Run run(changed);
    const std::vector<float> before = run.parameters();
    std::string message;
    try {
      run.trainer->run();
    } catch (const UsageError& error) {
      message = error.what();
      CHECK(run.parameters() == before);
    }
    return message;
  };
  CHECK(refusal(path, [](Setup& s) { s.options.train.steps = 0; }).empty());
  CHECK(refusal(path, [](Setup& s) {
          s.model.dropout = 0.3, s.model.causal = true, s.options.train.steps = 0;
        }).empty());
  // The same shapes, another function.
  CHECK_THAT(refusal(path, [](Setup& s) { s.model.heads = 4; }),
             ContainsSubstring("model.heads = 2, this model has 4"));
  CHECK_THAT(refusal(path, [](Setup& s) { s.model.activation = "gelu"; }),
             ContainsSubstring("model.activation"));
  CHECK_THAT(refusal(path, [](Setup& s) { s.model.norm = "pre"; }), ContainsSubstring("norm"));
  CHECK_THAT(refusal(path, [](Setup& s) { s.encoding = "type = \"none\""; }),
             ContainsSubstring("type"));
  CHECK_THAT(refusal(path + ".missing", [](Setup&) {}), ContainsSubstring("p.safetensors.missing"));
  const std::string whole = read_file(path);
  write_file_atomically(path, std::string_view(whole).substr(0, whole.size() - 1));
  CHECK_THAT(refusal(path, [](Setup&) {}), ContainsSubstring("not a usable safetensors file"));
}

TEST_CASE("the best parameters are kept across stop and resume", "[train]") {
  Setup setup;
  setup.options.train.evaluate_every = 4;
  setup.options.train.keep = "best";
  setup.options.train.lr = 0.3;  // so large that the loss only grows: step 4 stays the best
  setup.options.train.steps = 14;
  setup.options.folder = fresh_folder("best");
  {
    Run first(setup);
    // Batches are made at most three steps ahead: the stop comes after step 4.
    const StoppingTask task(*first.task, 9 * 8);
    Trainer trainer(*first.encoder, task, setup.options);
    const TrainResult stopped = trainer.run();
    clear_stop_request();
    REQUIRE(stopped.outcome == Outcome::interrupted);
    REQUIRE(stopped.progress.best_step == 4);
    REQUIRE(stopped.progress.step < 14);
  }
  Run rest(setup);
  const TrainResult result = rest.trainer->run();
  REQUIRE(result.outcome == Outcome::done);
  CHECK(result.progress.best_step == 4);
  Setup four;
  four.options.train.lr = 0.3;
  four.options.train.steps = 4;
  CHECK(rest.parameters() == trained(four));
  // Finished: the loss of the last step is still known when only the evaluation is left to do.
  Run again(setup);
  CHECK(again.trainer->run().last_loss == result.last_loss);
  CHECK(std::isfinite(result.last_loss));
  CHECK(again.parameters() == rest.parameters());
}

// (1 - s) nll + s u, with u the mean of -log p over the classes: linear in s.
TEST_CASE("label smoothing mixes the loss with the uniform distribution's", "[train]") {
  const double none = initial_loss(0), little = initial_loss(0.1), more = initial_loss(0.3);
  CHECK(std::abs(little - none) > 1e-5);
  CHECK(more - none == Approx(3 * (little - none)).epsilon(1e-2));
}

TEST_CASE("smoothing is for training: evaluation measures the plain loss", "[train]") {
  Setup plain;
  plain.options.train.steps = 0;
  Setup smooth = plain;
  smooth.options.train.label_smoothing = 0.5;
  const auto loss = [](const Setup& setup) {
    Run run(setup);
    run.trainer->run();
    return Evaluator(*run.encoder, *run.task, setup.options.evaluate, 5)
        .at_length(Split::test, 7)
        .loss;
  };
  CHECK(loss(plain) == loss(smooth));
}

TEST_CASE("curriculum, fixed and padded lengths train, stop and resume to the same bits",
          "[train]") {
  const auto with = [](const char* draw, const char* curriculum) {
    Setup setup;
    setup.options.train.lengths.draw = draw;
    setup.options.train.lengths.curriculum = curriculum;
    if (std::string(draw) == "fixed") setup.options.train.lengths.length = 7;
    return setup;
  };
  std::vector<std::vector<float>> results;
  for (const Setup& setup :
       {with("batch", "none"), with("batch", "linear"), with("sequence", "none"),
        with("sequence", "linear"), with("fixed", "none")}) {
    results.push_back(trained(setup));
    Setup pieces = setup;
    pieces.options.folder = fresh_folder(fmt::format("lengths-{}", results.size()));
    step_by_step(pieces, 3);
    CHECK(trained(pieces) == results.back());
  }
  // Each is another training.
  for (size_t i = 0; i < results.size(); ++i)
    for (size_t j = 0; j < i; ++j) CHECK(results[i] != results[j]);
}

TEST_CASE("steps without any target have loss 0, change nothing and are counted (B23)", "[train]") {
  const TemporaryFile file(
      "{\"input\": [1, 2, 3], \"target\": [-1, -1, -1]}\n{\"input\": [1, 2], \"target\": [-1, "
      "-1]}\n");
  Setup setup;
  setup.task = "jsonl";
  setup.task_options =
      fmt::format("train = \"{}\"\ntest = \"{}\"\nvalid_fraction = 0", file.path(), file.path());
  setup.options.folder = fresh_folder("ignored");
  setup.options.train.steps = 6;
  setup.options.train.weight_decay = 0.1;
  setup.options.train.lengths.draw = "sequence";
  Run run(setup);
  const std::vector<float> before = run.parameters();
  const TrainResult result = run.trainer->run();
  CHECK(result.outcome == Outcome::diverged);  // not one update: nothing was trained
  CHECK_THAT(result.message, ContainsSubstring("no update in 6 steps"));
  CHECK(result.skipped_steps == 6);
  CHECK(result.last_loss == 0);
  CHECK(run.trainer->optimizer().state().adam_step == 0);
  CHECK(run.parameters() == before);
  CHECK_THAT(read_file(setup.options.folder + "/metrics.jsonl"),
             ContainsSubstring("\"loss\": 0,") && ContainsSubstring("\"skipped_steps\": 3"));
}

TEST_CASE("without a validation part there is no evaluation during training, and no 0/0",
          "[train]") {
  const TemporaryFile file(
      "{\"input\": [1, 2, 3], \"target\": [1, 0, 1]}\n{\"input\": [2, 2], \"target\": [0, 1]}\n");
  Setup setup;
  setup.task = "jsonl";
  setup.task_options =
      fmt::format("train = \"{}\"\ntest = \"{}\"\nvalid_fraction = 0", file.path(), file.path());
  setup.options.folder = fresh_folder("no-validation");
  setup.options.train.evaluate_every = 2;
  Run run(setup);
  const TrainResult result = run.trainer->run();
  CHECK(result.outcome == Outcome::done);
  CHECK(result.progress.best_step == -1);
  CHECK_THAT(read_file(setup.options.folder + "/metrics.jsonl"), !ContainsSubstring("validation"));
  setup.options.folder = "";
  setup.options.train.patience = 2;
  CHECK_THROWS_WITH(Run(setup).trainer->run(),
                    ContainsSubstring("train.patience needs validation data"));
  setup.options.train.patience = 0;
  setup.options.train.keep = "best";
  CHECK_THROWS_WITH(Run(setup).trainer->run(),
                    ContainsSubstring("train.keep needs validation data"));
}

// B28: evaluating in between draws nothing of the dropout's stream; covered bit for bit by
// "evaluating more often, or never, changes nothing"; here the evaluation itself, of a model with
// dropout.
TEST_CASE("dropout is off in evaluation (B28)", "[train]") {
  Setup setup;
  setup.model.dropout = 0;
  Setup dropped = setup;
  dropped.model.dropout = 0.5;
  Run a(setup), b(dropped);
  const Score x =
      Evaluator(*a.encoder, *a.task, setup.options.evaluate, 5).at_length(Split::test, 7);
  const Score y =
      Evaluator(*b.encoder, *b.task, setup.options.evaluate, 5).at_length(Split::test, 7);
  CHECK(x.loss == y.loss);
}

TEST_CASE("each signal asks for a stop; a later second one ends the process", "[train]") {
  for (const int number : {SIGINT, SIGTERM, SIGUSR1}) {
    {
      SignalScope scope;
      CHECK_FALSE(stop_requested());
      raise(number);
      CHECK(stop_requested());
      CHECK(stop_signal() == number);
      raise(number);  // at once: the same request, arriving twice
    }
    clear_stop_request();
    const pid_t child = fork();
    if (child == 0) {
      SignalScope scope;
      raise(number);
      usleep(60000);
      raise(number);
      _exit(1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 128 + number);
  }
}

// A process that was killed while it wrote leaves <file>.<host>.<process>.partial.
TEST_CASE("a run clears away what a killed process left half written", "[train]") {
  Setup setup;
  setup.options.folder = fresh_folder("abandoned");
  const pid_t child = fork();
  if (child == 0) _exit(0);
  waitpid(child, nullptr, 0);  // its number is free now
  char host[256] = {};
  REQUIRE(gethostname(host, sizeof host - 1) == 0);
  std::replace(std::begin(host), std::end(host), '.', '-');
  const auto left_by = [&](const char* where, pid_t process) {
    return fmt::format("{}/checkpoint.safetensors.{}.{}.partial", setup.options.folder, where,
                       process);
  };
  const std::string dead = left_by(host, child), living = left_by(host, getppid());
  const std::string elsewhere = left_by("another-host", child);
  const std::string other = setup.options.folder + "/notes.partial";
  for (const std::string& path : {dead, living, elsewhere, other})
    write_file_atomically(path, "half");
  trained(setup);
  CHECK_FALSE(file_exists(dead));
  CHECK(file_exists(living));
  CHECK(file_exists(elsewhere));
  CHECK(file_exists(other));
}
