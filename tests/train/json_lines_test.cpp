#include "train/json_lines.h"

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "core/error.h"
#include "core/files.h"
#include "tests/catch.h"
#include "train/progress.h"

using namespace longshot;

TEST_CASE("JSON objects keep order and digits; what is not finite is null", "[json_lines]") {
  const std::string text = JsonObject()
                               .add("step", int64_t(3))
                               .add("loss", 0.1)
                               .add("bad", std::nan(""))
                               .add("worse", -INFINITY)
                               .add("yes", true)
                               .add("text", std::string_view("a\"b\\c\n"))
                               .text();
  CHECK(
      text ==
      R"({"step": 3, "loss": 0.1, "bad": null, "worse": null, "yes": true, "text": "a\"b\\c\u000a"})");
  CHECK(nlohmann::json::parse(text)["text"] == "a\"b\\c\n");
  CHECK(JsonObject().text() == "{}");
  CHECK(nlohmann::json::parse(json_number(0.1 + 0.2)).get<double>() == 0.1 + 0.2);
}

TEST_CASE("a lines file is cut back to what a checkpoint knows", "[json_lines]") {
  const std::string path =
      (std::filesystem::temp_directory_path() / fmt::format("longshot-lines-{}", getpid()))
          .string();
  std::filesystem::remove(path);
  int64_t after_first = 0;
  {
    JsonLines lines(path, 0);
    lines.write("{\"a\": 1}");
    after_first = lines.bytes();
    lines.write("{\"a\": 2}");
  }
  CHECK(after_first == 9);
  {
    JsonLines lines(path, after_first);
    lines.write("{\"a\": 3}");
  }
  CHECK(read_file(path) == "{\"a\": 1}\n{\"a\": 3}\n");
  // Shortened, cut within a line, deleted: what whole lines there are stay, and it goes on.
  const auto reopened = [&](int64_t keep_bytes) {
    JsonLines lines(path, keep_bytes);
    const int64_t kept = lines.bytes();
    lines.write("{}");
    return kept;
  };
  CHECK(reopened(1000) == 18);
  CHECK(read_file(path) == "{\"a\": 1}\n{\"a\": 3}\n{}\n");
  std::filesystem::resize_file(path, 14);
  CHECK(reopened(18) == 9);
  CHECK(read_file(path) == "{\"a\": 1}\n{}\n");
  CHECK(reopened(11) == 9);  // the lines are not those the checkpoint counted
  std::filesystem::remove(path);
  CHECK(reopened(18) == 0);
  CHECK(read_file(path) == "{}\n");
  std::filesystem::remove(path);
  CHECK_THROWS_WITH(JsonLines(path + "/no/folder", 0), ContainsSubstring("cannot write"));
}

TEST_CASE("a lines file that cannot be used holds nothing open", "[json_lines]") {
  const auto open_files = [] {
    const std::filesystem::directory_iterator all("/proc/self/fd");
    return std::distance(begin(all), end(all));
  };
  const auto before = open_files();
  for (int i = 0; i < 5; ++i)
    CHECK_THROWS_WITH(JsonLines("/dev/full", 0), ContainsSubstring("/dev/full"));
  CHECK(open_files() == before);
}

TEST_CASE("durations read like a person would say them", "[progress]") {
  CHECK(format_duration(1.234) == "1.2 s");
  CHECK(format_duration(42.4) == "42 s");
  CHECK(format_duration(185) == "3 min 05 s");
  CHECK(format_duration(7800) == "2 h 10 min");
  CHECK(format_duration(NAN) == "?");
}
