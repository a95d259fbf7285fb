// Captured steps: equal bits with eager ones, nothing frozen, growth drops recordings, and a step
// that cannot be recorded stays eager with a reason.
#include "core/capture.h"

#include <algorithm>
#include <cuda_runtime.h>
#include <optional>
#include <utility>

#include "core/files.h"
#include "core/log.h"
#include "tests/cuda/devices.h"
#include "tests/data/temporary_file.h"

using namespace longshot;
using longshot::test::cuda_device;
using longshot::test::Devices;
using longshot::test::TemporaryFile;

namespace {

// A small step that uses everything which changes from step to step: the draws of dropout, the
// learning rate and Adam's bias correction.
struct Trained {
  std::vector<int32_t> parameters;
  int64_t eager, replayed, captures;
};
Trained train(bool capture, int steps, bool schedule = true, uint64_t seed = 5) {
  Devices d;
  const int64_t n = 96;
  const auto parameter = d.put(std::vector<float>(size_t(n), 1.0f));
  const auto gradient = d.put(std::vector<float>(size_t(n), 0.0f));
  const auto m = d.put(std::vector<float>(size_t(n), 0.0f)),
             v = d.put(std::vector<float>(size_t(n), 0.0f));
  const auto state = d.put(std::vector<StepState>(1));
  const auto update = d.put(std::vector<UpdateState>(1));
  Backend& b = d.other();
  StepCapture runner(b, capture);
  for (int step = 0; step < steps; ++step) {
    StepState values;
    values.seed = seed;
    values.step = uint32_t(step);
    values.training = 1;
    values.learning_rate = schedule ? 0.1f / float(1 + step) : 0.1f;
    values.target_count = 1;
    b.copy_to_device(state[1], &values, sizeof values);
    const int64_t length = step % 3 == 2 ? 64 : n;  // two shapes, in turn
    runner.run(std::to_string(length), 0, [&] {
      const auto* st = static_cast<const StepState*>(state[1]);
      auto* u = static_cast<UpdateState*>(update[1]);
      DropoutArgs drop{.n = length, .x = parameter[1], .y = gradient[1], .dropout = {}};
      drop.dropout = {0.5f, 3, 0, st};
      b.dropout(drop);
      b.clip({.n = length, .gradient = gradient[1], .max_norm = 1, .state = st, .update = u});
      b.adam({.n = length,
              .parameter = parameter[1],
              .gradient = gradient[1],
              .first_moment = m[1],
              .second_moment = v[1],
              .state = st,
              .update = u});
    });
  }
  return {d.read<int32_t>(parameter, 1), runner.eager_steps(), runner.replayed_steps(),
          runner.captures()};
}

}  // namespace

TEST_CASE("capture: captured and eager training give equal bits", "[capture]") {
  const Trained eager = train(false, 30), captured = train(true, 30);
  CHECK(eager.parameters == captured.parameters);
  CHECK(eager.eager == 30);
  // Each of the two shapes runs eagerly once, is recorded at its second occurrence and replayed
  // from then on (the recording itself runs as a replay).
  CHECK(captured.eager == 2);
  CHECK(captured.captures == 2);
  CHECK(captured.replayed == 28);
}

TEST_CASE("capture: the learning rate and the draws are not frozen", "[capture]") {
  // If a replay kept the recorded step's values, these would be equal.
  CHECK(train(true, 30).parameters != train(true, 30, false).parameters);
  CHECK(train(true, 30).parameters != train(true, 30, true, 6).parameters);
}

TEST_CASE("capture: memory that grew drops the recordings", "[capture]") {
  Devices d;
  const auto x = d.random(8), y = d.output(8);
  StepCapture runner(cuda_device(), true);
  const auto body = [&] { d.other().unary({.n = 8, .x = x[1], .y = y[1]}); };
  for (int64_t generation : {0, 0, 0, 1, 1, 1}) runner.run("8", generation, body);
  CHECK(runner.captures() == 2);
  CHECK(runner.eager_steps() == 2);
  CHECK(runner.replayed_steps() == 4);
}

