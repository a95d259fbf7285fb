// The profiler counts what is called, passes everything on unchanged, and its parts make up the
// whole.
#include "experiments/profiling_backend.h"

#include <chrono>
#include <vector>

#include "core/config_toml.h"
#include "core/cpu/cpu_backend.h"
#include "data/batcher.h"
#include "experiments/load.h"
#include "experiments/profile_table.h"
#include "experiments/run_cell.h"
#include "tests/catch.h"
#include "train/trainer.h"

using namespace longshot;

namespace {

const OperationTime* find(const std::vector<OperationTime>& times, const std::string& name) {
  for (const OperationTime& each : times)
    if (each.name == name) return &each;
  return nullptr;
}

const OperationTime& time_of(const std::vector<OperationTime>& times, const std::string& name) {
  const OperationTime* found = find(times, name);
  INFO(name);
  REQUIRE(found != nullptr);
  return *found;
}

GemmArgs product(const std::vector<float>& a, const std::vector<float>& b, std::vector<float>& c) {
  GemmArgs args;  // (3, 2) (2, 4)
  args.rows = 3, args.inner = 2, args.columns = 4;
  args.a = a.data(), args.lda = 2;
  args.b = b.data(), args.ldb = 4;
  args.c = c.data(), args.ldc = 4;
  return args;
}

TEST_CASE("profiler: matrix products by kind and weight, operations counted", "[experiments]") {
  ProfilingBackend profiler(make_cpu_backend());
  const std::vector<float> a{1, 2, 3, 4, 5, 6}, b{1, 0, 2, 0, 0, 1, 0, 2};
  std::vector<float> c(12, -1.0f);
  profiler.gemm(product(a, b, c));  // not recording yet
  CHECK(profiler.times().empty());
  CHECK(c == std::vector<float>{1, 2, 2, 4, 3, 4, 6, 8, 5, 6, 10, 12});

  profiler.start();
  GemmArgs args = product(a, b, c);
  profiler.gemm(args);
  args.rows = 2;  // fewer tokens, same weight: same line
  profiler.gemm(args);
  args.batch = 3, args.rows = 1, args.stride_a = 2, args.stride_c = 4;
  profiler.gemm(args);
  profiler.stop();
  profiler.gemm(product(a, b, c));

  const auto times = profiler.times();
  CHECK(times.size() == 2);
  const OperationTime& single = time_of(times, "gemm a b, 2 x 4");
  CHECK(single.calls == 2);
  CHECK(single.limit == Limit::arithmetic);
  CHECK(single.operations == 2 * 3 * 2 * 4 + 2 * 2 * 2 * 4);
  CHECK(single.bytes == 0);
  const OperationTime& batched = time_of(times, "gemm a b, batched");
  CHECK(batched.calls == 1);
  CHECK(batched.operations == 3 * 2 * 1 * 2 * 4);

  profiler.start();  // from nothing
  CHECK(profiler.times().empty());
  CHECK(profiler.total_seconds() == 0);
}

TEST_CASE("profiler: bytes count each array once, and twice where it is added to",
          "[experiments]") {
  ProfilingBackend profiler(make_cpu_backend());
  std::vector<float> x(10, 1.0f), y(10, 2.0f);
  AffineArgs affine;
  affine.n = 10, affine.x = x.data(), affine.y = y.data(), affine.alpha = 3.0;
  profiler.start();
  profiler.affine(affine);
  CHECK(y == std::vector<float>(10, 3.0f));
  CHECK(time_of(profiler.times(), "affine").bytes == 2 * 40);
  affine.accumulate = true;
  profiler.affine(affine);
  CHECK(y == std::vector<float>(10, 6.0f));
  CHECK(time_of(profiler.times(), "affine").bytes == 2 * 40 + 3 * 40);
  CHECK(time_of(profiler.times(), "affine").limit == Limit::bandwidth);

  ActivationBackwardArgs bias;  // only the bias gradient: dy is read, 5 sums are written
  std::vector<float> dbias(5);
  bias.rows = 2, bias.columns = 5, bias.dy = x.data(), bias.dbias = dbias.data();
  profiler.activation_backward(bias);
  CHECK(dbias == std::vector<float>(5, 2.0f));
  CHECK(time_of(profiler.times(), "activation_backward").bytes == 40 + 20);

  NormArgs norm;  // a sum of two, kept, and its norm: four arrays of (2, 5) and two numbers a row
  std::vector<float> sum(10), mean(2), inverse(2);
  norm.rows = 2, norm.columns = 5, norm.x = x.data(), norm.residual = x.data(),
  norm.sum = sum.data();
  norm.y = y.data(), norm.mean = mean.data(), norm.inverse_deviation = inverse.data();
  profiler.norm(norm);
  CHECK(sum == std::vector<float>(10, 2.0f));
  CHECK(time_of(profiler.times(), "norm").bytes == 4 * 40 + 4 * 4);
}

TEST_CASE("profiler: causal attention counts half the products, backward five for two",
          "[experiments]") {
  ProfilingBackend profiler(make_cpu_backend());
  // B 1, H 2, T 3, D 4
  std::vector<float> q(24, 0.5f), out(24), log_sum_exp(6), dout(24, 1.0f), dq(24);
  AttentionArgs args;
  args.shape = {1, 2, 3, 3, 4};
  args.query = args.key = args.value = q.data();
  args.out = out.data(), args.log_sum_exp = log_sum_exp.data();
  profiler.start();
  profiler.attention(args);
  CHECK(time_of(profiler.times(), "attention").operations == 2 * 2 * (2 * 3 * 3 * 4));
  AttentionBackwardArgs backward;
  backward.forward = args;
  backward.dout = dout.data(), backward.dquery = dq.data();
  profiler.attention_backward(backward);
  CHECK(time_of(profiler.times(), "attention_backward").operations == 5 * 2 * (2 * 3 * 3 * 4));
  args.causal = true;
  profiler.start();
  profiler.attention(args);
  CHECK(time_of(profiler.times(), "attention").operations == 2 * 3 * 3 * 4 * 2);
}

const char* kModel =
    "task = { type = 'identity', symbols = 6 }\nencoding = { type = 'learned', capacity = 7 }\n"
    "device = { type = 'cpu' }\n"
    "[model]\ndim = 8\nlayers = 3\nheads = 2\nffn = 12\nnorm = 'pre'\n"
    "[train]\nbatch = 4\nlengths = { draw = 'fixed', min = 7, max = 7 }\n";

struct Trained {
  std::vector<float> losses;
  std::vector<OperationTime> times;
  double measured = 0, wall = 0;
};

Trained train(bool profiled) {
  ConfigTable table;
  merge_config(table, parse_toml(kModel, "a.toml"), Schema::installed());
  const RunConfig config = resolve(table);
  BuiltModel built = build_model(config, false, profiled ? +[](std::unique_ptr<Backend> backend) {
    return std::unique_ptr<Backend>(std::make_unique<ProfilingBackend>(std::move(backend)));
  } : nullptr);
  Optimizer optimizer(built.encoder->parameters(), config.train);
  TrainingStep step(*built.encoder, optimizer, config.train, 1);
  const Tensor loss = built.context->make({1}, DType::f32, Lifetime::persistent, "loss");
  Batcher batcher(*built.task);
  std::vector<Batch> batches(1);
  auto* profiler = dynamic_cast<ProfilingBackend*>(built.backend.get());
  REQUIRE((profiler != nullptr) == profiled);
  Trained result;
  for (int64_t i = 0; i < 3; ++i) {
    batcher.training(1, uint64_t(i), config.train.lengths, 4, 0, 4, batches[0]);
    if (profiled && i == 1) profiler->start();  // two of three steps
    const auto begin = std::chrono::steady_clock::now();
    step.run(i, batches, loss.data());
    if (i >= 1)
      result.wall +=
          std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (profiled) profiler->stop();
    result.losses.push_back(loss.to_host<float>()[0]);
    if (profiled && i >= 1) {
      for (const OperationTime& each : profiler->times()) result.times.push_back(each);
      result.measured += profiler->total_seconds();
      profiler->start();
    }
  }
  return result;
}

TEST_CASE("profiler: a training step's calls and operations are those of the formula",
          "[experiments]") {
  const Trained plain = train(false), profiled = train(true);
  CHECK(profiled.losses == plain.losses);  // the same bits

  int64_t products = 0, feed_forwards = 0, attentions = 0, updates = 0, clips = 0;
  double product_operations = 0, feed_forward_operations = 0, attention_operations = 0;
  double seconds = 0;
  for (const OperationTime& each : profiled.times) {
    seconds += each.seconds;
    if (each.name.rfind("gemm", 0) == 0)
      products += each.calls, product_operations += each.operations;
    if (each.name.rfind("feed_forward", 0) == 0)
      feed_forwards += each.calls, feed_forward_operations += each.operations;
    if (each.name.rfind("attention", 0) == 0)
      attentions += each.calls, attention_operations += each.operations;
    if (each.name == "adam") updates += each.calls;
    if (each.name == "clip") clips += each.calls;
  }
  CHECK(updates == 2);  // two profiled steps
  CHECK(clips == 2);
  CHECK(attentions == 2 * 2 * 3);          // forward and backward of three layers
  CHECK(feed_forwards == 2 * 2 * 3);       // the same
  CHECK(products == 2 * 3 * (2 * 3 + 1));  // three products for two weights a layer and the head
  const double tokens = 4 * 7;
  CHECK(product_operations == 2 * 6 * tokens * (3 * 4 * 8 * 8 + 8 * 6));
  // Two products forward, five backward: the first is made again.
  CHECK(feed_forward_operations == 2 * 3 * (2 + 5) * 2 * tokens * 8 * 12);
  // 4 B T^2 d forward, 10 backward (the logits are made again), for each layer
  CHECK(attention_operations == 2 * (4 + 10) * 3 * tokens * 7 * 8);
  CHECK(seconds == Approx(profiled.measured));
  CHECK(profiled.measured > 0);
  CHECK(profiled.measured <= profiled.wall);
}

TEST_CASE("profile table: shares of the step and of each operation's own limit", "[experiments]") {
  StepProfile profile;
  profile.steps = 10;
  profile.seconds = 2.0;
  profile.operation_peak = 100e9;
  profile.bandwidth = 20e9;
  profile.operations = {{"gemm a b, 2 x 4", Limit::arithmetic, 30, 1.0, 50e9, 0},
                        {"adam", Limit::bandwidth, 10, 0.5, 0, 5e9},
                        {"synchronize", Limit::none, 10, 0.1, 0, 0}};
  CHECK(profile.host_seconds() == Approx(0.4));
  CHECK(profile.share_of_limit(profile.operations[0]) == Approx(0.5));
  CHECK(profile.share_of_limit(profile.operations[1]) == Approx(0.5));
  CHECK(profile.share_of_limit(profile.operations[2]) < 0);
  const std::string table = profile_table(profile);
  INFO(table);
  CHECK_THAT(table, ContainsSubstring("100.0000   50.0 %     50.0 GFLOP/s    50.0 %"));
  CHECK_THAT(table, ContainsSubstring("50.0000   25.0 %     10.0 GB/s       50.0 %"));
  CHECK_THAT(table, ContainsSubstring("40.0000   20.0 %\n"));  // host work
  const std::string json = profile_json(profile);
  CHECK_THAT(json, ContainsSubstring("\"operation\": \"adam\", \"calls_per_step\": 1"));
  CHECK_THAT(json, ContainsSubstring("\"share_of_limit\": 0.5"));
  CHECK_THAT(json, ContainsSubstring("\"operation\": \"host\""));
}

}  // namespace
