// Configs: layers, types chosen by name, everything checked, and the mistakes people make.
#include "experiments/schema.h"

#include <cstdlib>

#include "core/config_toml.h"
#include "experiments/schema_reference.h"
#include "tests/catch.h"
#include "tests/experiments/fake_schema.h"

using namespace longshot;

namespace {

RunConfig resolve_text(const std::string& toml) {
  ConfigTable table;
  merge_config(table, parse_toml(toml, "a.toml"), fake_schema());
  return resolve(table, fake_schema());
}

std::string error_of(const std::string& toml) {
  return usage_error([&] { resolve_text(toml); });
}

const std::string kTask = "task = 'reverse_string'\n";

RunConfig load(const std::vector<std::string>& files,
               const std::vector<std::string>& overrides = {}) {
  return resolve(load_config(files, overrides, fake_schema()).table, fake_schema());
}

}  // namespace

TEST_CASE("a config is defaults and what was written") {
  const RunConfig config = resolve_text(
      "name = 'study'\nseed = 7\n[task]\ntype = 'sum'\n[model]\ndim = 32\n[encoding]\ntype = "
      "'rope'\n"
      "base = 500\n[train]\nlengths = { max = 20 }\nlr = 1\n[evaluate]\n"
      "lengths = [300, 50, { from = 100, to = 220, step = 50 }, 50]\n");
  CHECK(config.name == "study");
  CHECK(config.seed == 7);
  CHECK(config.device.type == "auto");
  CHECK(config.task.type == "sum");
  CHECK(config.task.options.to_toml() == "digits = 5\n");
  CHECK(config.model.dim == 32);
  CHECK(config.model.heads == 8);
  CHECK(config.encoding.options.to_toml() ==
        "base = 500.0\npairing = \"interleaved\"\n\n[scaling]\n");
  CHECK(config.encoding.options.find("base")->where().to_string() == "a.toml:9:1");
  CHECK(config.encoding.where.to_string() == "a.toml:8:1");
  CHECK(config.positions.type == "contiguous");
  CHECK(config.train.lengths.min == 1);
  CHECK(config.train.lengths.max == 20);
  CHECK(config.train.lr == 1.0);
  CHECK(config.evaluate_lengths() == std::vector<int64_t>{50, 100, 150, 200, 300});
  CHECK(config.encoding.with_type().find("type")->as_string() == "rope");
}

TEST_CASE("the resolved config loads back to the same run") {
  TemporaryFolder folder;
  const std::string first = folder.write(
      "study.toml",
      "seed = 3\n[task]\ntype = 'text'\ncorpus = 'data/x.txt'\n[encoding]\ntype = 'rope'\n"
      "scaling = { type = 'yarn', factor = 4.0, list = [1, 2] }\n[positions]\ntype = 'randomized'\n"
      "[train]\nlr = 3e-4\ninit_from = 'weights.safetensors'\nlengths.draw = 'sequence'\n"
      "[evaluate]\nlengths = [50, { from = 100, to = 200, step = 50 }]\n");
  const RunConfig config = load({first}, {"model.dropout=0.1"});
  CHECK(config.name == "study");
  const std::string text = to_toml(config);
  const RunConfig again = load({folder.write("runs/1/config.toml", text)});
  CHECK(to_toml(again) == text);
  CHECK(to_table(again) == to_table(config));
  // Paths count from the first config, not from where the copy lies.
  CHECK(again.train.init_from == (folder.path() / "weights.safetensors").string());
  CHECK(again.task.options.find("corpus")->as_string() == (folder.path() / "data/x.txt").string());
}

TEST_CASE("later layers beat earlier ones") {
  TemporaryFolder folder;
  folder.write("base.toml", kTask +
                                "seed = 1\n[model]\ndim = 16\nlayers = 2\n[train]\nsteps = 5\n"
                                "lengths = { min = 2, max = 30 }\n");
  folder.write("more/wide.toml", "extends = '../base.toml'\n[model]\ndim = 128\n");
  folder.write("long.toml", "[train]\nsteps = 9\nlengths = { max = 50 }\n[model]\nlayers = 4\n");
  const std::string study = folder.write(
      "study.toml", "extends = ['more/wide.toml', 'long.toml']\n[model]\nlayers = 6\n");
  const RunConfig config = load({study}, {"train.lengths.max=60", "seed=9"});
  CHECK(config.model.dim == 128);        // base < wide
  CHECK(config.model.layers == 6);       // base < long < study
  CHECK(config.train.steps == 9);        // base < long
  CHECK(config.train.lengths.min == 2);  // kept by the merge
  CHECK(config.train.lengths.max == 60);
  CHECK(config.seed == 9);
  CHECK(config.name == "study");

  // Several files on the command line are layers, too.
  const std::string overlay = folder.write("overlay.toml", "[model]\ndim = 64\n");
  CHECK(load({study, overlay}).model.dim == 64);
  CHECK(load({study, overlay}).name == "overlay");
}

