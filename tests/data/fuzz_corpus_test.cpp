// The fuzzers' corpus of small inputs, replayed by the ordinary tests: every input runs through its
// target (which aborts on a broken invariant), and so does every prefix of it.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "tests/catch.h"
#include "tests/fuzz/data_targets.h"

namespace longshot::test {
namespace {

void replay(const char* kind, void (*target)(const uint8_t*, size_t)) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(LONGSHOT_SOURCE_DIR) / "tests/fuzz/corpus" / kind;
  int files = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    std::ifstream stream(entry.path(), std::ios::binary);
    const std::vector<char> content((std::istreambuf_iterator<char>(stream)),
                                    std::istreambuf_iterator<char>());
    INFO(entry.path().string());
    const size_t step = content.size() / 64 + 1;
    for (size_t size = 0; size <= content.size(); size += step)
      CHECK_NOTHROW(target(reinterpret_cast<const uint8_t*>(content.data()), size));
    CHECK_NOTHROW(target(reinterpret_cast<const uint8_t*>(content.data()), content.size()));
    ++files;
  }
  CHECK(files >= 8);
}

TEST_CASE("fuzz corpus: JSON lines", "[data][fuzz]") {
  replay("jsonl", fuzz::jsonl);
}
TEST_CASE("fuzz corpus: text", "[data][fuzz]") {
  replay("text", fuzz::text);
}

}  // namespace
}  // namespace longshot::test
