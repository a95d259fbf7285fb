// Sweeps: which cells there are, what they are called, which of them are the same.
#include "experiments/sweep.h"

#include <algorithm>
#include <set>

#include "core/config_toml.h"
#include "tests/catch.h"
#include "tests/experiments/fake_schema.h"

using namespace longshot;

namespace {

const std::string kTask = "task = 'reverse_string'\n";

LoadedConfig loaded(const std::string& toml, const std::vector<std::string>& overrides = {}) {
  LoadedConfig result;
  merge_config(result.table, parse_toml(toml, "a.toml"), fake_schema());
  for (const std::string& text : overrides)
    merge_config(result.command_line, parse_override(text), fake_schema());
  merge_config(result.table, result.command_line, fake_schema());
  return result;
}

std::vector<Cell> expand(const std::string& toml, const std::vector<std::string>& overrides = {}) {
  return expand_sweep(loaded(toml, overrides), "cpu", fake_schema());
}

std::string sweep_error(const std::string& sweep) {
  return usage_error([&] { expand(kTask + "[sweep]\n" + sweep); });
}

// The readable part of a folder's name.
std::string readable(const Cell& cell) {
  return cell.folder.substr(0, cell.folder.rfind('-'));
}

std::string identity(const std::string& toml, const std::string& device = "cpu") {
  return identity_of(resolve(loaded(toml).table, fake_schema()), device, fake_schema());
}

}  // namespace

TEST_CASE("no sweep is one cell") {
  const std::vector<Cell> cells = expand(kTask + "encoding = 'rope'\n");
  REQUIRE(cells.size() == 1);
  CHECK(cells[0].overrides.empty());
  CHECK(readable(cells[0]) == "reverse_string-rope");
  CHECK(cells[0].identity.size() == 16);
  CHECK(cells[0].folder.ends_with("-" + cells[0].identity.substr(0, 8)));
}

TEST_CASE("grid: every combination, the first axis slowest") {
  const std::vector<Cell> cells = expand(
      kTask +
      "[encoding]\ntype = 'rope'\nbase = 500\n[sweep]\n"
      "grid = { encoding = ['rope', { type = 'learned', capacity = 512 }], seed = [1, 2, 3] }\n");
  REQUIRE(cells.size() == 6);
  CHECK(cells[0].config.encoding.type == "rope");
  CHECK(cells[0].config.encoding.options.find("base")->to_toml() == "500.0");
  CHECK(cells[1].config.seed == 2);
  CHECK(cells[3].config.encoding.type == "learned");
  CHECK(cells[3].config.encoding.options.find("capacity")->to_toml() == "512");
  CHECK(cells[5].config.seed == 3);
  CHECK(readable(cells[0]) == "rope-seed1");
  CHECK(readable(cells[5]) == "learned-seed3");  // capacity does not differ among learned cells
  std::set<std::string> folders;
  for (const Cell& cell : cells) folders.insert(cell.folder);
  CHECK(folders.size() == 6);
  REQUIRE(cells[3].overrides.size() == 2);
  CHECK(cells[3].overrides[0].first == "encoding");
  CHECK(cells[3].overrides[0].second.to_toml() == "{ type = \"learned\", capacity = 512 }");
}

TEST_CASE("axes by dotted key, nested table or whole section") {
  const std::vector<Cell> cells = expand(
      kTask +
      "[sweep.grid]\nmodel.dim = [32, 64]\n\"train\" = [{ lr = 1e-3 }, { lr = 3e-4, warmup = "
      "10 }]\n");
  REQUIRE(cells.size() == 4);
  CHECK(cells[3].config.model.dim == 64);
  CHECK(cells[3].config.train.lr == 3e-4);
  CHECK(cells[3].config.train.warmup == 10);
  CHECK(readable(cells[2]) == "dim64-lr0.001-warmup0");
  CHECK(readable(cells[1]) == "dim32-lr0.0003-warmup10");
}

