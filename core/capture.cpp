#include "core/capture.h"

#include "core/log.h"

namespace longshot {

StepCapture::StepCapture(Backend& backend, bool enabled) {
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
  for (const auto& [signature, recorded] : seen_) {
    if (recorded && recorder_) recorder_->forget(signature);
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
  if (found == seen_.end()) {
    seen_[signature] = false;
    ++eager_;
    return Action::eager;
  }
  return found->second ? Action::replay : Action::capture;
}

void StepCapture::begin() {
  recorder_->begin_capture();
}

bool StepCapture::end(const std::string& signature, const std::string& problem) {
  std::string why;
  const bool good = recorder_->end_capture(signature, &why);
  if (good && problem.empty()) {
    seen_[signature] = true;
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
