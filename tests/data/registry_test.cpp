// Every file in data/tasks is a registered task of the same name, with a test; and the other way
// round (an object file with only a registrar can be dropped by a linker without a word).
#include <filesystem>
#include <set>

#include "tests/data/task_check.h"

namespace longshot::test {
namespace {

TEST_CASE("tasks: files, registered names and tests are the same set", "[data]") {
  namespace fs = std::filesystem;
  const fs::path root = LONGSHOT_SOURCE_DIR;
  std::set<std::string> files;
  for (const auto& entry : fs::directory_iterator(root / "data/tasks"))
    if (entry.path().extension() == ".cpp") files.insert(entry.path().stem().string());
  const auto names = Registry<Task>::instance().names();
  CHECK(std::set<std::string>(names.begin(), names.end()) == files);
  for (const std::string& name : files) {
    INFO(name);
    CHECK(fs::exists(root / "tests/data/tasks" / (name + "_test.cpp")));
  }
  CHECK(files.size() >= 28);
}

TEST_CASE("tasks: unknown names and foreign options say what would be right", "[data]") {
  CHECK_THROWS_WITH(make("reverse_strng"), ContainsSubstring("reverse_string"));
  CHECK_THROWS_WITH(
      make("even_pairs", "symbols = 3"),
      ContainsSubstring("test.toml:1") && ContainsSubstring("is an option of task copy"));
  CHECK_THROWS_AS(make("copy", "symbol = 3"), UsageError);
}

TEST_CASE("tasks: lengths beyond the random streams' 22 bits are refused", "[data]") {
  const auto task = make("even_pairs");
  Example example;
  CHECK_THROWS_WITH(task->example({1, Split::test, int64_t(1) << 22, 0, 0}, example),
                    ContainsSubstring("4194304"));
}

TEST_CASE("tasks: an in-range plan covers the training lengths evenly", "[data]") {
  const auto task = make("even_pairs");
  // 8 samples on 4 lengths: two each.
  CHECK(task->in_range(Split::test, 1, 4, 8) ==
        std::vector<LengthShare>{{1, 2}, {2, 2}, {3, 2}, {4, 2}});
  // 2 samples on 4 lengths: the quartiles' middles, 1 + floor(1) and 1 + floor(3).
  CHECK(task->in_range(Split::test, 1, 4, 2) == std::vector<LengthShare>{{2, 1}, {4, 1}});
  int64_t total = 0, most = 0, least = 1000;
  for (const LengthShare& share : task->in_range(Split::test, 1, 40, 512)) {
    total += share.samples;
    most = std::max(most, share.samples), least = std::min(least, share.samples);
  }
  CHECK(total == 512);
  CHECK(most - least <= 1);
  // As counted one sample at a time, and without counting where the samples are many.
  for (const int64_t range : {1, 2, 3, 7, 40, 1000})
    for (const int64_t samples : {1, 2, 3, 6, 7, 8, 41, 512}) {
      std::vector<LengthShare> expected;
      for (int64_t i = 0; i < samples; ++i) {
        const int64_t length = 5 + (2 * i + 1) * range / (2 * samples);
        if (expected.empty() || expected.back().length != length) expected.push_back({length, 0});
        ++expected.back().samples;
      }
      CHECK(task->in_range(Split::test, 5, 4 + range, samples) == expected);
    }
  CHECK(task->in_range(Split::test, 1, 2, int64_t(1) << 62) ==
        std::vector<LengthShare>{{1, int64_t(1) << 61}, {2, int64_t(1) << 61}});
  CHECK(task->in_range(Split::test, 5, 5, 3) == std::vector<LengthShare>{{5, 3}});
}

}  // namespace
}  // namespace longshot::test