TEST_CASE("zip goes in step") {
  const std::vector<Cell> cells =
      expand(kTask + "[sweep]\nzip = { train.lr = [1e-3, 1e-4], train.warmup = [0, 100] }\n");
  REQUIRE(cells.size() == 2);
  CHECK(cells[1].config.train.lr == 1e-4);
  CHECK(cells[1].config.train.warmup == 100);
}

TEST_CASE("grid, zip and cells multiply") {
  const std::vector<Cell> cells = expand(
      kTask +
      "[sweep]\ngrid = { seed = [1, 2] }\nzip = { train.lr = [1e-3, 1e-4], train.warmup = [0, "
      "5] }\ncells = [{ model.dim = 32 }, { model = { dim = 64, heads = 4 }, encoding = 'rope' "
      "}, { encoding = { type = 'learned' } }]\n");
  REQUIRE(cells.size() == 12);
  const RunConfig& last = cells[11].config;
  CHECK(last.seed == 2);
  CHECK(last.train.warmup == 5);
  CHECK(last.encoding.type == "learned");
  CHECK(cells[1].config.model.heads == 4);
  CHECK(cells[1].config.train.lr == 1e-3);
  CHECK(cells[3].config.train.lr == 1e-4);
}

TEST_CASE("a key on the command line is no axis any more") {
  const std::string study =
      kTask + "[sweep]\ngrid = { encoding = ['rope', 'learned'], seed = [1, 2] }\n";
  CHECK(expand(study, {"seed=7"}).size() == 2);
  CHECK(expand(study, {"seed=7"})[0].config.seed == 7);
  CHECK(expand(study, {"encoding=none"}).size() == 2);
  CHECK(expand(study, {"encoding=none"})[1].config.encoding.type == "none");
  CHECK(expand(study, {"encoding=none", "seed=1"}).size() == 1);
  // Keys that are no axis apply to every cell and beat its values.
  const std::vector<Cell> cells = expand(
      kTask + "[sweep]\ncells = [{ model.dim = 32, seed = 1 }, { model.dim = 64, seed = 2 }]\n",
      {"model.dim=128"});
  CHECK(cells.size() == 2);
  CHECK(cells[0].config.model.dim == 128);
  CHECK(cells[1].config.model.dim == 128);
}

TEST_CASE("a part of a sweep can be set on the command line") {
  TemporaryFolder folder;
  const std::string file =
      folder.write("s.toml", kTask + "[sweep]\ngrid = { seed = [1, 2], model.dim = [32, 64] }\n");
  const std::vector<Cell> cells = expand_sweep(
      load_config({file}, {"sweep.grid.seed=[5]"}, fake_schema()), "cpu", fake_schema());
  CHECK(cells.size() == 2);
  CHECK(cells[0].config.seed == 5);
  // A later file's sweep replaces an earlier one's.
  const std::string later = folder.write("t.toml", "[sweep]\ngrid = { seed = [8, 9, 10] }\n");
  CHECK(expand_sweep(load_config({file, later}, {}, fake_schema()), "cpu", fake_schema()).size() ==
        3);
}

