// Miniatures of the studies on causal models (kazemnejad2023, press2022, rope_scaling): their
// configs with fewer cells and steps, through the real program. Only the contrasts that are clean
// on every seed are asserted, and only between models that fit their training lengths.
#include <filesystem>

#include "experiments/commands.h"
#include "experiments/report.h"
#include "experiments/sweep_plan.h"
#include "tests/catch.h"
#include "tests/experiments/program.h"

using namespace longshot;
using namespace longshot_test;

namespace {

const std::string kStudies = LONGSHOT_SOURCE_DIR "/experiments/configs/studies/";

// The study's config with another sweep, run; its groups by label.
Report report_of(const Folder& folder, const std::string& study, const std::string& overlay,
                 const std::vector<std::string>& words = {}) {
  const std::string config =
      folder.write(study + ".toml", "extends = '" + kStudies + study + "/" + study + ".toml'\n" +
                                        "name = '" + study + "'\n" + overlay);
  std::vector<std::string> command = {"run", config, "--out", folder / "runs"};
  command.insert(command.end(), words.begin(), words.end());
  const Outcome outcome = run_longshot(command);
  INFO(outcome.all());
  REQUIRE(outcome.code == 0);
  return gather_report({folder / ("runs/" + study)});
}

const ReportGroup& group_of(const ReportPanel& panel, const std::string& encoding,
                            const std::string& part = "") {
  for (const ReportGroup& group : panel.groups)
    if (group.encoding == encoding && group.label.find(part) != std::string::npos) return group;
  throw Error("no group of " + encoding);
}

double at(const ReportGroup& group, int64_t length) {
  for (const ReportPoint& point : group.points)
    if (point.length == length) return point.spread.mean;
  throw Error("no such length");
}

// Real text that is always at hand: this program's own source, about a megabyte of it.
std::string source_text() {
  std::vector<std::string> files;
  for (const char* part : {"core", "data", "nn", "train"})
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(std::string(LONGSHOT_SOURCE_DIR "/") + part))
      if (entry.path().extension() == ".cpp") files.push_back(entry.path().string());
  std::sort(files.begin(), files.end());
  std::string text;
  for (const std::string& file : files) text += read_file(file);
  return text;
}

}  // namespace

TEST_CASE("kazemnejad2023 in small: a causal model without positions copies past its lengths",
          "[miniature]") {
  const Folder folder;
  const Report report = report_of(folder, "kazemnejad2023", R"(
[task]
type = "copy_repeat"
[train]
steps = 800
lengths = { min = 1, max = 10 }
[evaluate]
lengths = [12, 14]
[sweep]
grid = { seed = [1] }
zip = { device.capture = [true] }
cells = [{ encoding = "none" }, { encoding = "rope" }]
)");
  REQUIRE(report.panels.size() == 1);
  const ReportGroup &none = group_of(report.panels[0], "none"),
                    &rope = group_of(report.panels[0], "rope");
  CHECK(none.in_range.mean >= 0.99);
  CHECK(rope.in_range.mean >= 0.99);
  CHECK(at(none, 14) >= 0.9);
  CHECK(at(rope, 14) <= 0.1);
}

TEST_CASE("press2022 and rope_scaling in small: who breaks down beyond, and what mends it",
          "[miniature]") {
  const Folder folder;
  const std::string corpus = "task.corpus=" + folder.write("corpus.txt", source_text());
  const std::string shorter = R"(
[task]
evaluate_bytes = 4096
[train]
steps = 400
batch = 16
lengths = { min = 64, max = 64 }
[evaluate]
window = "segments"
stride = 0
lengths = [64, 256]
[sweep]
zip = { seed = [1] }
)";
  const Report press = report_of(
      folder, "press2022", shorter + "grid = { encoding = ['sinusoidal', 'alibi'] }\n", {corpus});
  REQUIRE(press.panels.size() == 1);
  const ReportGroup &sinusoidal = group_of(press.panels[0], "sinusoidal"),
                    &alibi = group_of(press.panels[0], "alibi");
  // Below 3 nats a byte: more than the frequencies of bytes has been learned.
  CHECK(at(sinusoidal, 64) < 3);
  CHECK(at(alibi, 64) < 3);
  CHECK(at(sinusoidal, 256) > at(sinusoidal, 64) + 0.5);
  CHECK(at(alibi, 256) < at(alibi, 64) + 0.05);

  report_of(folder, "rope_scaling", shorter + "grid = { encoding = ['rope'] }\n", {corpus});
  const Outcome scaled =
      shell("bash '" + kStudies + "rope_scaling/evaluate.sh' '" + (folder / "runs/rope_scaling") +
            "' '" + program_path() + " --threads 1'");
  INFO(scaled.all());
  REQUIRE(scaled.code == 0);
  const Report report = gather_report({folder / "runs/rope_scaling"});
  REQUIRE(report.panels.size() == 1);
  CHECK(report.panels[0].groups.size() == 11);  // unscaled, dynamic, three ways at three factors
  double unscaled = 0;
  for (const ReportGroup& group : report.panels[0].groups)
    if (group.label == "rope") unscaled = at(group, 256);
  CHECK(at(group_of(report.panels[0], "rope", "(scaling=yarn factor=4)"), 256) < unscaled - 0.1);
}

TEST_CASE("an estimate counts the windows there are, not those asked for") {
  const Folder folder;
  const std::string corpus = folder.write("corpus.txt", std::string(100000, 'a'));
  const auto estimate = [&](const std::string& samples) {
    RunArguments arguments;
    arguments.configs = {kStudies + "rope_scaling/rope_scaling.toml"};
    arguments.out = folder / "runs";
    arguments.overrides = {"task.corpus=" + corpus, "task.evaluate_bytes=2048", "train.steps=1",
                           "model.dim=8", "evaluate.samples=" + samples};
    double sum = 0;
    for (const double seconds : estimate_seconds(plan_sweep(arguments), false)) sum += seconds;
    return sum;
  };
  // 2,048 bytes hold 31 windows of 128 that slide by 64, and fewer of the longer ones.
  CHECK(estimate("1000000") < 100 * estimate("31"));
}