TEST_CASE("capture: a step that waits or allocates stays eager, and the log says why, once",
          "[capture]") {
  const bool allocates = GENERATE(false, true);
  const TemporaryFile file("");
  std::optional<log::FileSink> sink(file.path());
  Devices d;
  const auto x = d.random(8), y = d.output(8);
  StepCapture runner(cuda_device(), true);
  for (int i = 0; i < 4; ++i) {
    runner.run("8", 0, [&] {
      d.other().unary({.op = Unary::square, .n = 8, .x = x[1], .y = y[1]});
      if (allocates) {
        void* memory = d.other().allocate(64);
        d.other().release(memory, 64);
      } else {
        d.other().synchronize();
      }
    });
  }
  CHECK_FALSE(runner.active());
  CHECK_THAT(runner.reason(), ContainsSubstring("captur"));
  CHECK(runner.eager_steps() == 4);
  CHECK(runner.replayed_steps() == 0);
  const auto in = d.read(x, 1), out = d.read(y, 1);
  for (size_t i = 0; i < 8; ++i) CHECK(out[i] == in[i] * in[i]);
  sink.reset();
  const std::string written = read_file(file.path());
  CHECK_THAT(written,
             ContainsSubstring("info this step cannot be captured, training stays eager: " +
                               runner.reason() + "\n"));
  CHECK(std::count(written.begin(), written.end(), '\n') == 1);
}

TEST_CASE("capture: off, or a backend that does not record", "[capture]") {
  StepCapture off(cuda_device(), false), cpu(longshot::test::cpu_device(), true);
  CHECK(off.reason() == "capture is switched off");
  CHECK(cpu.reason() == "cpu does not record steps");
  int calls = 0;
  for (int i = 0; i < 3; ++i) cpu.run("a", 0, [&] { ++calls; });
  CHECK(calls == 3);
}

TEST_CASE("capture: of many shapes those not met for longest are forgotten", "[capture]") {
  Devices d;
  const auto x = d.random(8), y = d.output(8);
  const long long before = emulator::counters().graphs;
  {
    StepCapture runner(cuda_device(), true, 3);
    const auto step = [&](const std::string& shape) {
      runner.run(shape, 0, [&] { d.other().unary({.n = 8, .x = x[1], .y = y[1]}); });
      return emulator::counters().graphs - before;
    };
    for (const char* shape : {"a", "b", "c"}) CHECK(step(shape) == 0);
    CHECK(step("a") == 1);
    CHECK(step("b") == 2);
    CHECK(step("c") == 3);
    CHECK(step("a") == 3);  // so that b is the oldest
    CHECK(step("d") == 2);
    CHECK(runner.shapes() == 3);
    CHECK(step("a") == 2);  // still recorded
    CHECK(runner.captures() == 3);
    CHECK(step("b") == 1);  // as new, in place of c
    CHECK(step("b") == 2);
    CHECK(runner.captures() == 4);
    for (int i = 0; i < 100; ++i) step(std::to_string(i));
    CHECK(runner.shapes() == 3);
    CHECK(step("99") == 1);
  }
  CHECK(emulator::counters().graphs == before);
}

TEST_CASE("capture: whatever a step throws while it is recorded, the recording ends", "[capture]") {
  Devices d;
  const auto x = d.random(8), y = d.output(8);
  StepCapture runner(cuda_device(), true);
  const auto body = [&] { d.other().unary({.n = 8, .x = x[1], .y = y[1]}); };
  runner.run("8", 0, body);
  bool thrown = false;
  runner.run("8", 0, [&] {
    body();
    if (!std::exchange(thrown, true)) throw 5;
  });
  CHECK(thrown);
  CHECK_FALSE(runner.active());
  d.other().synchronize();  // an error while a stream is being captured
}
