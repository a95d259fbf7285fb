#include "core/context.h"

#include <exception>

namespace longshot {

Context::Context(Backend& backend, ContextOptions options)
    : backend_(backend),
      options_(options),
      persistent_heap_(backend, "persistent", options.heap),
      step_heap_(backend, "step", options.heap) {
  LONGSHOT_CHECK(backend.supports(options.dtype), "backend {} does not compute in {}",
                 backend.name(), name_of(options.dtype));
  step_state_block_ = persistent_heap_.allocate(sizeof(StepState));
  step_state_ = static_cast<StepState*>(step_state_block_.data);
  set_step_state({});
}

Context::~Context() {
  tape_.clear();
}

detail::Value& Context::new_value() {
  detail::Value* value;
  if (unused_values_.empty()) {
    // Room to take every record back: the end of a step asks for no memory.
    if (unused_values_.capacity() <= values_.size())
      unused_values_.reserve(2 * values_.size() + 64);
    values_.emplace_back();
    value = &values_.back();
  } else {
    value = unused_values_.back();
    unused_values_.pop_back();
    const uint32_t generation = value->generation;
    *value = detail::Value{};
    value->generation = generation;
  }
  value->context = this;
  value->in_use = true;
  return *value;
}

Heap& Context::heap_of(const detail::Value& value) {
  return value.lifetime == Lifetime::step ? step_heap_ : persistent_heap_;
}

Tensor Context::make(const Shape& shape, DType dtype, Lifetime lifetime, const char* name) {
  LONGSHOT_CHECK(lifetime == Lifetime::persistent || in_step_,
                 "tensor {} {}: step tensors can only be made inside a StepScope", name,
                 shape.to_string());
  detail::Value& value = new_value();
  value.lifetime = lifetime;
  value.dtype = dtype;
  value.elements = shape.elements();
  value.name = name;
  try {
    value.data_block = heap_of(value).allocate(size_t(shape.elements() * size_of(dtype)));
  } catch (const Error& error) {
    release_value(value);
    throw Error(fmt::format("{}, for tensor {} {}", error.what(), name, shape.to_string()));
  }
  value.data = value.data_block.data;
  return Tensor(&value, shape);
}

template <class T>
Tensor Context::from_host(std::span<const T> values, const Shape& shape, Lifetime lifetime,
                          const char* name) {
  Tensor result = make(shape, dtype_of<T>(), lifetime, name);
  result.copy_from(values);
  return result;
}
template Tensor Context::from_host(std::span<const float>, const Shape&, Lifetime, const char*);
template Tensor Context::from_host(std::span<const double>, const Shape&, Lifetime, const char*);
template Tensor Context::from_host(std::span<const int32_t>, const Shape&, Lifetime, const char*);

Tensor Context::from_doubles(std::span<const double> values, const Shape& shape, Lifetime lifetime,
                             const char* name) {
  if (options_.dtype == DType::f64) return from_host(values, shape, lifetime, name);
  const std::vector<float> converted(values.begin(), values.end());
  return from_host(std::span<const float>(converted), shape, lifetime, name);
}

Tensor Context::adopt(void* data, void* gradient, const Shape& shape, DType dtype,
                      const char* name) {
  detail::Value& value = new_value();
  value.lifetime = Lifetime::persistent;
  value.dtype = dtype;
  value.elements = shape.elements();
  value.data = data;
  value.gradient = gradient;
  value.requires_gradient = gradient != nullptr;
  value.name = name;
  return Tensor(&value, shape);
}

void Context::allocate_gradient(detail::Value& value) {
  try {
    value.gradient_block = heap_of(value).allocate(size_t(value.elements * size_of(value.dtype)));
  } catch (const Error& error) {
    throw Error(fmt::format("{}, for the gradient of tensor {}", error.what(), value.name));
  }
  value.gradient = value.gradient_block.data;
}

void Context::release_data(detail::Value& value) noexcept {
  if (value.data_block.index >= 0) heap_of(value).release(value.data_block);
  value.data_block = {};
  value.data = nullptr;
}

void Context::release_value(detail::Value& value) noexcept {
  if (value.gradient_block.index >= 0) heap_of(value).release(value.gradient_block);
  value.gradient_block = {};
  value.gradient = nullptr;
  value.in_use = false;
  ++value.generation;
  unused_values_.push_back(&value);
}

void Context::begin_step() {
  LONGSHOT_CHECK(!in_step_, "StepScope: a step is open already");
  in_step_ = true;
}

void Context::end_step() noexcept {
  tape_.clear();
  // What is still held belongs to handles kept past the step: they become stale.
  for (detail::Value& value : values_) {
    if (!value.in_use || value.lifetime != Lifetime::step) continue;
    value.in_use = false;
    value.data = value.gradient = nullptr;
    value.data_block = value.gradient_block = {};
    ++value.generation;
    unused_values_.push_back(&value);
  }
  step_heap_.release_all();
  in_step_ = false;
}

void Context::set_step_state(const StepState& state) {
  host_step_state_ = state;
  backend_.copy_to_device(step_state_, &host_step_state_, sizeof(StepState));
}

void Context::fill(void* device, DType dtype, int64_t n, double value) {
  // 0 * x + value would read undefined memory (and keep NaN), so clear first.
  backend_.fill_zero(device, size_t(n * size_of(dtype)));
  if (value == 0) return;
  AffineArgs args;
  args.dtype = dtype;
  args.n = n;
  args.x = device;
  args.y = device;
  args.alpha = 0;
  args.beta = value;
  backend_.affine(args);
}

}  // namespace longshot
