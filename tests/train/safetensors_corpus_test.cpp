// The fuzzer's corpus of small inputs, replayed by the ordinary tests, every prefix of each too.
// The target aborts on a broken invariant.
#include <filesystem>
#include <unistd.h>

#include "core/files.h"
#include "tests/catch.h"
#include "tests/fuzz/safetensors_target.h"

namespace fs = std::filesystem;

TEST_CASE("fuzz corpus: safetensors", "[safetensors][fuzz]") {
  const std::string copy =
      (fs::temp_directory_path() / fmt::format("longshot-corpus-{}", getpid())).string();
  int files = 0;
  for (const auto& entry :
       fs::directory_iterator(LONGSHOT_SOURCE_DIR "/tests/fuzz/corpus/safetensors")) {
    const std::string content = longshot::read_file(entry.path().string());
    INFO(entry.path().string());
    const auto* bytes = reinterpret_cast<const uint8_t*>(content.data());
    for (size_t size = 0; size < content.size(); ++size)
      CHECK_NOTHROW(longshot::fuzz::safetensors(bytes, size, ""));
    CHECK_NOTHROW(longshot::fuzz::safetensors(bytes, content.size(), copy));
    ++files;
  }
  fs::remove(copy);
  CHECK(files >= 15);
}
