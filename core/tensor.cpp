#include "core/tensor.h"

#include <utility>

#include "core/context.h"

namespace longshot {
namespace detail {

void add_reference(Value* value, bool data) {
  ++value->references;
  if (data) ++value->data_references;
}

void drop_reference(Value* value, uint32_t generation, bool data) noexcept {
  if (value->generation != generation) return;  // the step ended and took the value with it
  if (data && --value->data_references == 0) value->context->release_data(*value);
  if (--value->references == 0) value->context->release_value(*value);
}

void throw_stale(const char* name) {
  if (name == nullptr) throw Error("tensor: this handle is undefined (it was never given a value)");
  throw Error(
      fmt::format("tensor \"{}\": this handle was kept past the end of its step, where its memory "
                  "was recycled; copy "
                  "what must outlive a step to the host or make it persistent",
                  name));
}

}  // namespace detail

Tensor::Tensor(detail::Value* value, const Shape& shape)
    : shape_(shape), value_(value), generation_(value->generation), name_(value->name) {
  detail::add_reference(value_, true);
}

Tensor::Tensor(const Tensor& other)
    : shape_(other.shape_),
      value_(other.value_),
      generation_(other.generation_),
      name_(other.name_) {
  if (value_ != nullptr && value_->generation == generation_) detail::add_reference(value_, true);
}

Tensor::Tensor(Tensor&& other) noexcept
    : shape_(other.shape_),
      value_(std::exchange(other.value_, nullptr)),
      generation_(other.generation_),
      name_(other.name_) {}

Tensor& Tensor::operator=(Tensor other) noexcept {
  std::swap(shape_, other.shape_);
  std::swap(value_, other.value_);
  std::swap(generation_, other.generation_);
  std::swap(name_, other.name_);
  return *this;
}

Tensor::~Tensor() {
  if (value_ != nullptr) detail::drop_reference(value_, generation_, true);
}

Tensor& Tensor::set_name(const char* literal) {
  value().name = literal;
  name_ = literal;
  return *this;
}

template <class T>
T* Tensor::data_as() const {
  LONGSHOT_CHECK(value().dtype == dtype_of<T>(), "tensor {}: asked for {} elements, holds {}",
                 name(), name_of(dtype_of<T>()), name_of(dtype()));
  return static_cast<T*>(value().data);
}
template float* Tensor::data_as() const;
template double* Tensor::data_as() const;
template int32_t* Tensor::data_as() const;

Tensor& Tensor::set_requires_gradient(bool wanted) {
  LONGSHOT_CHECK(!wanted || dtype() != DType::i32, "tensor {}: whole numbers have no gradient",
                 name());
  value().requires_gradient = wanted;
  return *this;
}

void* Tensor::gradient_data() const {
  LONGSHOT_CHECK(value().gradient_written, "tensor {} {}: no gradient has reached it", name(),
                 shape_.to_string());
  return value().gradient;
}

Tensor Tensor::reshape(const Shape& shape) const {
  LONGSHOT_CHECK(shape.elements() == shape_.elements(), "reshape: {} has {} elements, {} has {}",
                 shape_.to_string(), shape_.elements(), shape.to_string(), shape.elements());
  Tensor result = *this;
  result.shape_ = shape;
  return result;
}

template <class T>
std::vector<T> Tensor::to_host() const {
  std::vector<T> result(static_cast<size_t>(elements()));
  const T* source = data_as<T>();
  if (!result.empty())
    context().backend().copy_to_host(result.data(), source, result.size() * sizeof(T));
  return result;
}
template std::vector<float> Tensor::to_host() const;
template std::vector<double> Tensor::to_host() const;
template std::vector<int32_t> Tensor::to_host() const;

template <class T>
std::vector<T> Tensor::gradient_to_host() const {
  data_as<T>();  // checks the dtype
  std::vector<T> result(static_cast<size_t>(elements()));
  if (!result.empty())
    context().backend().copy_to_host(result.data(), gradient_data(), result.size() * sizeof(T));
  return result;
}
template std::vector<float> Tensor::gradient_to_host() const;
template std::vector<double> Tensor::gradient_to_host() const;

template <class T>
void Tensor::copy_from(std::span<const T> values) const {
  LONGSHOT_CHECK(int64_t(values.size()) == elements(), "tensor {} {}: {} values given, {} needed",
                 name(), shape_.to_string(), values.size(), elements());
  T* target = data_as<T>();
  if (!values.empty())
    context().backend().copy_to_device(target, values.data(), values.size_bytes());
}
template void Tensor::copy_from(std::span<const float>) const;
template void Tensor::copy_from(std::span<const double>) const;
template void Tensor::copy_from(std::span<const int32_t>) const;

std::vector<double> Tensor::to_doubles() const {
  const auto convert = [](const auto& values) {
    return std::vector<double>(values.begin(), values.end());
  };
  if (dtype() == DType::f32) return convert(to_host<float>());
  if (dtype() == DType::f64) return to_host<double>();
  return convert(to_host<int32_t>());
}

std::vector<double> Tensor::gradient_to_doubles() const {
  if (!has_gradient()) return std::vector<double>(static_cast<size_t>(elements()), 0.0);
  if (dtype() == DType::f64) return gradient_to_host<double>();
  const std::vector<float> values = gradient_to_host<float>();
  return std::vector<double>(values.begin(), values.end());
}

Gradient::Gradient(const Tensor& tensor) {
  if (!tensor.defined()) return;
  value_ = &tensor.value();
  generation_ = value_->generation;
  detail::add_reference(value_, false);
}

Gradient::Gradient(Gradient&& other) noexcept
    : value_(std::exchange(other.value_, nullptr)), generation_(other.generation_) {}

Gradient& Gradient::operator=(Gradient&& other) noexcept {
  std::swap(value_, other.value_);
  std::swap(generation_, other.generation_);
  return *this;
}

Gradient::~Gradient() {
  if (value_ != nullptr) detail::drop_reference(value_, generation_, false);
}

const void* Gradient::data() const {
  LONGSHOT_CHECK(present(), "gradient: nothing has been written");
  return value_->gradient;
}

Gradient::Target Gradient::target() {
  LONGSHOT_CHECK(wanted(), "gradient: a contribution to a tensor that wants none");
  if (value_->gradient == nullptr) value_->context->allocate_gradient(*value_);
  const bool accumulate = value_->gradient_written;
  value_->gradient_written = true;
  return {value_->gradient, accumulate};
}

}  // namespace longshot
