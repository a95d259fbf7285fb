// Keys that contradict each other or do nothing beside the others are refused or said, with their
// place; what is left at its default is not.
#include "experiments/idle_keys.h"

#include "core/config_toml.h"
#include "tests/catch.h"

using namespace longshot;
using Catch::Matchers::StartsWith;

namespace {

const std::string kBase = "task = { type = 'reverse_string' }\n";
const std::string kText = "[task]\ntype = 'text'\n";

RunConfig config_of(const std::string& toml) {
  return resolve(parse_toml(toml, "a.toml"));
}

std::string refusal(const std::string& toml, bool windowed = false) {
  TaskSpec spec;
  spec.windowed = windowed;
  try {
    check_idle_keys(config_of(toml), spec);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "none";
}

void check_note(const std::string& toml, const std::string& place, const std::string& key) {
  INFO(toml);
  const std::vector<std::string> notes = idle_keys(config_of(toml));
  REQUIRE(notes.size() == 1);
  CHECK_THAT(notes[0], StartsWith("a.toml:" + place + ": " + key + " = "));
}

}  // namespace

TEST_CASE("keys that contradict each other are refused", "[experiments]") {
  CHECK(refusal(kBase) == "none");
  CHECK_THAT(refusal(kBase + "[train]\nevaluate_every = 0\npatience = 3\n"),
             StartsWith("a.toml:4:1: train.patience = 3 counts evaluations"));
  CHECK(refusal(kBase + "[train]\nevaluate_every = 0\n") == "none");
  CHECK_THAT(refusal(kBase + "[evaluate]\nwindow = 'sliding'\n"),
             StartsWith("a.toml:3:1: evaluate.window = \"sliding\" is for one long text"));
  CHECK(refusal(kText + "[evaluate]\nwindow = 'both'\n", true) == "none");
}

TEST_CASE("keys without effect are said, each with its place", "[experiments]") {
  CHECK(idle_keys(config_of(kBase)).empty());
  CHECK(idle_keys(config_of(kText)).empty());
  check_note(kBase + "[train]\nsteps = 100\nwarmup = 100\n", "4:1", "train.warmup");
  CHECK(idle_keys(config_of(kBase + "[train]\nsteps = 100\nwarmup = 99\n")).empty());
  check_note(kBase + "[train]\nfinal_lr_fraction = 0.1\n", "3:1", "train.final_lr_fraction");
  CHECK(idle_keys(config_of(kBase + "[train]\nfinal_lr_fraction = 0.1\nschedule = 'linear'\n"))
            .empty());
  check_note(kBase + "[train]\nmin_delta = 0.1\n", "3:1", "train.min_delta");
  CHECK(idle_keys(config_of(kBase + "[train]\nmin_delta = 0.1\npatience = 2\n")).empty());
  // The first evaluation at step 10 is the best so far; patience 2 can end the run at step 30.
  const std::string patient = "[train]\nevaluate_every = 10\npatience = 2\nsteps = ";
  check_note(kBase + patient + "30\n", "4:1", "train.patience");
  CHECK(idle_keys(config_of(kBase + patient + "31\n")).empty());
  check_note(kBase + "[train]\nkeep = 'best'\nevaluate_every = 0\n", "3:1", "train.keep");
  check_note(
      kBase + "[train]\nsteps = 10\nlengths = { curriculum = 'linear', curriculum_steps = 11 }\n",
      "4:1", "train.lengths.curriculum_steps");
  check_note(kBase + "[train]\nlengths = { draw = 'fixed', min = 5, length = 8 }\n", "3:1",
             "train.lengths.min");
  check_note(kText + "mask_fraction = 0.2\n", "3:1", "task.mask_fraction");
  CHECK(idle_keys(config_of(kText + "mask_fraction = 0.2\nobjective = 'masked'\n")).empty());
  check_note(kText + "train_file = 'a'\ntest_fraction = 0.2\n", "4:1", "task.test_fraction");
  check_note("[task]\ntype = 'jsonl'\nvalid = 'a'\nvalid_fraction = 0.2\n", "4:1",
             "task.valid_fraction");
  check_note("[task]\ntype = 'jsonl'\npool = 'first'\n", "3:1", "task.pool");
  check_note(kBase + "[positions]\ntype = 'randomized'\nevaluate = 'even'\ndraw_every = 4\n", "5:1",
             "positions.draw_every");
  // A run that only evaluates has no training to speak of.
  CHECK(idle_keys(config_of(kBase + "[train]\nsteps = 0\nwarmup = 5\nmin_delta = 1\n")).empty());
}
