#include <filesystem>
#include <unistd.h>

#include "tests/fuzz/safetensors_target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::string path =
      (std::filesystem::temp_directory_path() / ("safetensors-fuzz-" + std::to_string(::getpid())))
          .string();
  longshot::fuzz::safetensors(data, size, path);
  return 0;
}
