// Tasks, encodings, positions and lengths that do not go together are found before training.
#include "experiments/check_run.h"

#include "core/config_toml.h"
#include "core/cpu/cpu_backend.h"
#include "experiments/load.h"
#include "experiments/memory_need.h"
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
  DrawnPositions draw(const PositionRequest& request) const override {
    DrawnPositions drawn;
    drawn.limit = limit_ > 0 ? limit_ : request.length;
    return drawn;
  }
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

TEST_CASE("training positions beyond a bounded encoding are found before training") {
  const std::unique_ptr<Backend> backend = make_cpu_backend();
  Context context(*backend);
  const auto error = [&](const std::string& toml) {
    const RunConfig config = config_of(kReversed + toml + "[evaluate]\nlengths = [3]\n");
    return usage_error([&] { check_run(config, context); });
  };
  const std::string lengths = "[train]\nlengths = { min = 1, max = 10 }\n";  // up to 20 tokens
  // The last token's largest position is 19 + 30 = 49.
  const std::string shifted = "positions = { type = 'shifted', max = 30 }\n";
  for (const char* type : {"learned", "one_hot", "binary", "sinusoidal"}) {
    const auto bounded = [&](int64_t capacity, const std::string& rest = "") {
      return fmt::format("encoding = {{ type = '{}', capacity = {}{} }}\n", type, capacity, rest);
    };
    CAPTURE(type);
    CHECK(error(bounded(50) + shifted + lengths) == "no error");
    CHECK(error(bounded(49, ", beyond = 'clamp'") + shifted + lengths) == "no error");
    CHECK(error(bounded(49) + shifted + lengths) ==
          fmt::format("a.toml:3:15: positions shifted gives training sequences of 20 tokens "
                      "positions up to 49, and encoding {} has capacity 49; raise "
                      "encoding.capacity, choose what happens beyond it with encoding.beyond, or "
                      "change what positions shifted reaches",
                      type));
    CHECK(error(bounded(20) + lengths) == "no error");
    CHECK_THAT(error(bounded(19) + lengths), ContainsSubstring("a.toml:2:") &&
                                                 ContainsSubstring("20") &&
                                                 ContainsSubstring("19"));
    CHECK_THAT(error(bounded(40) + "positions = { type = 'randomized', max = 41 }\n" + lengths),
               ContainsSubstring("positions up to 40") && ContainsSubstring("capacity 40"));
    CHECK(error(bounded(41) + "positions = { type = 'randomized', max = 41 }\n" + lengths) ==
          "no error");
  }
  CHECK(error("positions = { type = 'randomized', max = 19 }\n" + lengths) ==
        "a.toml:4:1: train.lengths goes to 10: 20 tokens with what the task adds, and positions "
        "randomized has only 19");
}

TEST_CASE("what no machine can hold is refused before it is built, with figures") {
  const std::unique_ptr<Backend> backend = make_cpu_backend();
  Context context(*backend);
  const auto error = [&](const std::string& override_text, const std::string& toml = "",
                         const std::string& task = kReversed) {
    ConfigTable table;
    merge_config(
        table,
        parse_toml(task + "device = { type = 'cpu' }\nevaluate = { lengths = [3] }\n" + toml,
                   "a.toml"),
        Schema::installed());
    merge_config(table, parse_override(override_text), Schema::installed());
    const RunConfig config = resolve(table);
    return usage_error([&] { check_run(config, context); });
  };
  CHECK(error("model.layers=6") == "no error");
  for (const char* text :
       {"model.layers=1000000000", "model.dim=1000000000", "model.ffn=1000000000000",
        "train.batch=1000000000", "train.accumulate=1000000000000",
        "evaluate.samples=1000000000000000", "evaluate.in_range_samples=1000000000000000",
        "model.layers=9223372036854775807", "train.batch=9223372036854775807"}) {
    CAPTURE(text);
    const std::string equals = std::string(text).substr(0, std::string(text).find('='));
    CHECK_THAT(error(text), ContainsSubstring("command line: " + equals + " = ") &&
                                ContainsSubstring("needs at least ") &&
                                ContainsSubstring("iB of memory, and ") &&
                                ContainsSubstring("iB for "));
  }
  // Lengths past what a task can make are refused as such; the longest that it makes, by memory.
  for (const char* text : {"train.lengths.max=1000000000000000000", "evaluate.lengths=[900000000]"})
    CHECK_THAT(error(text), ContainsSubstring("4194303"));
  CHECK_THAT(
      error("train.lengths.max=4194303", "train = { batch = 4096 }\nmodel = { dim = 512 }\n"),
      ContainsSubstring("command line: train.lengths = 4194303: this run needs"));
  CHECK_THAT(error("encoding.capacity=1000000000000", "encoding = 'learned'\n"),
             ContainsSubstring("encoding: this run needs") &&
                 ContainsSubstring("for the encoding's parameters"));
  // 65536 symbols and as many classes (and what the task adds), a million numbers each: 2 TiB.
  CHECK_THAT(error("model.dim=1000000", "model = { layers = 0, causal = true }\n",
                   "task = { type = 'copy', symbols = 65536 }\n"),
             ContainsSubstring("for the parameters of 655"));
}

TEST_CASE("the least memory is what the parts of a run are sure to hold, by hand") {
  const RunConfig config = config_of(
      kReversed +
      "device = { type = 'cpu' }\n[model]\ndim = 16\nlayers = 2\nffn = 32\n[train]\nbatch = 3\n"
      "accumulate = 5\nlengths = { min = 2, max = 4 }\n[evaluate]\nlengths = [7]\nsamples = 10\n");
  const auto task = make_task(config.task.type, config.task.with_type());
  const TaskSpec spec = task->spec();
  const std::vector<MemoryPart> parts = least_memory(config, *task, 100, 0);
  const auto bytes = [&](const std::string& what) {
    for (const MemoryPart& part : parts)
      if (part.what.find(what) != std::string::npos) return part.bytes;
    return -1.0;
  };
  // Two blocks of 4 * 16^2 + 2 * 16 * 32 = 2048 numbers, four times 4 bytes each.
  CHECK(bytes("the blocks' parameters") == 2 * 2048 * 16);
  CHECK(bytes("input tokens") == double((spec.input_vocabulary + spec.output_classes) * 16 * 16));
  CHECK(bytes("the encoding's parameters") == 1600);
  // 3 rows of 8 tokens (4 symbols, 4 placeholders): 16 * (4 * 2 + 1) numbers each.
  CHECK(bytes("activations") == double((24 * 16 * 9 + 3 * spec.output_classes) * 4));
  CHECK(bytes("losses") == 100 * 5 * 4);
  CHECK(bytes("the longest sequence") == 7 * 4 * 16 * 4);
  CHECK(bytes("the evaluation's sums") == 240);
  double total = 0;
  for (const MemoryPart& part : parts) total += part.bytes;
  check_memory(config, parts, {total, "this"});
  CHECK_THAT(usage_error([&] {
               check_memory(config, parts, {total - 1, "the test's limit"});
             }),
             ContainsSubstring("and the test's limit is 0.1 MiB"));
}
