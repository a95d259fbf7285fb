// Time to make one training batch of every task at the paper's size: 128 rows, lengths uniform in
// 1 .. 40, one length a batch. It must stay under 2 % of the training step that the batch feeds
// (5 blocks, dim 64, batch 128: a few GFLOP, so tens of milliseconds on a CPU core), and the
// prefetcher hides it behind that step besides.
#include <benchmark/benchmark.h>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <unistd.h>

#include "data/batcher.h"

namespace longshot {
namespace {

constexpr int64_t kRows = 128;

void measure(benchmark::State& state, const Task& task) {
  LengthOptions lengths;
  const LengthOptions resolved = lengths.resolve(10000, task);
  Batcher batcher(task);
  Batch batch;
  uint64_t step = 0;
  int64_t tokens = 0;
  for (auto _ : state) {
    batcher.training(1, step++, resolved, kRows, 0, kRows, batch);
    benchmark::DoNotOptimize(batch.tokens.data());
    tokens += batch.rows * batch.length;
  }
  state.counters["tokens/s"] = benchmark::Counter(double(tokens), benchmark::Counter::kIsRate);
}

void generated(benchmark::State& state, const char* name) {
  const std::unique_ptr<Task> task = make_task(name, ConfigTable());
  measure(state, *task);
}

// Tasks that read files get one of 1 MB.
void from_file(benchmark::State& state, const char* name) {
  const std::string path = "/tmp/longshot_data_bench_" + std::to_string(::getpid());
  const bool lines = std::string(name) == "jsonl";
  {
    std::ofstream file(path, std::ios::binary);
    for (int i = 0; i < 16384; ++i) {
      const std::string digits = std::to_string(1000000 + i * 37 % 9000000);
      if (lines)
        file << "{\"input\": \"" << digits << "\", \"target\": \"" << digits << "\"}\n";
      else
        file << "a line of text with the number " << digits
             << " at its end ......................\n";
    }
  }
  ConfigTable table;
  const auto set = [&](const char* key) { table.set(key, ConfigValue(path, SourceLocation{})); };
  set(lines ? "train" : "corpus");
  if (lines) set("test");
  const std::unique_ptr<Task> task = make_task(name, table);
  std::remove(path.c_str());  // what is mapped stays readable
  measure(state, *task);
}

const bool kRegistered = [] {
  for (const char* name : {"even_pairs",
                           "modular_arithmetic",
                           "parity_check",
                           "cycle_navigation",
                           "stack_manipulation",
                           "reverse_string",
                           "modular_arithmetic_brackets",
                           "solve_equation",
                           "duplicate_string",
                           "missing_duplicate_string",
                           "odds_first",
                           "binary_addition",
                           "binary_multiplication",
                           "compute_sqrt",
                           "bucket_sort",
                           "copy",
                           "copy_repeat",
                           "copy_with_replacement",
                           "reverse",
                           "sorting",
                           "sum",
                           "addition",
                           "polynomial",
                           "first",
                           "parity",
                           "synthetic_text"})
    benchmark::RegisterBenchmark((std::string("data/batch/") + name).c_str(), generated, name)
        ->Unit(benchmark::kMicrosecond);
  for (const char* name : {"text", "jsonl"})
    benchmark::RegisterBenchmark((std::string("data/batch/") + name).c_str(), from_file, name)
        ->Unit(benchmark::kMicrosecond);
  return true;
}();

}  // namespace
}  // namespace longshot
