// The configs of the speed benchmark are the table that docs/performance.md reports on.
#include "data/task.h"
#include "experiments/load.h"
#include "experiments/run_cell.h"
#include "experiments/sweep_plan.h"
#include "tests/catch.h"

using namespace longshot;

namespace {

struct Row {
  const char* name;
  int64_t vocabulary, dim, heads, ffn, layers, batch, length;
};

RunConfig load(const std::string& name) {
  return load_run(std::string(LONGSHOT_SOURCE_DIR) + "/bench/configs/" + name + ".toml");
}

TEST_CASE("bench configs: the four models", "[experiments]") {
  const Row rows[] = {{"tiny", 16, 64, 8, 256, 5, 128, 40},
                      {"small", 64, 128, 4, 512, 4, 64, 64},
                      {"medium", 256, 256, 8, 1024, 6, 16, 256},
                      {"base", 256, 512, 8, 2048, 6, 8, 512}};
  for (const Row& row : rows) {
    INFO(row.name);
    const RunConfig config = load(row.name);
    const auto task = make_task(config.task.type, config.task.options);
    CHECK(task->spec().input_vocabulary == row.vocabulary);
    CHECK(task->spec().output_classes == row.vocabulary);
    CHECK(config.model.dim == row.dim);
    CHECK(config.model.heads == row.heads);
    CHECK(config.model.ffn == row.ffn);
    CHECK(config.model.layers == row.layers);
    CHECK(config.model.norm == "pre");
    CHECK(config.model.activation == "gelu");
    CHECK(config.model.dropout == 0.0);
    CHECK_FALSE(config.model.causal);
    CHECK(config.encoding.type == "learned");
    CHECK(config.train.optimizer == "adamw");
    CHECK(config.train.batch == row.batch);
    CHECK(config.train.accumulate == 1);
    const LengthOptions lengths = config.train.lengths.resolve(config.train.steps, *task);
    CHECK(lengths.low() == row.length);
    CHECK(lengths.high() == row.length);
    CHECK(task->model_length(lengths.high()) == row.length);
  }
}

TEST_CASE("bench configs: tiny's step is 8.2 GFLOP", "[experiments]") {
  const RunConfig config = load("tiny");
  // 6 * 5120 * (5 * (16384 + 32768) + 1024) = 7581204480, 12 * 5 * 128 * 1600 * 64 = 786432000
  CHECK(step_operations(config.model, 16, 128, 40) == 7581204480.0 + 786432000.0);
}

TEST_CASE("bench configs: paper is the encoder of Ruoss et al.", "[experiments]") {
  const RunConfig config = load("paper");
  CHECK(config.task.type == "reverse_string");
  CHECK(config.model.dim == 64);
  CHECK(config.model.layers == 5);
  CHECK(config.model.heads == 8);
  CHECK(config.model.ffn == 256);
  CHECK(config.model.norm == "post");
  CHECK(config.model.activation == "relu");
  CHECK(config.model.dropout == 0.1);
  CHECK(config.train.batch == 128);
  const auto task = make_task(config.task.type, config.task.options);
  const LengthOptions lengths = config.train.lengths.resolve(config.train.steps, *task);
  CHECK(lengths.draw == "batch");
  CHECK(lengths.low() == 1);
  CHECK(lengths.high() == 40);
  CHECK(task->model_length(40) == 80);  // placeholders included
}

}  // namespace
