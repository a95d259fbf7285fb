// Prefetcher: prepares training batches in a background thread while the device works.
//
// Batches are pure functions of the step, so what the thread computes does not depend on timing.
// An exception in the thread is thrown by the next() that would have returned its batch.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "data/batcher.h"

namespace longshot {

struct PrefetchPlan {
  uint64_t seed = 0;
  LengthOptions lengths;
  int64_t batch = 1;        // rows of one micro-batch
  int64_t accumulate = 1;   // micro-batches of one optimizer step
  uint64_t first_step = 0;  // resumed runs start later
  uint64_t end_step = 0;    // no batch is prepared from here on
  int64_t depth = 3;        // batches held ready, the one in use included; at least 2
};

class Prefetcher {
 public:
  // `task` must outlive the prefetcher.
  Prefetcher(const Task& task, const PrefetchPlan& plan);
  ~Prefetcher();  // stops the thread; never blocks for longer than one batch takes
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  // The next micro-batch: step first_step micro 0, micro 1, ..., then the next step. Valid until
  // the next call. Throws Error past end_step.
  const Batch& next();

 private:
  void work(std::stop_token stop);

  PrefetchPlan plan_;
  Batcher batcher_;
  std::vector<Batch> ring_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  uint64_t total_ = 0;  // batches in the plan
  uint64_t made_ = 0;   // guarded by mutex_: batches finished by the thread
  uint64_t taken_ = 0;  // guarded by mutex_: batches returned by next()
  std::exception_ptr failure_;
  std::jthread thread_;  // last: joins before the rest dies
};

}  // namespace longshot
