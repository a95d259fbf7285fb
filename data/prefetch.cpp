#include "data/prefetch.h"

#include <system_error>
#include <utility>

#include "core/error.h"

namespace longshot {

Prefetcher::Prefetcher(const Task& task, const PrefetchPlan& plan) : plan_(plan), batcher_(task) {
  LONGSHOT_CHECK(plan.depth >= 2, "prefetch: depth {} leaves no batch to prepare", plan.depth);
  LONGSHOT_CHECK(plan.batch >= 1 && plan.accumulate >= 1, "prefetch: batch {}, accumulate {}",
                 plan.batch, plan.accumulate);
  LONGSHOT_CHECK(plan.first_step <= plan.end_step, "prefetch: steps {} to {}", plan.first_step,
                 plan.end_step);
  total_ = (plan.end_step - plan.first_step) * uint64_t(plan.accumulate);
  ring_.resize(size_t(plan.depth));
  try {
    thread_ = std::jthread([this](std::stop_token stop) { work(stop); });
  } catch (const std::system_error& error) {
    throw Error(fmt::format("cannot start the thread that prepares batches: {}", error.what()));
  }
}

Prefetcher::~Prefetcher() {
  thread_.request_stop();  // wakes a waiting thread through the stop token
}

const Batch& Prefetcher::next() {
  std::unique_lock lock(mutex_);
  LONGSHOT_CHECK(taken_ < total_, "prefetch: all {} batches have been taken", total_);
  changed_.wait(lock, [this] { return made_ > taken_ || failure_; });
  // Batches finished before the failure are still handed out.
  if (made_ == taken_) std::rethrow_exception(failure_);
  const Batch& batch = ring_[size_t(taken_ % uint64_t(plan_.depth))];
  ++taken_;
  lock.unlock();
  changed_.notify_all();
  return batch;
}

void Prefetcher::work(std::stop_token stop) {
  const uint64_t depth = uint64_t(plan_.depth), accumulate = uint64_t(plan_.accumulate);
  for (uint64_t item = 0; item < total_; ++item) {
    {
      // Item `taken_ - 1` is in the caller's hands, so depth - 1 slots may be filled beyond it.
      std::unique_lock lock(mutex_);
      const bool free =
          changed_.wait(lock, stop, [&] { return item - (taken_ == 0 ? 0 : taken_ - 1) < depth; });
      if (!free || stop.stop_requested()) return;
    }
    try {
      while_doing("preparing a training batch", [&] {
        batcher_.training(plan_.seed, plan_.first_step + item / accumulate, plan_.lengths,
                          plan_.batch * plan_.accumulate, int64_t(item % accumulate) * plan_.batch,
                          plan_.batch, ring_[size_t(item % depth)]);
      });
    } catch (...) {
      const std::lock_guard lock(mutex_);
      failure_ = std::current_exception();
      changed_.notify_all();
      return;
    }
    {
      const std::lock_guard lock(mutex_);
      made_ = item + 1;
    }
    changed_.notify_all();
  }
}

}  // namespace longshot