TEST_CASE("another type drops the earlier type's options, the same type keeps them") {
  TemporaryFolder folder;
  const std::string base = folder.write(
      "base.toml", kTask +
                       "[encoding]\ntype = 'rope'\nbase = 500\nscaling = { type = 'yarn', factor = "
                       "4.0 }\n[device]\ntype = 'cpu'\ntf32 = true\n");
  CHECK(load({base}, {"encoding.pairing=half"}).encoding.options.find("base")->to_toml() ==
        "500.0");
  CHECK(load({base}, {"encoding=rope"}).encoding.options.find("base")->to_toml() == "500.0");

  const RunConfig learned = load({base}, {"encoding=learned"});
  CHECK(learned.encoding.type == "learned");
  CHECK(learned.encoding.options.to_toml() == "capacity = 2048\n");
  // The order of command-line words does not matter.
  CHECK(load({base}, {"encoding.capacity=7", "encoding.type=learned"}).encoding.options.to_toml() ==
        "capacity = 7\n");
  CHECK(
      load({base}, {"encoding={ type = \"learned\", capacity = 9 }"}).encoding.options.to_toml() ==
      "capacity = 9\n");
  // A typed table inside: the same rule. [device] has a type, but no types with options of their
  // own.
  CHECK(load({base}, {"encoding.scaling={ type = \"linear\" }"})
            .encoding.options.find("scaling")
            ->to_toml() == "{ type = \"linear\" }");
  CHECK(load({base}, {"encoding.scaling.factor=8.0"}).encoding.options.find("scaling")->to_toml() ==
        "{ type = \"yarn\", factor = 8.0 }");
  CHECK(load({base}, {"device.type=cuda"}).device.tf32);
}

TEST_CASE("extends: what can be wrong") {
  TemporaryFolder folder;
  const std::string missing = folder.write("missing.toml", "\nextends = ['nothere.toml']\n");
  CHECK_THAT(usage_error([&] { load({missing}); }),
             ContainsSubstring("missing.toml:2:12: extends names a file that is not there: ") &&
                 ContainsSubstring("nothere.toml"));
  folder.write("a.toml", "extends = 'b.toml'\n");
  const std::string b = folder.write("b.toml", "extends = 'a.toml'\n");
  CHECK_THAT(usage_error([&] { load({b}); }),
             ContainsSubstring("a.toml:1:1: extends goes in a circle"));
  const std::string self = folder.write("self.toml", "extends = 'self.toml'\n");
  CHECK_THAT(usage_error([&] { load({self}); }), ContainsSubstring("circle"));
  const std::string number = folder.write("number.toml", "extends = 5\n");
  CHECK_THAT(
      usage_error([&] { load({number}); }),
      ContainsSubstring("extends must be a file name or a list of them, got a whole number: 5"));
  // Twice the same base, not in a circle, is fine.
  folder.write("base.toml", kTask);
  folder.write("x.toml", "extends = 'base.toml'\nseed = 4\n");
  const std::string diamond = folder.write("d.toml", "extends = ['x.toml', 'base.toml']\n");
  CHECK(load({diamond}).seed == 4);
  CHECK_THAT(usage_error([&] { load({diamond}, {"extends=base.toml"}); }),
             ContainsSubstring("extends belongs in a file"));
  CHECK_THAT(usage_error([&] { load({(folder.path() / "none.toml").string()}); }),
             ContainsSubstring("none.toml: cannot read"));
  // A mistake in a base is reported there.
  folder.write("wrong.toml", "[model]\n\ndimm = 5\n");
  const std::string user = folder.write("user.toml", kTask + "extends = 'wrong.toml'\n");
  CHECK_THAT(
      usage_error([&] { load({user}); }),
      ContainsSubstring("wrong.toml:3:1: unknown key \"dimm\" in [model]; did you mean \"dim\"?"));
}

