// Training steps recorded and replayed: equal bits with eager ones, nothing frozen, most steps
// replays; and the same losses as on the CPU.
#include <cmath>
#include <set>

#include "scheduler.h"
#include "tests/cuda/devices.h"
#include "tests/cuda/small_training.h"
#include "tests/support/every_method.h"

using namespace longshot;
using longshot::test::cpu_device;
using longshot::test::cuda_device;
using longshot::test::SmallTraining;
using longshot::test::TrainingCase;

namespace {

// Counts without computing: what is called in a recording is dropped, and a replay does nothing.
class CountingRecorder final : public testing::EveryMethod<CountingRecorder>, public StepRecorder {
 public:
  const char* name() const override { return "recorder"; }
  std::string description() const override { return name(); }
  bool supports(DType type) const override { return type == DType::f32; }
  bool host_accessible() const override { return false; }
  void* allocate(size_t bytes) override {
    CHECK_FALSE(recording_);
    return cpu_device().allocate(bytes);
  }
  void release(void* pointer, size_t bytes) override { cpu_device().release(pointer, bytes); }
  void copy_to_device(void* device, const void* host, size_t bytes) override {
    CHECK_FALSE(recording_);
    cpu_device().copy_to_device(device, host, bytes);
  }
  void copy_to_host(void* host, const void* device, size_t bytes) override {
    CHECK_FALSE(recording_);
    cpu_device().copy_to_host(host, device, bytes);
  }
  void copy_on_device(void* to, const void* from, size_t bytes) override {
    if (!recording_) cpu_device().copy_on_device(to, from, bytes);
  }
  void fill_zero(void* device, size_t bytes) override {
    if (!recording_) cpu_device().fill_zero(device, bytes);
  }
  void synchronize() override {}
  template <class Args>
  void call(const char*, void (Backend::*method)(const Args&), const Args& args) {
    if (!recording_) (cpu_device().*method)(args);
  }

  void begin_capture() override { recording_ = true; }
  bool end_capture(const std::string& signature, std::string*) override {
    recording_ = false;
    kept_.insert(signature);
    return true;
  }
  void replay(const std::string& signature) override { CHECK(kept_.count(signature) == 1); }
  void forget(const std::string& signature) override { kept_.erase(signature); }

 private:
  bool recording_ = false;
  std::set<std::string> kept_;
};

}  // namespace

TEST_CASE("training: captured and eager steps give equal bits", "[capture]") {
  TrainingCase options;
  options.model.dropout = 0.2;
  options.train.warmup = 4;
  options.train.schedule = "cosine";
  options.train.weight_decay = 0.1;
  SECTION("randomized positions, pre-norm") {
    options.positions = "type = 'randomized'\nmax = 16\ndraw = 'sequence'";
    options.model.norm = "pre";
  }
  SECTION("rotary, padded rows") {
    options.encoding = "type = 'rope'";
    options.train.lengths.draw = "sequence";
  }
  SECTION("a table of relative biases, two micro-batches") {
    options.encoding = "type = 't5'";
    options.train.accumulate = 2;
  }
  SECTION("composed attention, causal") {
    options.encoding = "type = 'shaw'";
    options.model.causal = true;
  }
  SmallTraining captured(cuda_device(), options);
  options.capture = false;
  SmallTraining eager(cuda_device(), options);
  CHECK(captured.run_all() == eager.run_all());
  CHECK(captured.parameters() == eager.parameters());
  INFO(captured.step.capture().reason());
  CHECK(captured.step.capture().active());
  const int64_t passes = options.train.steps * options.train.accumulate;
  CHECK(captured.step.capture().replayed_steps() * 2 > passes);
  CHECK(eager.step.capture().eager_steps() == passes);
}

TEST_CASE("training: replays draw and decay anew", "[capture]") {
  TrainingCase options;
  options.train.lengths.draw = "fixed";
  options.train.lr = 0;
  // The same batch again and again: with nothing to draw, the loss stays; with something, it moves.
  const auto distinct_losses = [&] {
    SmallTraining training(cuda_device(), options);
    std::set<double> losses;
    for (int64_t i = 0; i < 8; ++i) losses.insert(training.run(i, 0));
    CHECK(training.step.capture().replayed_steps() == 7);
    return losses.size();
  };
  CHECK(distinct_losses() == 1);
  options.model.dropout = 0.3;
  CHECK(distinct_losses() == 8);
  options.model.dropout = 0;
  options.positions = "type = 'randomized'\nmax = 500";
  CHECK(distinct_losses() == 8);

  options.train.lr = 0.01;
  options.train.schedule = "linear";  // to 0 at the last step
  options.train.steps = 6;
  SmallTraining training(cuda_device(), options);
  std::vector<std::vector<float>> states;
  for (int64_t i = 0; i < 6; ++i) {
    training.run(i, i);
    states.push_back(training.parameters());
  }
  CHECK(training.step.capture().replayed_steps() == 5);
  CHECK(states[3] != states[4]);
  CHECK(states[4] == states[5]);
  // Adam's step, which its bias corrections are computed from, counts the replays too.
  CHECK(training.optimizer.state().adam_step == 6);
}

