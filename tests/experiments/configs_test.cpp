// Every config that comes with the program loads, resolves, and describes cells that can run.
#include <filesystem>
#include <set>

#include "core/cpu/cpu_backend.h"
#include "core/files.h"
#include "experiments/check_run.h"
#include "experiments/idle_keys.h"
#include "experiments/load.h"
#include "experiments/sweep.h"
#include "tests/catch.h"
#include "tests/experiments/program.h"

using namespace longshot;

namespace {

std::vector<std::string> shipped_configs() {
  std::vector<std::string> files;
  for (const char* folder : {"experiments/configs", "bench/configs"}) {
    const std::filesystem::path path = std::filesystem::path(LONGSHOT_SOURCE_DIR) / folder;
    if (!std::filesystem::exists(path)) continue;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path))
      if (entry.path().extension() == ".toml") files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

TEST_CASE("every shipped config loads, and every cell of it can run") {
  const longshot_test::Folder folder;
  std::string text;
  for (int i = 0; i < 20000; ++i) text += "a line of text\n";
  const std::string corpus = folder.write("corpus.txt", text);
  const auto backend = make_cpu_backend();
  Context context(*backend);
  const std::vector<std::string> files = shipped_configs();
  CHECK(files.size() >= 10);
  for (const std::string& file : files) {
    INFO(file);
    // A config of text names no file of its own: any will do.
    const bool needs_corpus = read_file(file).find("type = \"text\"") != std::string::npos;
    std::vector<std::string> overrides;
    if (needs_corpus) overrides.push_back("task.corpus=" + corpus);
    const std::vector<Cell> cells = expand_sweep(load_config({file}, overrides), "cpu");
    CHECK_FALSE(cells.empty());
    for (const Cell& cell : cells) {
      CHECK_NOTHROW(check_run(cell.config, context));
      CHECK(idle_keys(cell.config).empty());
    }
  }
}

TEST_CASE("an overlay is named after the encoding it chooses") {
  const std::filesystem::path folder = LONGSHOT_SOURCE_DIR "/experiments/configs/encodings";
  std::set<std::string> present;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().stem().string();
    CHECK(load_run(entry.path().string()).encoding.type == name);
    present.insert(name);
  }
  CHECK(present.size() >= 11);
}