TEST_CASE("sweeps: what can be wrong") {
  CHECK(sweep_error("grid = { seed = [] }") ==
        "a.toml:3:10: sweep.grid.seed is an empty list: no cell would be left");
  CHECK_THAT(sweep_error("grid = {}"), ContainsSubstring("sweep.grid is empty"));
  CHECK_THAT(sweep_error("zip = { seed = [] }"),
             ContainsSubstring("sweep.zip.seed is an empty list"));
  CHECK_THAT(sweep_error("cells = []"), ContainsSubstring("sweep.cells is empty"));
  CHECK(sweep_error("grid = { seed = 1 }") ==
        "a.toml:3:10: sweep.grid.seed must be a list of values, got a whole number: 1");
  CHECK_THAT(sweep_error("grid = [1]"), ContainsSubstring("sweep.grid must be a table of lists"));
  CHECK_THAT(sweep_error("cells = [1]"), ContainsSubstring("sweep.cells holds tables, got a whole "
                                                           "number: 1"));
  CHECK_THAT(sweep_error("cells = { seed = 1 }"), ContainsSubstring("must be a list of tables"));
  CHECK_THAT(
      sweep_error("gird = { seed = [1] }"),
      ContainsSubstring("a.toml:3:1: unknown key \"gird\" in [sweep]; did you mean \"grid\"?"));
  CHECK(sweep_error("zip = { seed = [1, 2], train.lr = [1e-3, 1e-4, 1e-5] }") ==
        "a.toml:3:30: the lists of sweep.zip must be equally long: seed has 2 values, train.lr has "
        "3");
  CHECK_THAT(sweep_error("grid = { seed = [1, 2] }\nzip = { seed = [3, 4] }"),
             ContainsSubstring("a.toml:4:9: seed is an axis of sweep.zip and of sweep.grid"));
  CHECK_THAT(sweep_error("grid = { seed = [1, 2] }\ncells = [{ seed = 3 }]"),
             ContainsSubstring("seed is set by sweep.cells and by sweep.grid"));
  CHECK_THAT(sweep_error("grid = { name = ['a', 'b'] }"),
             ContainsSubstring("name cannot be swept"));
  // Mistakes inside an axis carry their own place.
  CHECK_THAT(sweep_error("grid = { sead = [1, 2] }"),
             ContainsSubstring("a.toml:3:18: unknown key \"sead\" at the top level"));
  CHECK_THAT(
      sweep_error("grid = { encoding = ['rope',\n  { type = 'rope', capacity = 5 }] }"),
      ContainsSubstring("a.toml:4:20: unknown key \"capacity\" in [encoding]; \"capacity\" is an "
                        "option of encoding learned"));
  CHECK_THAT(sweep_error("grid = { model.heads = [8,\n 7] }"),
             ContainsSubstring("a.toml:4:2: model.dim = 64 is not divisible by model.heads = 7"));
  std::string values;
  for (int i = 0; i < 400; ++i) values += std::to_string(i) + ",";
  CHECK_THAT(sweep_error("grid = { seed = [" + values + "], model.dim = [" + values + "] }"),
             ContainsSubstring("more than 100000 cells"));
}

TEST_CASE("the same cell twice is an error") {
  CHECK(sweep_error("grid = { seed = [1, 2, 1] }") ==
        "a.toml:2:2: sweep: cells 1 (seed = 1) and 3 (seed = 1) are the same run");
  // The default written out is the same run, too.
  CHECK_THAT(sweep_error("grid = { encoding = ['rope', { type = 'rope', base = 10000 }] }"),
             ContainsSubstring("are the same run"));
  CHECK_THAT(sweep_error("grid = { evaluate.samples = [10, 20] }"),
             ContainsSubstring("differ only in what does not change training"));
}

