// Recording a training step once and replaying it: what a backend can offer, and the policy.
//
// Between begin_capture and end_capture a backend's calls are recorded and nothing runs. A recorded
// step repeats the same kernels on the same addresses, so it is right only while shapes and memory
// stay the same and everything that changes from step to step (StepState, the batch) is read from
// device memory, written before the replay.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "core/backend.h"

namespace longshot {

// Implemented by a backend beside Backend; find it with dynamic_cast.
class StepRecorder {
 public:
  virtual ~StepRecorder() = default;
  virtual void begin_capture() = 0;
  // Keeps what was recorded under `signature`. False with the reason if it cannot be replayed (the
  // step waited for the device, allocated, or copied from the host).
  virtual bool end_capture(const std::string& signature, std::string* reason) = 0;
  virtual void replay(const std::string& signature) = 0;
  virtual void forget(const std::string& signature) = 0;
};

// Runs steps eagerly, recorded or replayed. A shape is recorded at its second occurrence, when the
// heaps have met it; a change of `generation` (memory moved or grew) drops all recordings; the
// first failure to record turns recording off for good, with the reason. Of more than `most` shapes
// the one that was not met for longest is forgotten with its recording: each takes memory.
class StepCapture {
 public:
  static constexpr size_t kMostShapes = 256;
  StepCapture(Backend& backend, bool enabled, size_t most = kMostShapes);
  ~StepCapture();
  StepCapture(const StepCapture&) = delete;
  StepCapture& operator=(const StepCapture&) = delete;

  // `body` makes the step's backend calls; it may be called again when recording fails.
  template <class Body>
  void run(const std::string& signature, int64_t generation, const Body& body) {
    switch (next(signature, generation)) {
      case Action::eager:
        body();
        return;
      case Action::replay:
        replay(signature);
        return;
      case Action::capture:
        break;
    }
    begin();
    std::string problem;
    try {
      body();
    } catch (const std::exception& error) {
      problem = error.what();
    } catch (...) {  // of whatever kind: what has begun must end
      problem = "something was thrown that is no exception";
    }
    if (end(signature, problem)) {
      replay(signature);
    } else {
      body();
    }
  }

  bool active() const { return recorder_ != nullptr; }
  const std::string& reason() const { return reason_; }  // why not, when not active
  int64_t eager_steps() const { return eager_; }
  int64_t replayed_steps() const { return replayed_; }
  int64_t captures() const { return captures_; }
  size_t shapes() const { return seen_.size(); }

 private:
  enum class Action { eager, capture, replay };
  Action next(const std::string& signature, int64_t generation);
  void begin();
  bool end(const std::string& signature, const std::string& problem);
  void replay(const std::string& signature);
  void forget_all();
  void forget_oldest();

  StepRecorder* recorder_ = nullptr;
  std::string reason_;
  struct Shape {
    bool recorded = false;
    int64_t met = 0;  // the last time, in calls of next
  };
  std::map<std::string, Shape> seen_;  // by signature
  size_t most_ = kMostShapes;
  int64_t calls_ = 0;
  int64_t generation_ = -1, eager_ = 0, replayed_ = 0, captures_ = 0;
};

}  // namespace longshot