TEST_CASE("unknown and misplaced keys (B34)") {
  CHECK(error_of(kTask + "sead = 1") ==
        "a.toml:2:1: unknown key \"sead\" at the top level; did you mean \"seed\"?");
  CHECK(error_of(kTask + "[modle]\ndim = 3") ==
        "a.toml:2:2: unknown key \"modle\" at the top level; did you mean \"model\"?");
  CHECK_THAT(
      error_of(kTask + "[model]\nlr = 0.1"),
      ContainsSubstring("a.toml:3:1: unknown key \"lr\" in [model]; \"lr\" is a key of [train]"));
  CHECK_THAT(error_of(kTask + "[train]\ndropout = 0.1"),
             ContainsSubstring("\"dropout\" is a key of [model]"));
  CHECK_THAT(error_of(kTask + "lr = 0.1"), ContainsSubstring("\"lr\" is a key of [train]"));
  CHECK_THAT(error_of(kTask + "[train]\nseed = 1"),
             ContainsSubstring("\"seed\" stands at the top level"));
  CHECK_THAT(error_of(kTask + "[model]\ncapacity = 1"),
             ContainsSubstring("\"capacity\" is an option of encoding learned, one_hot"));
  CHECK_THAT(error_of(kTask + "[train]\nlengths = { mx = 3 }"),
             ContainsSubstring("a.toml:3:13: unknown key \"mx\" in [train.lengths]; did you mean "
                               "\"max\"?"));
  CHECK_THAT(
      error_of(kTask + "[evaluate]\nlengths = [{ from = 1, to = 4, stpe = 1 }]"),
      ContainsSubstring("unknown key \"stpe\" in [evaluate.lengths]; did you mean \"step\"?"));
  CHECK_THAT(error_of(kTask + "[model]\ndim = 8\n[model]\nheads = 2"),
             ContainsSubstring("a.toml:4:"));
}

TEST_CASE("an option of another encoding is named as such (B34)") {
  CHECK(error_of(kTask + "[encoding]\ntype = 'rope'\ncapacity = 512") ==
        "a.toml:4:1: unknown key \"capacity\" in [encoding]; \"capacity\" is an option of encoding "
        "learned, one_hot; known keys: base, pairing, scaling, type");
  CHECK_THAT(error_of(kTask + "[encoding]\nbase = 512"),
             ContainsSubstring("\"base\" is an option of encoding rope"));
  CHECK_THAT(error_of(kTask + "[encoding]\ntype = 'rope'\nbsae = 512"),
             ContainsSubstring("did you mean \"base\"?"));
  // Not through an override either, nor by a type that came from elsewhere.
  TemporaryFolder folder;
  const std::string base = folder.write("base.toml", kTask + "[encoding]\ntype = 'learned'\n");
  CHECK_THAT(
      usage_error([&] { load({base}, {"encoding.base=500"}); }),
      ContainsSubstring("command line: unknown key \"base\" in [encoding]; \"base\" is an option "
                        "of encoding rope"));
}

TEST_CASE("unknown types and wrong types") {
  CHECK(error_of("[task]\ntype = 'reverse_strin'") ==
        "a.toml:2:1: unknown task \"reverse_strin\"; did you mean \"reverse_string\"?; known: "
        "reverse_string, sum, text");
  CHECK(error_of(kTask + "encoding = 'ropee'") ==
        "a.toml:2:1: unknown encoding \"ropee\"; did you mean \"rope\"?; known: learned, none, "
        "one_hot, rope");
  CHECK_THAT(error_of(kTask + "positions = 'x'"),
             ContainsSubstring("unknown position sampler \"x\""));
  CHECK(error_of("seed = 1") == "defaults: [task] needs a type; known: reverse_string, sum, text");
  CHECK(error_of("[task]\ntype = 5") ==
        "a.toml:2:1: task.type must be a string, got a whole number: 5");
  CHECK(error_of(kTask + "train = 5") ==
        "a.toml:2:1: [train] must be a section or a table, got a whole number: 5");
  CHECK(error_of(kTask + "[model]\ndim = '64'") ==
        "a.toml:3:1: model.dim must be a whole number, got a string: \"64\"");
  CHECK(error_of(kTask + "[model]\ndim = 64.5") ==
        "a.toml:3:1: model.dim must be a whole number, got a number: 64.5");
  CHECK(resolve_text(kTask + "[model]\ndim = 64.0").model.dim == 64);
  CHECK(error_of(kTask + "[train]\nlr = '1e-4x'") ==
        "a.toml:3:1: train.lr must be a number, got a string: \"1e-4x\"");
  CHECK_THAT(error_of(kTask + "[train]\nlr = nan"),
             ContainsSubstring("a.toml:3:1: train.lr must be a "
                               "finite number"));
  CHECK_THAT(error_of(kTask + "seed = -1"), ContainsSubstring("seed must be at least 0, got -1"));
}

