// One file adds one: every file in nn/encodings, nn/positions and data/tasks registers the name it
// has, every registered name has its file, and nobody else knows those names.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "data/task.h"
#include "nn/position_sampler.h"
#include "nn/positional_encoding.h"
#include "tests/catch.h"

using namespace longshot;
namespace fs = std::filesystem;

namespace {

const fs::path kRoot = LONGSHOT_SOURCE_DIR;

std::string read(const fs::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<fs::path> sources(const std::vector<std::string>& folders) {
  std::vector<fs::path> result;
  for (const std::string& folder : folders) {
    if (!fs::exists(kRoot / folder)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(kRoot / folder)) {
      const std::string extension = entry.path().extension().string();
      if (extension == ".cpp" || extension == ".h" || extension == ".cu" || extension == ".cuh")
        result.push_back(entry.path());
    }
  }
  std::sort(result.begin(), result.end());
  return result;
}

std::set<std::string> stems(const std::string& folder) {
  std::set<std::string> result;
  for (const fs::path& path : sources({folder}))
    if (path.extension() == ".cpp") result.insert(path.stem().string());
  return result;
}

template <class Interface>
std::set<std::string> registered() {
  const std::vector<std::string> names = Registry<Interface>::instance().names();
  return {names.begin(), names.end()};
}

// Text without comments, so that prose may name what it likes.
std::string code_of(const std::string& text) {
  static const std::regex kComment(R"(//[^\n]*)");
  return std::regex_replace(text, kComment, "");
}

std::set<std::string> words_of(const std::string& code) {
  static const std::regex kWord("[A-Za-z_]\\w*");
  std::set<std::string> result;
  for (auto it = std::sregex_iterator(code.begin(), code.end(), kWord);
       it != std::sregex_iterator(); ++it)
    result.insert(it->str());
  return result;
}

// The class of the registration line in an encoding's or sampler's file.
std::string class_in(const fs::path& path) {
  static const std::regex kLine(R"(RegisterType<\s*\w+\s*,\s*(\w+)\s*,)");
  const std::string text = read(path);
  std::smatch match;
  REQUIRE(std::regex_search(text, match, kLine));
  return match[1];
}

}  // namespace

TEST_CASE("registry: encodings and samplers are the files present", "[registry]") {
  CHECK(registered<PositionalEncoding>() == stems("nn/encodings"));
  CHECK(registered<PositionSampler>() == stems("nn/positions"));
}

TEST_CASE("registry: every task file registers its tasks", "[registry]") {
  const std::set<std::string> names = registered<Task>();
  for (const fs::path& path : sources({"data/tasks"})) {
    if (path.extension() != ".cpp") continue;
    INFO(path.string());
    CHECK(names.count(path.stem().string()) == 1);
  }
  CHECK(names.size() == stems("data/tasks").size());
}

TEST_CASE("nobody names an encoding's or sampler's class or compares its type", "[registry]") {
  std::set<std::string> names = registered<PositionalEncoding>();
  for (const std::string& name : registered<PositionSampler>()) names.insert(name);
  std::string either;
  for (const std::string& name : names) either += (either.empty() ? "" : "|") + name;
  // A comparison with one of the names, of something called type, name or encoding: other options
  // may have values of the same spelling ("none").
  const std::regex comparison(
      "(type|name|encoding|positions|sampler)[\\w.>()\\[\\]-]*\\s*[!=]=\\s*\"(" + either +
      ")\"|\"(" + either + ")\"\\s*[!=]=");
  CHECK(std::regex_search("if (encoding.type == \"rope\")", comparison));
  CHECK_FALSE(std::regex_search("if (scaling == \"none\")", comparison));

  std::vector<std::pair<fs::path, std::string>> classes;
  for (const fs::path& path : sources({"nn/encodings", "nn/positions"}))
    if (path.extension() == ".cpp") classes.emplace_back(path, class_in(path));
  REQUIRE(classes.size() == names.size());

  for (const fs::path& path : sources({"core", "nn", "train", "data", "experiments", "cuda"})) {
    const std::string code = code_of(read(path));
    INFO(path.string());
    CHECK_FALSE(std::regex_search(code, comparison));
    const std::string folder = *fs::relative(path, kRoot).begin();
    if (folder == "core" || folder == "cuda") continue;  // they may not include nn anyway
    const std::set<std::string> words = words_of(code);
    for (const auto& [own, name] : classes)
      if (path != own) {
        INFO("class " << name << " of " << own.string());
        CHECK(words.count(name) == 0);
      }
  }
}