TEST_CASE("training: memory given to someone else drops the recordings", "[capture]") {
  TrainingCase options;
  options.train.lengths.draw = "fixed";
  SmallTraining training(cuda_device(), options);
  for (int64_t i = 0; i < 4; ++i) training.run(i, i);
  CHECK(training.step.capture().captures() == 1);
  const Tensor table = training.context.make({16}, DType::f32, Lifetime::persistent, "new");
  for (int64_t i = 4; i < 8; ++i) training.run(i, i);
  CHECK(training.step.capture().captures() == 2);
  CHECK(training.step.capture().eager_steps() == 2);
}

TEST_CASE("training: of 2,000 steps of lengths 1 to 40 at least 90 % are replays", "[capture]") {
  CountingRecorder recorder;
  Context context(recorder);
  const std::unique_ptr<Task> task = make_task("reverse_string", ConfigTable());
  EncoderInterface interface;
  interface.input_vocabulary = task->spec().input_vocabulary;
  interface.output_classes = task->spec().output_classes;
  const TrainingCase small;
  Encoder encoder(context, small.model, parse_toml(small.encoding, "encoding"),
                  parse_toml(small.positions, "positions"), interface, 1);
  TrainerOptions
      options;  // the defaults, but for their size: lengths 1 to 40, an evaluation on the way
  options.train.steps = 2000;
  options.train.batch = 2;
  options.evaluate.in_range_samples = 40;
  options.show_progress = false;
  REQUIRE(options.train.lengths.max == 40);
  REQUIRE(options.train.evaluate_every == 1000);
  Trainer trainer(encoder, *task, options);
  CHECK(trainer.run().outcome == Outcome::done);
  const StepCapture& capture = trainer.step().capture();
  INFO(capture.eager_steps() << " eager, " << capture.captures() << " recorded");
  CHECK(capture.eager_steps() + capture.replayed_steps() == 2000);
  CHECK(capture.replayed_steps() >= 1800);
}

TEST_CASE("training: the same losses as on the CPU", "[cuda]") {
  TrainingCase options;
  options.model.dropout = 0.1;
  options.model.layers = 2;
  options.positions = "type = 'randomized'\nmax = 16";
  options.train.clip = 0.5;
  const std::vector<double> expected = SmallTraining(cpu_device(), options).run_all();
  const std::vector<double> got = SmallTraining(cuda_device(), options).run_all();
  CHECK(std::abs(expected.back() - expected.front()) > 0.01);  // it learns
  for (size_t i = 0; i < expected.size(); ++i) {
    INFO("step " << i << ": cpu " << expected[i] << ", cuda " << got[i]);
    CHECK(std::abs(got[i] - expected[i]) <= 1e-4 * std::max(1.0, std::abs(expected[i])));
  }
}

TEST_CASE("training: the order in which a device takes its threads changes no bit",
          "[capture][emulator]") {
  using emulator::Order;
  const Order before = emulator::options().order;
  const uint64_t seed = emulator::options().seed;
  TrainingCase options;
  options.model.dropout = 0.1;
  options.encoding = GENERATE("type = 'rope'", "type = 't5'", "type = 'learned'");
  options.positions = "type = 'randomized'\nmax = 16";
  options.train.steps = 6;
  std::vector<std::vector<float>> all;
  for (const auto& [order, key] : std::vector<std::pair<Order, uint64_t>>{
           {Order::forward, 1}, {Order::reverse, 1}, {Order::random, 2}, {Order::random, 3}}) {
    emulator::options().order = order;
    emulator::options().seed = key;
    SmallTraining training(cuda_device(), options);
    training.run_all();
    all.push_back(training.parameters());
  }
  emulator::options().order = before;
  emulator::options().seed = seed;
  for (const auto& each : all) CHECK(each == all.front());
}

TEST_CASE("training: on the CPU nothing is recorded", "[capture]") {
  SmallTraining training(cpu_device(), TrainingCase());
  training.run_all();
  CHECK(training.step.capture().eager_steps() == 24);
  CHECK(training.step.capture().reason() == "cpu does not record steps");
}
