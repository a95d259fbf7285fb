// The trainer's promises: equal bits across stop and resume, thread counts and evaluation habits;
// divergence and signals end a run with a usable state.
// Pitfall cases B23 to B28, B31, B35. (Accumulation: accumulation_test.cpp.)
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/parallel.h"
#include "tests/data/temporary_file.h"
#include "tests/train/small_run.h"
#include "train/evaluator.h"
#include "train/trainer.h"

using namespace longshot;
using namespace longshot::test;

TEST_CASE("the same config gives the same bits for any number of threads (B35)", "[train]") {
  Setup setup;
  setup.options.train.log_every = 1;
  setup.options.train.evaluate_every = 4;
  const int before = threads();
  std::vector<float> one;
  std::string log;
  for (const int count : {1, 2, 3, 4}) {
    set_threads(count);
    setup.options.folder = fresh_folder(fmt::format("threads-{}", count));
    Run run(setup);
    REQUIRE(run.trainer->run().outcome == Outcome::done);
    const std::string lines = read_file(setup.options.folder + "/metrics.jsonl");
    if (count == 1) {
      one = run.parameters();
      log = lines;
      CHECK(std::count(log.begin(), log.end(), '\n') >= setup.options.train.steps);
    }
    CHECK(run.parameters() == one);
    CHECK(lines == log);
  }
  set_threads(before);
}

// B31: 12 steps against 4 single steps, each in a new "process", and the rest, with dropout and
// random positions. The fourth is stopped where an evaluation is due: it must be made up for.
TEST_CASE("a stopped and resumed run ends in the uninterrupted run's bits (B31)", "[train]") {
  Setup whole;
  whole.options.train.evaluate_every = 4;
  whole.options.train.checkpoint_every = 6;
  whole.options.folder = fresh_folder("whole");
  Run uninterrupted(whole);
  REQUIRE(uninterrupted.trainer->run().outcome == Outcome::done);

  Setup pieces = whole;
  pieces.options.folder = fresh_folder("pieces");
  step_by_step(pieces, 4);
  Run rest(pieces);
  REQUIRE(rest.trainer->run().outcome == Outcome::done);
  CHECK(rest.parameters() == uninterrupted.parameters());
  CHECK(rest.moments() == uninterrupted.moments());
  CHECK(read_file(pieces.options.folder + "/metrics.jsonl") ==
        read_file(whole.options.folder + "/metrics.jsonl"));
  CHECK(parameters_sha256(*rest.encoder) == parameters_sha256(*uninterrupted.encoder));
}

TEST_CASE("evaluating more often, or never, changes nothing", "[train]") {
  Setup setup;
  const std::vector<float> never = trained(setup);
  setup.options.train.evaluate_every = 1;
  CHECK(trained(setup) == never);
  setup.options.train.evaluate_every = 5;
  setup.options.evaluate.by_position = true;
  CHECK(trained(setup) == never);
}

// B25: samples count once, whatever the batch; B28: evaluation draws nothing.
TEST_CASE("evaluation does not depend on its batch size and repeats to the bit (B25, B28)",
          "[train]") {
  Setup setup;
  Run run(setup);
  REQUIRE(run.trainer->run().outcome == Outcome::done);
  EvaluateOptions options = setup.options.evaluate;
  options.batch = 1;
  options.samples = 21;
  Evaluator reference(*run.encoder, *run.task, options, 5);
  const Score first = reference.at_length(Split::test, 9);
  CHECK(first.samples == 21);
  CHECK(reference.at_length(Split::test, 9).loss == first.loss);
  for (const int64_t batch : {2, 7, 64}) {
    options.batch = batch;
    Evaluator other(*run.encoder, *run.task, options, 5);
    const Score score = other.at_length(Split::test, 9);
    CHECK(score.loss == Approx(first.loss).epsilon(1e-6));
    CHECK(score.accuracy.value == first.accuracy.value);
    CHECK(score.sequence_accuracy.value == first.sequence_accuracy.value);
  }
  // A tight memory limit means batches of one, not an error.
  options.memory_mb = 1;
  CHECK(Evaluator(*run.encoder, *run.task, options, 5).at_length(Split::test, 9).loss ==
        Approx(first.loss).epsilon(1e-6));
}

TEST_CASE("a loss that is not finite stops the run with a saved state", "[train]") {
  Setup setup;
  setup.options.folder = fresh_folder("diverged");
  setup.options.train.steps = 50;
  setup.options.train.log_every = 1;
  setup.options.train.lr = 1e30;
  setup.options.train.clip = 0;
  Run run(setup);
  const TrainResult result = run.trainer->run();
  REQUIRE(result.outcome == Outcome::diverged);
  CHECK(result.progress.diverged);
  CHECK(file_exists(setup.options.folder + "/training_state.safetensors"));
  CHECK_THAT(read_file(setup.options.folder + "/metrics.jsonl"),
             ContainsSubstring("\"loss\": null"));
  // Asked again, it says so instead of going on.
  Run again(setup);
  CHECK(again.trainer->run().outcome == Outcome::diverged);
}

