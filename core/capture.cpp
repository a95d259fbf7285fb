#include "core/capture.h"

#include <algorithm>

#include "core/log.h"

namespace longshot {

StepCapture::StepCapture(Backend& backend, bool enabled, size_t most) : most_(most) {
  LONGSHOT_CHECK(most >= 1, "capture: {} shapes to remember", most);
  if (!enabled) {
    reason_ = "capture is switched off";
    return;
  }
  recorder_ = dynamic_cast<StepRecorder*>(&backend);
  if (!recorder_) reason_ = std::string(backend.name()) + " does not record steps";
}

StepCapture::~StepCapture() {
  forget_all();
}

void StepCapture::forget_all() {
  for (const auto& [signature, shape] : seen_) {
    if (shape.recorded && recorder_) recorder_->forget(signature);
  }
  seen_.clear();
}

StepCapture::Action StepCapture::next(const std::string& signature, int64_t generation) {
  if (!recorder_) {
    ++eager_;
    return Action::eager;
  }
  if (generation != generation_) {
    forget_all();
    generation_ = generation;
  }
  const auto found = seen_.find(signature);
  ++calls_;
  if (found == seen_.end()) {
    if (seen_.size() >= most_) forget_oldest();
    seen_[signature].met = calls_;
    ++eager_;
    return Action::eager;
  }
  found->second.met = calls_;
  return found->second.recorded ? Action::replay : Action::capture;
}

void StepCapture::forget_oldest() {
  const auto oldest =
      std::min_element(seen_.begin(), seen_.end(),
                       [](const auto& a, const auto& b) { return a.second.met < b.second.met; });
  if (oldest->second.recorded) recorder_->forget(oldest->first);
  seen_.erase(oldest);
}

void StepCapture::begin() {
  recorder_->begin_capture();
}

bool StepCapture::end(const std::string& signature, const std::string& problem) {
  std::string why;
  const bool good = recorder_->end_capture(signature, &why);
  if (good && problem.empty()) {
    seen_[signature].recorded = true;
    ++captures_;
    return true;
  }
  if (good) recorder_->forget(signature);
  forget_all();
  recorder_ = nullptr;
  reason_ = problem.empty() ? why : problem;
  ++eager_;
  log::info("this step cannot be captured, training stays eager: {}", reason_);
  return false;
}

void StepCapture::replay(const std::string& signature) {
  recorder_->replay(signature);
  ++replayed_;
}

}  // namespace longshot
