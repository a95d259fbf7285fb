// Who may include whom: core <- nn <- train <- experiments; train also uses data; data uses core's
// small utilities only; cuda implements core's Backend and nobody includes it.
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/catch.h"

namespace fs = std::filesystem;

namespace {

const std::map<std::string, std::set<std::string>> kMayInclude = {
    {"core", {"core"}},
    {"nn", {"core", "nn"}},
    {"cuda", {"core", "cuda"}},
    {"data", {"core", "data"}},
    {"train", {"core", "nn", "data", "train"}},
    {"experiments", {"core", "nn", "data", "train", "experiments"}},
};
const std::set<std::string> kCoreForData = {
    "core/error.h", "core/random.h", "core/config.h", "core/config_toml.h", "core/registry.h",
    "core/files.h", "core/log.h",    "core/shape.h",  "core/parallel.h"};
// Heavy headers stay in .cpp files.
const std::vector<std::string> kOnlyInSources = {"nlohmann/", "toml++/", "CLI/"};

// What is wrong with a file including `header`; "" when nothing is.
std::string complaint(const std::string& file, const std::string& header) {
  const std::string folder = file.substr(0, file.find('/'));
  const std::string target = header.substr(0, header.find('/'));
  for (const std::string& heavy : kOnlyInSources)
    if (header.rfind(heavy, 0) == 0 && header != "nlohmann/json_fwd.hpp" && file.size() > 2 &&
        file.substr(file.size() - 2) == ".h")
      return "belongs into a .cpp file";
  // Its distributions differ from one standard library to the next (B35).
  if (header == "random") return "random numbers come from core/random.h";
  if (header.rfind("tests/", 0) == 0) return "tests are not part of the product";
  if (kMayInclude.count(target) == 0) return "";  // not ours
  if (kMayInclude.at(folder).count(target) == 0) return folder + " may not include " + target;
  if (folder == "data" && target == "core" && kCoreForData.count(header) == 0)
    return "data uses only core's small utilities";
  return "";
}

std::vector<std::string> included_by(const fs::path& path) {
  std::vector<std::string> result;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const size_t hash = line.find_first_not_of(" \t");
    if (hash == std::string::npos || line.compare(hash, 1, "#") != 0) continue;
    const size_t word = line.find("include", hash);
    if (word == std::string::npos) continue;
    const size_t open = line.find_first_of("\"<", word);
    const size_t close = open == std::string::npos ? open : line.find_first_of("\">", open + 1);
    if (close != std::string::npos) result.push_back(line.substr(open + 1, close - open - 1));
  }
  return result;
}

}  // namespace

TEST_CASE("include direction: the rule itself", "[includes]") {
  CHECK(complaint("nn/block.h", "core/ops.h").empty());
  CHECK_FALSE(complaint("core/ops.h", "nn/block.h").empty());
  CHECK_FALSE(complaint("nn/block.h", "data/batch.h").empty());
  CHECK_FALSE(complaint("data/task.h", "core/tensor.h").empty());
  CHECK(complaint("data/task.h", "core/random.h").empty());
  CHECK_FALSE(complaint("train/trainer.h", "experiments/run_folder.h").empty());
  CHECK_FALSE(complaint("train/trainer.h", "cuda/kernels.h").empty());
  CHECK_FALSE(complaint("train/metrics.h", "nlohmann/json.hpp").empty());
  CHECK(complaint("train/metrics.cpp", "nlohmann/json.hpp").empty());
  CHECK(complaint("train/metrics.cpp", "vector").empty());
  CHECK_FALSE(complaint("data/task.h", "random").empty());
}

TEST_CASE("include direction: the whole tree", "[includes]") {
  const fs::path root = LONGSHOT_SOURCE_DIR;
  int files = 0, includes = 0;
  for (const auto& [folder, allowed] : kMayInclude) {
    if (!fs::exists(root / folder)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      const std::string extension = entry.path().extension().string();
      if (extension != ".h" && extension != ".cpp" && extension != ".cu" && extension != ".cuh")
        continue;
      ++files;
      const std::string file = fs::relative(entry.path(), root).generic_string();
      for (const std::string& header : included_by(entry.path())) {
        ++includes;
        INFO(file << " includes " << header);
        CHECK(complaint(file, header) == "");
      }
    }
  }
  CHECK(files > 50);
  CHECK(includes > 200);
}
