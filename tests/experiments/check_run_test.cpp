// Tasks, encodings, positions and lengths that do not go together are found before training.
#include "experiments/check_run.h"

#include "core/config_toml.h"
#include "core/cpu/cpu_backend.h"
#include "experiments/load.h"
#include "tests/catch.h"
#include "tests/experiments/fake_schema.h"

using namespace longshot;

namespace {

RunConfig config_of(const std::string& toml) {
  ConfigTable table;
  merge_config(table, parse_toml(toml, "a.toml"), Schema::installed());
  return resolve(table);
}

const std::string kReversed = "task = 'reverse_string'\n";

struct LimitedSampler : PositionSampler {
  LimitedSampler(int64_t capacity, int64_t limit) : capacity_(capacity), limit_(limit) {}
  DrawnPositions draw(const PositionRequest&) const override { return {}; }
  int64_t capacity() const override { return capacity_; }
  int64_t position_limit() const override { return limit_; }
  int64_t capacity_, limit_;
};

std::string reach_error(const std::string& toml, int64_t encoding_capacity,
                        int64_t sampler_capacity = 0, int64_t limit = 0) {
  const RunConfig config = config_of(toml);
  const auto task = make_task(config.task.type, config.task.with_type());
  EncodingTraits traits;
  traits.capacity = encoding_capacity;
  return usage_error(
      [&] { check_reach(config, *task, traits, LimitedSampler(sampler_capacity, limit)); });
}

std::string task_error(const std::string& toml) {
  const RunConfig config = config_of(toml);
  const auto task = make_task(config.task.type, config.task.with_type());
  return usage_error([&] { check_task(config, *task); });
}

}  // namespace

TEST_CASE("lengths beyond a bounded encoding point to the length, placeholders counted") {
  // reverse_string shows n symbols and n placeholders.
  const std::string toml =
      kReversed + "encoding = 'learned'\n[evaluate]\nlengths = [50, 100,\n 300]\n";
  CHECK(reach_error(toml, 600) == "no error");
  CHECK(reach_error(toml, 0) == "no error");
  CHECK(reach_error(toml, 599) ==
        "a.toml:5:2: evaluate.lengths has 300: 600 tokens with what the task adds, and encoding "
        "learned "
        "has capacity 599; raise encoding.capacity, or choose what happens beyond it with "
        "encoding.beyond");
  CHECK(reach_error(kReversed +
                        "encoding = { type = 'learned', beyond = 'clamp' }\n[evaluate]\nlengths = "
                        "[300]\n",
                    10) == "no error");
  // Positions drawn below a limit do not grow with the length.
  CHECK(reach_error(toml, 100, 0, 100) == "no error");
  CHECK_THAT(
      reach_error(toml, 0, 512, 512),
      ContainsSubstring("a.toml:5:2: evaluate.lengths has 300: 600 tokens with what the task "
                        "adds, and positions contiguous has only 512"));
  CHECK_THAT(
      reach_error(kReversed + "encoding = 'learned'\n[evaluate]\nlengths = [{ from = 1, to = "
                              "10 }]\n",
                  5),
      ContainsSubstring("a.toml:4:1: evaluate.lengths has 3: 6 tokens"));
}

TEST_CASE("a task's own lengths and needs") {
  CHECK(task_error(kReversed) == "no error");
  CHECK_THAT(task_error("task = 'copy'\n"),
             ContainsSubstring("a.toml:1:1: task copy predicts its own next token: it needs "
                               "model.causal = true"));
  CHECK(task_error(
            "task = 'copy'\n[model]\ncausal = true\n[train]\nlengths = { min = 1, max = 5 }\n") ==
        "no error");
  CHECK_THAT(
      task_error(kReversed + "[train]\nlengths = { curriculum = 'linear', draw = 'fixed' }\n"),
      ContainsSubstring("a.toml:3:1: train.lengths: a curriculum has no meaning"));
}

TEST_CASE("every installed type resolves with its defaults, and its saved config loads back") {
  const Schema& schema = Schema::installed();
  const auto check = [&](const std::string& section, const SectionTypes& types) {
    CHECK_FALSE(types.types.empty());
    for (const SectionType& type : types.types) {
      INFO(section << " " << type.name);
      const std::string task = section == "task" ? "" : kReversed;
      const RunConfig config = config_of(task + section + " = '" + type.name + "'\n");
      const std::string text = to_toml(config);
      CHECK(to_toml(config_of(text)) == text);
      CHECK(to_table(config_of(text)) == to_table(config));
      CHECK_FALSE(type.summary.empty());
      for (const FieldInfo& field : type.describe()) CHECK_FALSE(field.help.empty());
    }
  };
  check("task", schema.task());
  check("encoding", schema.encoding());
  check("positions", schema.positions());
}

TEST_CASE("an option of another installed encoding is named as such") {
  CHECK_THAT(
      usage_error([] { config_of(kReversed + "[encoding]\ntype = 'rope'\nbuckets = 32\n"); }),
      ContainsSubstring("a.toml:4:1: unknown key \"buckets\" in [encoding]; \"buckets\" is an "
                        "option of encoding t5"));
}

TEST_CASE("check_run builds the modules and points to what has to change") {
  const std::unique_ptr<Backend> backend = make_cpu_backend();
  Context context(*backend);
  const auto error = [&](const std::string& toml) {
    const RunConfig config = config_of(toml);
    return usage_error([&] { check_run(config, context); });
  };
  CHECK(error(kReversed + "encoding = 'rope'\n") == "no error");
  // Odd rotary width: 40 / 8 = 5 lanes a head.
  CHECK_THAT(error(kReversed + "[model]\ndim = 40\n[encoding]\ntype = 'rope'\n"),
             ContainsSubstring("a.toml:5:1: encoding rope: ") && ContainsSubstring("5"));
  CHECK_THAT(error(kReversed + "[encoding]\ntype = 'rope'\nwidth = 3\n"),
             ContainsSubstring("a.toml:3:1: encoding rope: ") && ContainsSubstring("3"));
  CHECK_THAT(error(kReversed + "[encoding]\ntype = 'learned'\ncapacity = 20\n"),
             ContainsSubstring("a.toml:3:1: ") && ContainsSubstring("20"));
  CHECK_THAT(
      error(kReversed + "encoding = { type = 'learned', capacity = 100 }\n[evaluate]\nlengths = "
                        "[50, 51]\n"),
      ContainsSubstring("evaluate.lengths has 51: 102 tokens"));
}
