// Clipping and AdamW, CUDA against the CPU; which steps are skipped.
#include "tests/cuda/devices.h"
#include "tests/cuda/step_state.h"

using namespace longshot;
using longshot::test::Devices;
using longshot::test::step_state;

TEST_CASE("cuda: clip and AdamW over several steps", "[cuda]") {
  const bool coupled = GENERATE(false, true);
  const double max_norm = GENERATE(0.0, 1.0);
  Devices d;
  const int64_t n = 3001, decayed = 1700;
  const auto state = step_state(d, 1), parameter = d.random(n), m = d.random(n, 0, 0),
             v = d.random(n, 0, 0);
  const auto update = d.put(std::vector<UpdateState>(1));
  for (int step = 0; step < 3; ++step) {
    const auto gradient = d.random(n);
    d.run([&](Backend& b, int s) {
      auto* u = static_cast<UpdateState*>(update[s]);
      const auto* st = static_cast<const StepState*>(state[s]);
      b.clip({.n = n, .gradient = gradient[s], .max_norm = max_norm, .state = st, .update = u});
      b.adam({.n = n,
              .decayed = decayed,
              .parameter = parameter[s],
              .gradient = gradient[s],
              .first_moment = m[s],
              .second_moment = v[s],
              .weight_decay = 0.1,
              .coupled = coupled,
              .state = st,
              .update = u});
    });
  }
  d.check(parameter, "parameter");
  d.check(m, "first moment");
  d.check(v, "second moment");
  const auto a = d.read<UpdateState>(update, 0)[0], b = d.read<UpdateState>(update, 1)[0];
  CHECK(b.squared_norm == Approx(a.squared_norm).epsilon(1e-6));
  CHECK(b.scale == Approx(a.scale).epsilon(1e-6));
  CHECK(b.adam_step == 3);
  CHECK(b.skipped_steps == 0);
}

TEST_CASE("cuda: a step without targets or with a bad gradient is skipped", "[cuda]") {
  const int fault = GENERATE(0, 1, 2);  // no targets, NaN, infinity
  Devices d;
  const int64_t n = 70;
  const auto state = step_state(d, 1, fault == 0 ? 0 : 5), parameter = d.random(n);
  const auto before = d.read(parameter, 1);
  std::vector<float> g(size_t(n), 0.5f);
  if (fault == 1) g[33] = std::numeric_limits<float>::quiet_NaN();
  if (fault == 2) g[69] = std::numeric_limits<float>::infinity();
  const auto gradient = d.put(g), m = d.random(n), v = d.random(n, 0, 1);
  const auto update = d.put(std::vector<UpdateState>(1));
  d.run([&](Backend& b, int s) {
    auto* u = static_cast<UpdateState*>(update[s]);
    const auto* st = static_cast<const StepState*>(state[s]);
    b.clip({.n = n, .gradient = gradient[s], .max_norm = 1, .state = st, .update = u});
    b.adam({.n = n,
            .parameter = parameter[s],
            .gradient = gradient[s],
            .first_moment = m[s],
            .second_moment = v[s],
            .state = st,
            .update = u});
  });
  CHECK(d.read(parameter, 1) == before);
  for (int side : {0, 1}) {
    const auto u = d.read<UpdateState>(update, side)[0];
    CHECK(u.skip == 1);
    CHECK(u.adam_step == 0);
    CHECK(u.skipped_steps == 1);
  }
}
