// A stand-in for libcuda.so.1: answers what the environment says.
#include <cstdlib>

namespace {
int number(const char* name) {
  const char* text = std::getenv(name);
  return text ? std::atoi(text) : 0;
}
}  // namespace

extern "C" int cuInit(unsigned) {
  return number("FAKE_CUDA_INIT");
}
extern "C" int cuDeviceGetCount(int* count) {
  *count = number("FAKE_CUDA_DEVICES");
  return 0;
}
