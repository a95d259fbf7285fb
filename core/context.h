// Context: everything operations need beside their arguments: the backend, the memory, the tape,
// and the per-step state in device memory. One per model and thread.
//
// A training step:
//   StepScope step(context);                 // values made from here on die at the end
//   context.set_step_state({.seed = ..., .step = ..., .training = 1, .learning_rate = ...});
//   Tensor loss = ...;                       // operations record themselves
//   context.tape().backward(loss);
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "core/backend.h"
#include "core/heap.h"
#include "core/tape.h"
#include "core/tensor.h"

namespace longshot {

struct ContextOptions {
  DType dtype = DType::f32;  // of parameters and activations
  HeapOptions heap;          // of the step heap and the persistent heap
};

class Context {
 public:
  explicit Context(Backend& backend, ContextOptions options = {});
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  Backend& backend() const { return backend_; }
  Tape& tape() { return tape_; }
  DType dtype() const { return options_.dtype; }
  Heap& step_heap() { return step_heap_; }
  Heap& persistent_heap() { return persistent_heap_; }

  // New tensors; contents undefined. Step tensors may only be made inside a StepScope.
  Tensor make(const Shape& shape, DType dtype, Lifetime lifetime = Lifetime::step,
              const char* name = "");
  Tensor make(const Shape& shape) { return make(shape, options_.dtype); }
  template <class T>
  Tensor from_host(std::span<const T> values, const Shape& shape,
                   Lifetime lifetime = Lifetime::step, const char* name = "");
  // Values given in double, stored in this context's dtype.
  Tensor from_doubles(std::span<const double> values, const Shape& shape,
                      Lifetime lifetime = Lifetime::step, const char* name = "");
  // A handle to memory owned by someone else (a parameter in its flat buffer). `gradient` may be
  // null.
  Tensor adopt(void* data, void* gradient, const Shape& shape, DType dtype, const char* name);

  // Recording: whether operations go on the tape. Off: results want no gradient and die at once.
  bool recording() const { return recording_; }
  void set_recording(bool on) { recording_ = on; }
  bool in_step() const { return in_step_; }

  const StepState* step_state() const { return step_state_; }  // device memory
  void set_step_state(const StepState& state);                 // copied to the device
  const StepState& host_step_state() const { return host_step_state_; }

  void fill(void* device, DType dtype, int64_t n, double value);

 private:
  friend class StepScope;
  friend class Tensor;
  friend class Gradient;
  friend void detail::drop_reference(detail::Value*, uint32_t, bool) noexcept;
  void begin_step();
  void end_step() noexcept;
  detail::Value& new_value();
  Heap& heap_of(const detail::Value& value);
  void allocate_gradient(detail::Value& value);
  void release_data(detail::Value& value) noexcept;
  void release_value(detail::Value& value) noexcept;

  Backend& backend_;
  ContextOptions options_;
  Heap persistent_heap_;
  Heap step_heap_;
  std::deque<detail::Value> values_;
  std::vector<detail::Value*> unused_values_;
  Tape tape_;
  bool recording_ = true;
  bool in_step_ = false;
  Heap::Block step_state_block_;
  StepState* step_state_ = nullptr;
  StepState host_step_state_;
};

class StepScope {
 public:
  explicit StepScope(Context& context) : context_(context) { context_.begin_step(); }
  ~StepScope() { context_.end_step(); }
  StepScope(const StepScope&) = delete;
  StepScope& operator=(const StepScope&) = delete;

 private:
  Context& context_;
};

// No recording while it lives: evaluation.
class NoRecordingScope {
 public:
  explicit NoRecordingScope(Context& context) : context_(context), before_(context.recording()) {
    context_.set_recording(false);
  }
  ~NoRecordingScope() { context_.set_recording(before_); }
  NoRecordingScope(const NoRecordingScope&) = delete;
  NoRecordingScope& operator=(const NoRecordingScope&) = delete;

 private:
  Context& context_;
  bool before_;
};

}  // namespace longshot