TEST_CASE("impossible sizes and contradictions point to a line") {
  CHECK(error_of(kTask + "[model]\ndim = 60\nheads = 8") ==
        "a.toml:4:1: model.dim = 60 is not divisible by model.heads = 8");
  CHECK(error_of(kTask + "[model]\ndim = 60") ==
        "a.toml:3:1: model.dim = 60 is not divisible by model.heads = 8");
  CHECK_THAT(error_of(kTask + "[model]\nheads = 0"), ContainsSubstring("heads must be at least 1"));
  CHECK(error_of(kTask + "[train]\nlengths = { min = 10,\n  max = 5 }").starts_with("a.toml:"));
  CHECK_THAT(
      error_of(kTask + "[train]\nlengths = { min = 10, max = 5 }"),
      ContainsSubstring("a.toml:3:23: train.lengths needs min <= max, got min = 10, max = 5"));
  CHECK_THAT(error_of(kTask + "[train]\nlengths = { length = 5 }"),
             ContainsSubstring("is for draw = \"fixed\""));
  CHECK_THAT(error_of(kTask + "[train]\nlengths = { curriculum_steps = 5 }"),
             ContainsSubstring("needs curriculum = \"linear\""));
  CHECK_THAT(error_of(kTask + "[evaluate]\nstride = 4"), ContainsSubstring("needs window"));
  CHECK_THAT(
      error_of(kTask + "[device]\ntype = 'gpu'"),
      ContainsSubstring("a.toml:3:1: device.type must be auto, cpu, cuda or cuda:N, got \"gpu\""));
  CHECK_THAT(error_of(kTask + "[device]\ntype = 'cuda:x'"), ContainsSubstring("device.type"));
  CHECK(resolve_text(kTask + "[device]\ntype = 'cuda:1'").device.type == "cuda:1");
  for (const char* name : {"a/b", "..", "-x", "."})
    CHECK_THAT(error_of(kTask + "name = '" + name + "'"), ContainsSubstring("usable as a folder"));
}

TEST_CASE("evaluation lengths: what can be wrong") {
  const auto lengths = [](const std::string& text) {
    return error_of(kTask + "[evaluate]\nlengths = " + text);
  };
  CHECK(lengths("5") ==
        "a.toml:3:1: evaluate.lengths must be a list of lengths and { from, to, step }, "
        "got 5");
  CHECK(lengths("[5, 0]") == "a.toml:3:15: evaluate.lengths must be from 1 to 1000000000, got 0");
  CHECK_THAT(lengths("[5.5]"), ContainsSubstring("holds lengths and { from, to, step }, got 5.5"));
  CHECK_THAT(lengths("[{ from = 5 }]"), ContainsSubstring("needs \"to\" in a range"));
  CHECK_THAT(lengths("[{ from = 5, to = 4 }]"), ContainsSubstring("must have from <= to"));
  CHECK_THAT(lengths("[{ from = 1, to = 4, step = 0 }]"), ContainsSubstring("step must be from 1"));
  CHECK_THAT(lengths("[{ from = 1, to = 1000000000 }]"),
             ContainsSubstring("more than 100000 lengths"));
  CHECK(
      resolve_text(kTask + "[evaluate]\nlengths = [{ from = 3, to = 5 }, 4]").evaluate_lengths() ==
      std::vector<int64_t>{3, 4, 5});
}