// R1.6: min_delta is for patience alone; the best is the lowest loss.
TEST_CASE("early stopping counts evaluations, and the lowest loss is the best", "[train]") {
  Setup setup;
  setup.options.train.steps = 40;
  setup.options.train.evaluate_every = 2;
  setup.options.train.patience = 3;
  setup.options.train.min_delta = 10;  // nothing improves by this much: only the first counts
  setup.options.train.keep = "best";
  setup.options.folder = fresh_folder("best");
  fail_after_checkpoint(setup);  // both references survive that
  Run run(setup);
  const TrainResult result = run.trainer->run();
  CHECK(result.progress.stopped_early);
  CHECK(result.progress.step == 8);  // 2 is the first, 4, 6 and 8 do not undercut it by 10

  // The losses of the four evaluations, as metrics.jsonl has them.
  std::vector<double> losses;
  std::istringstream lines(read_file(setup.options.folder + "/metrics.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    const auto json = nlohmann::json::parse(line);
    if (json.contains("split")) losses.push_back(json.at("in_range").at("loss"));
  }
  REQUIRE(losses.size() == 4);
  const int64_t lowest = std::min_element(losses.begin(), losses.end()) - losses.begin();
  CHECK(lowest > 0);  // or this test shows nothing
  CHECK(result.progress.best_step == 2 * (lowest + 1));
  CHECK(result.progress.best_loss == losses[size_t(lowest)]);
  CHECK(result.progress.patience_loss == losses[0]);
  Setup best = Setup();
  best.options.train.steps = result.progress.best_step;
  CHECK(run.parameters() == trained(best));
}

// Without a counted target every update is skipped; a gradient that is never finite looks the same
// (UpdateState::skip).
TEST_CASE("updates that are skipped for ever end the run as diverged", "[train]") {
  const TemporaryFile file(
      "{\"input\": [0, 1], \"target\": [-1, -1]}\n{\"input\": [1, 0], \"target\": [-1, -1]}\n");
  Setup setup;
  setup.task = "jsonl";
  setup.task_options =
      fmt::format("train = \"{}\"\ntest = \"{}\"\nvalid_fraction = 0\nvocabulary = 2\nclasses = 2",
                  file.path(), file.path());
  setup.options.folder = fresh_folder("skipped");
  setup.options.train.steps = 1000;
  setup.options.train.log_every = 30;
  step_by_step(setup, 2);  // a stop does not begin the count anew
  Run run(setup);
  const TrainResult result = run.trainer->run();
  REQUIRE(result.outcome == Outcome::diverged);
  CHECK(result.progress.step == 120);  // the first line of the log after 100 steps
  CHECK(result.skipped_steps == 120);
  CHECK_THAT(result.message, ContainsSubstring("no update in 120 steps up to step 120"));
  CHECK_THAT(read_file(setup.options.folder + "/metrics.jsonl"),
             ContainsSubstring("\"skipped_steps\": 120, \"diverged\": true"));
  Run again(setup);
  CHECK(again.trainer->run().outcome == Outcome::diverged);
}

TEST_CASE("a state of another run is refused", "[train]") {
  Setup setup;
  setup.options.folder = fresh_folder("identity");
  Run(setup).trainer->run();
  setup.options.identity = "another";
  Run other(setup);
  CHECK_THROWS_WITH(other.trainer->run(), ContainsSubstring("belongs to another run"));
}

TEST_CASE("parameters travel by file between equal models only", "[train]") {
  Setup setup;
  setup.encoding = "type = \"rope\"\npairing = \"interleaved\"";
  const std::string path = fresh_folder("files") + "/p.safetensors";
  Run source(setup);
  source.trainer->run();
  save_parameters(path, *source.encoder);

  setup.options.seed = 6;
  Run target(setup);
  CHECK(target.parameters() != source.parameters());
  load_parameters(path, *target.encoder);
  CHECK(target.parameters() == source.parameters());
  // B01: the other pairing would use the same shapes and be wrong.
  Setup half = setup;
  half.encoding = "type = \"rope\"\npairing = \"half\"";
  CHECK_THROWS_WITH(load_parameters(path, *Run(half).encoder), ContainsSubstring("pairing"));
  Setup wide = setup;
  wide.model.ffn = 48;
  CHECK_THROWS_WITH(load_parameters(path, *Run(wide).encoder), ContainsSubstring("has shape"));
  Setup deep = setup;
  deep.model.layers = 3;
  CHECK_THROWS_WITH(load_parameters(path, *Run(deep).encoder), ContainsSubstring("is missing"));
  Setup shallow = setup;
  shallow.model.layers = 1;
  CHECK_THROWS_WITH(load_parameters(path, *Run(shallow).encoder),
                    ContainsSubstring("does not belong"));
  const CheckpointModel model = read_checkpoint_model(path);
  CHECK(model.encoding.find("type")->as_string() == "rope");
  CHECK(model.interface.output_classes == source.task->spec().output_classes);
}

// After the first steps, training asks the system for no memory.
TEST_CASE("training settles on one slab of step memory", "[train]") {
  Setup setup;
  setup.options.train.lengths.draw = "fixed";
  Run run(setup);
  run.trainer->run();
  const int64_t taken = run.context->step_heap().slabs_taken();
  setup.options.train.steps = 24;
  Run longer(setup);
  longer.trainer->run();
  CHECK(longer.context->step_heap().slabs_taken() == taken);
}