TEST_CASE("identity: what changes trained bits, and nothing else") {
  const std::string base = identity(kTask);
  CHECK(base == identity(kTask));
  CHECK(base == identity(kTask + "seed = 1\n[model]\ndim = 64\n"));  // defaults written out
  for (const char* changed :
       {"seed = 2\n", "[device]\ntf32 = true\n", "[device]\ntype = 'cuda'\n",
        "[model]\ndim = 128\n", "encoding = 'rope'\n", "positions = 'randomized'\n",
        "[train]\nlr = 0.002\n", "[train]\nlengths = { max = 41 }\n", "[train]\nkeep = 'best'\n",
        "[train]\npatience = 1\n", "[train]\nsteps = 10001\n"}) {
    INFO(changed);
    CHECK(identity(kTask + changed) != base);
  }
  for (const char* same :
       {"name = 'other'\n", "[device]\ntype = 'cpu'\n", "[device]\ncapture = false\n",
        "[evaluate]\nlengths = [100]\nsamples = 3\nbatch = 1\n", "[train]\ncheckpoint_every = 3\n",
        "[train]\nlog_every = 3\n", "[train]\nevaluate_every = 3\n"}) {
    INFO(same);
    CHECK(identity(kTask + same) == base);
  }
  // With early stopping, when it evaluates decides what comes out.
  CHECK(identity(kTask + "[train]\npatience = 2\n") !=
        identity(kTask + "[train]\npatience = 2\nevaluate_every = 5\n"));
  // "auto" is what it means here; which of several GPUs does not matter.
  CHECK(identity(kTask, "cuda") == identity(kTask + "[device]\ntype = 'cuda:1'\n"));
  CHECK(identity(kTask, "cuda") != base);
}

TEST_CASE("files count by content, not by path") {
  TemporaryFolder folder;
  const auto of = [&](const std::string& path) {
    return identity("[task]\ntype = 'text'\ncorpus = '" + path + "'\n");
  };
  const std::string one = folder.write("one.txt", "some text");
  const std::string copy = folder.write("elsewhere/copy.txt", "some text");
  const std::string other = folder.write("other.txt", "some tex!");
  CHECK(of(one) == of(copy));
  CHECK(of(one) != of(other));
  CHECK(of("/nonexistent/a") != of("/nonexistent/b"));
}

TEST_CASE("folder names are short and safe") {
  TemporaryFolder folder;
  std::string corpora;
  for (int i = 0; i < 2; ++i)
    corpora += "'" +
               folder.write("dir/a corpus: number/" + std::to_string(i) + " ünïcode.txt",
                            std::to_string(i)) +
               "',";
  std::string axes = "task.corpus = [" + corpora + "]\ntask.type = ['text']\n";
  for (const char* key : {"dropout", "attention_dropout"})
    axes += std::string("model.") + key + " = [0.12345678, 0.3]\n";
  axes +=
      "train.weight_decay = [0.0, 1e-05]\ntrain.label_smoothing = [0.0, 0.1]\n"
      "model.norm = ['pre', 'post']\n";
  const std::vector<Cell> cells = expand("[sweep.grid]\n" + axes);
  CHECK(cells.size() == 64);
  std::set<std::string> names;
  for (const Cell& cell : cells) {
    INFO(cell.folder);
    CHECK(cell.folder.size() <= 70);
    CHECK(cell.folder.find_first_not_of(
              "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
              ".-_+") == std::string::npos);
    names.insert(cell.folder);
  }
  CHECK(names.size() == 64);

  // Keys with the same last word are told apart by their section.
  const std::vector<Cell> maxima =
      expand(kTask +
             "positions = 'randomized'\n[sweep.grid]\npositions.max = [100, "
             "200]\ntrain.lengths.max = [10, 20]\n");
  CHECK(readable(maxima[1]) == "positions.max100-train.lengths.max20");
}

TEST_CASE("a study that grew an axis finds its finished cells") {
  TemporaryFolder folder;
  const std::string first = kTask + "[sweep]\ngrid = { encoding = ['rope', 'learned'] }\n";
  const std::string grown =
      kTask + "[sweep]\ngrid = { encoding = ['rope', 'learned'], seed = [1, 2] }\n";
  const Cell before = expand(first)[0];
  CHECK_FALSE(find_cell_folder(folder.path() / "absent", before));
  CHECK_FALSE(find_cell_folder(folder.path(), before));
  std::filesystem::create_directory(folder.path() / before.folder);
  const std::vector<Cell> after = expand(grown);
  CHECK(after[0].folder != before.folder);
  CHECK(find_cell_folder(folder.path(), after[0]) == folder.path() / before.folder);
  CHECK_FALSE(find_cell_folder(folder.path(), after[1]));
}
