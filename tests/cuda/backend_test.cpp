// The backend as such: what it refuses, and in which words.
#include "tests/cuda/devices.h"

using namespace longshot;
using longshot::test::Devices;

TEST_CASE("cuda: only f32 is taken, and the sentence says so", "[cuda]") {
  Devices d;
  const auto x = d.random(4);
  CHECK_THROWS_WITH(d.other().unary({.dtype = DType::f64, .n = 2, .x = x[1], .y = x[1]}),
                    ContainsSubstring("cuda: unary: only f32 runs on this device, got f64"));
  CHECK_FALSE(d.other().supports(DType::f64));
  CHECK(d.other().supports(DType::f32));
  CHECK_FALSE(d.other().host_accessible());
}

TEST_CASE("cuda: out of memory says how much was asked for, and the device goes on", "[cuda]") {
  Devices d;
  CHECK_THROWS_WITH(d.other().allocate(size_t(1) << 40),
                    ContainsSubstring("cuda: out of device memory: 1099511627776 bytes asked for"));
  const auto x = d.random(4), y = d.output(4);
  d.run([&](Backend& b, int s) { b.unary({.n = 4, .x = x[s], .y = y[s]}); });
  d.check(y, "after running out");
}
