#include "data/prefetch.h"

#include <chrono>

#include "tests/data/task_check.h"

namespace longshot::test {
namespace {

PrefetchPlan plan_of(uint64_t first, uint64_t end) {
  PrefetchPlan plan;
  plan.seed = 4;
  plan.lengths.max = 12;
  plan.batch = 3;
  plan.accumulate = 2;
  plan.first_step = first;
  plan.end_step = end;
  return plan;
}

TEST_CASE("prefetch: hands out exactly the batches of the steps, in order", "[data]") {
  const auto task = make("binary_multiplication");
  Batcher batcher(*task);
  Batch wanted;
  for (const int64_t depth : {2, 3, 7}) {
    PrefetchPlan plan = plan_of(5, 25);
    plan.depth = depth;
    Prefetcher prefetcher(*task, plan);
    for (uint64_t step = 5; step < 25; ++step)
      for (int64_t micro = 0; micro < 2; ++micro) {
        const Batch& batch = prefetcher.next();
        // Let the thread run ahead while this batch is in use: it must not be overwritten.
        if (step % 8 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
        batcher.training(4, step, plan.lengths, 6, 3 * micro, 3, wanted);
        REQUIRE(batch.tokens == wanted.tokens);
        REQUIRE(batch.targets == wanted.targets);
        REQUIRE(batch.first_index == wanted.first_index);
      }
    CHECK_THROWS_WITH(prefetcher.next(), ContainsSubstring("40 batches"));
  }
}

TEST_CASE("prefetch: can be dropped at any moment", "[data]") {
  const auto task = make("even_pairs");
  for (int taken = 0; taken < 6; ++taken) {
    Prefetcher prefetcher(*task, plan_of(0, 1000000));
    for (int i = 0; i < taken; ++i) prefetcher.next();
  }
  Prefetcher empty(*task, plan_of(7, 7));
  CHECK_THROWS_AS(empty.next(), Error);
}

// Fails at example 30.
class Failing : public Task {
 public:
  TaskSpec spec() const override {
    TaskSpec spec;
    spec.output = Output::first_token;
    spec.output_classes = 1;
    return spec;
  }
  int64_t output_length(int64_t) const override { return 1; }
  void example(const ExampleKey& key, Example& out) const override {
    if (key.index == 30) throw UsageError("example 30 is broken");
    out.clear();
    out.input.push_back(1);
    out.predict(0);
  }
};

TEST_CASE("prefetch: an error arrives with its own batch, type kept", "[data]") {
  const Failing task;
  Prefetcher prefetcher(task, plan_of(0, 100));  // 3 rows a batch: example 30 is in batch 10
  for (int i = 0; i < 10; ++i) CHECK(prefetcher.next().rows == 3);
  CHECK_THROWS_AS(prefetcher.next(), UsageError);
  CHECK_THROWS_WITH(prefetcher.next(), "example 30 is broken");
}

TEST_CASE("prefetch: impossible plans are refused", "[data]") {
  const auto task = make("even_pairs");
  PrefetchPlan plan = plan_of(3, 2);
  CHECK_THROWS_AS(Prefetcher(*task, plan), Error);
  plan = plan_of(0, 2);
  plan.depth = 1;
  CHECK_THROWS_AS(Prefetcher(*task, plan), Error);
}

}  // namespace
}  // namespace longshot::test
