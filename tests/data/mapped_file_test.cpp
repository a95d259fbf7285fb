#include "data/mapped_file.h"

#include "core/error.h"
#include "tests/catch.h"
#include "tests/data/temporary_file.h"

namespace longshot::test {
namespace {

std::string text_of(const MappedFile& file) {
  return {file.bytes().begin(), file.bytes().end()};
}

TEST_CASE("mapped file: any bytes, zero and newline included", "[data]") {
  const std::string content("a\0\n\xff z", 6);
  const TemporaryFile file(content);
  const MappedFile mapped(file.path());
  CHECK(text_of(mapped) == content);
}

TEST_CASE("mapped file: empty files have no bytes", "[data]") {
  const TemporaryFile file("");
  CHECK(MappedFile(file.path()).bytes().empty());
  CHECK(MappedFile().bytes().empty());
}

TEST_CASE("mapped file: moves hand the bytes over", "[data]") {
  const TemporaryFile first("one"), second("two");
  MappedFile a(first.path());
  MappedFile b(std::move(a));
  CHECK(text_of(b) == "one");
  b = MappedFile(second.path());
  CHECK(text_of(b) == "two");
}

TEST_CASE("mapped file: what cannot be read is a usage error with its path", "[data]") {
  CHECK_THROWS_AS(MappedFile("/nonexistent/corpus.txt"), UsageError);
  CHECK_THROWS_WITH(
      MappedFile("/nonexistent/corpus.txt"),
      ContainsSubstring("/nonexistent/corpus.txt") && ContainsSubstring("No such file"));
  const std::string directory = std::filesystem::temp_directory_path().string();
  CHECK_THROWS_WITH(MappedFile(directory), ContainsSubstring("not a regular file"));
}

}  // namespace
}  // namespace longshot::test