TEST_CASE("overrides: form and types") {
  TemporaryFolder folder;
  const std::string file = folder.write("a.toml", kTask);
  for (const char* text : {"lr", "=5", ".a=1", "a.=1", "a..b=1", "a b=1", "[x]=1"})
    CHECK_THAT(usage_error([&] { load({file}, {text}); }),
               ContainsSubstring("is not of the form section.key=value"));
  CHECK(load({file}, {"train.lr=1E-4"}).train.lr == 0.0001);
  CHECK(usage_error([&] { load({file}, {"train.lr=1e-4x"}); }) ==
        "command line: train.lr must be a number, got a string: \"1e-4x\"");
  CHECK(usage_error([&] { load({file}, {"train.lr=0,1"}); }) ==
        "command line: train.lr must be a number, got a string: \"0,1\"");
  CHECK_THAT(usage_error([&] { load({file}, {"train.lerning=1"}); }),
             ContainsSubstring("command line: unknown key \"lerning\" in [train]"));
  CHECK_THAT(usage_error([&] { load({file}, {"evaluate.lengths=[1, 2"}); }),
             ContainsSubstring("not a valid value"));
  CHECK(load({file}, {"evaluate.lengths=[1, 2]"}).evaluate_lengths() == std::vector<int64_t>{1, 2});
  CHECK(load({file}, {"task=text", "task.corpus=some dir/x.txt"})
            .task.options.find("corpus")
            ->as_string() == (std::filesystem::current_path() / "some dir/x.txt").string());
}

TEST_CASE("load_run refuses a sweep") {
  TemporaryFolder folder;
  const std::string file = folder.write("a.toml", kTask + "\n[sweep]\ngrid = { seed = [1, 2] }\n");
  CHECK_THAT(usage_error([&] { load_run(file, {}, fake_schema()); }),
             ContainsSubstring("a.toml:3:2: this config must describe one run"));
  CHECK(load_run(folder.write("b.toml", kTask), {"seed=4"}, fake_schema()).seed == 4);
}

TEST_CASE("missing files are found before training, at their line") {
  TemporaryFolder folder;
  const std::string file =
      folder.write("a.toml", "[task]\ntype = 'text'\ncorpus = 'nothing.txt'\n");
  const RunConfig config = load({file});
  CHECK_THAT(usage_error([&] { check_files(config, fake_schema()); }),
             ContainsSubstring("a.toml:3:1: task.corpus names a file that cannot be read: " +
                               (folder.path() / "nothing.txt").string()));
  folder.write("nothing.txt", "text");
  check_files(config, fake_schema());
  RunConfig initialised = config;
  initialised.train.init_from = (folder.path() / "w.safetensors").string();
  CHECK_THAT(usage_error([&] { check_files(initialised, fake_schema()); }),
             ContainsSubstring("train.init_from names a file that cannot be read"));
}

TEST_CASE("the reference lists every key that can be written") {
  const std::vector<ReferenceSection> sections = reference("", fake_schema());
  const ConfigTable written = to_table(resolve_text(kTask + "encoding = 'rope'\n"));
  for (const auto& [name, value] : written.entries()) {
    const bool section = value.is_table();
    for (const auto& [key, inner] : section ? value.as_table().entries() : written.entries()) {
      if (key == "type" && name != "device") continue;
      if (!section && key != name) continue;
      bool found = false;
      for (const ReferenceSection& each : sections)
        if (each.section == (section ? name : "") && (each.type.empty() || each.type == "rope"))
          for (const FieldInfo& field : each.fields)
            found = found || field.key == key || field.key.starts_with(key + ".");
      INFO(name << "." << key);
      CHECK(found);
    }
  }
  const std::string text = reference_text(sections);
  CHECK_THAT(text, ContainsSubstring("[encoding] type = \"rope\"  rotations\n"));
  CHECK_THAT(text, ContainsSubstring("lengths.max"));
  CHECK_THAT(text, ContainsSubstring("one of \"post\", \"pre\""));
  CHECK_THAT(reference_markdown(sections),
             ContainsSubstring("| `base` | `10000.0` | number, above 1 | frequency base |"));
  CHECK(reference("encodings", fake_schema()).size() == 4);
  CHECK_THAT(usage_error([] { reference("encoding", fake_schema()); }),
             ContainsSubstring("known: "));
}

TEST_CASE("the installed schema knows the registered tasks") {
  const Schema& schema = Schema::installed();
  CHECK(schema.task().find("reverse_string") != nullptr);
  CHECK(schema.encoding().default_type == "none");
}
