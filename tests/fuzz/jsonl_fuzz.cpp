#include "tests/fuzz/data_targets.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  longshot::fuzz::jsonl(data, size);
  return 0;
}
