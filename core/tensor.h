// Tensor: a cheap handle to a value on a device: a shape and a pointer to {data, gradient}.
//
// Always contiguous and row-major; reshape is free because only the handle changes. Handles count
// references: when the last handle to a step value dies, its memory is recycled at once, in an
// order fixed by the program, so addresses are reproducible.
//
// A value has two sides. `Tensor` keeps data and gradient alive. `Gradient` keeps the gradient side
// only: tape nodes hold a Tensor for what their backward must read and a Gradient for the rest, so
// what an operation saves is a visible decision.
//
// A handle to a step value kept past the end of its step is stale: using it throws an Error with
// its name. Not thread-safe: one Context and its tensors belong to one thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/heap.h"
#include "core/shape.h"

namespace longshot {

class Context;

enum class Lifetime : uint8_t { step, persistent };

namespace detail {
// The shared part behind handles. Records are pooled by Context and never freed while it lives.
struct Value {
  Context* context = nullptr;
  void* data = nullptr;
  void* gradient = nullptr;
  Heap::Block data_block;  // index -1: memory owned by someone else (parameters)
  Heap::Block gradient_block;
  int64_t elements = 0;
  DType dtype = DType::f32;
  Lifetime lifetime = Lifetime::step;
  bool requires_gradient = false;
  bool gradient_written = false;
  bool in_use = false;
  int32_t data_references = 0;
  int32_t references = 0;
  uint32_t generation = 0;  // grows when the record is recycled
  const char* name = "";    // a string that outlives the value
};
void add_reference(Value* value, bool data);
void drop_reference(Value* value, uint32_t generation, bool data) noexcept;
[[noreturn]] void throw_stale(const char* name);
}  // namespace detail

class Tensor {
 public:
  Tensor() = default;  // undefined: stands for "none" where an argument is optional
  Tensor(detail::Value* value, const Shape& shape);
  Tensor(const Tensor& other);
  Tensor(Tensor&& other) noexcept;
  Tensor& operator=(Tensor other) noexcept;
  ~Tensor();

  bool defined() const { return value_ != nullptr; }
  const Shape& shape() const { return shape_; }
  int64_t size(int axis) const { return shape_[axis]; }
  int64_t elements() const { return shape_.elements(); }
  DType dtype() const { return value().dtype; }
  Context& context() const { return *value().context; }
  const char* name() const { return value().name; }
  Tensor& set_name(const char* literal);  // for messages; the text must outlive the tensor

  void* data() const { return value().data; }  // device pointer
  template <class T>
  T* data_as() const;  // checked against the dtype

  bool requires_gradient() const { return defined() && value().requires_gradient; }
  Tensor& set_requires_gradient(bool wanted);
  bool has_gradient() const { return defined() && value().gradient_written; }
  void* gradient_data() const;  // Error when no gradient was written

  Tensor reshape(const Shape& shape) const;  // same elements, same value, same gradient

  // Host copies; they wait for the device. T must match the dtype exactly.
  template <class T>
  std::vector<T> to_host() const;
  template <class T>
  std::vector<T> gradient_to_host() const;
  template <class T>
  void copy_from(std::span<const T> values) const;
  std::vector<double> to_doubles() const;           // any dtype, converted
  std::vector<double> gradient_to_doubles() const;  // zeros when no gradient was written

  detail::Value& value() const {
    if (value_ == nullptr) detail::throw_stale(nullptr);
    if (value_->generation != generation_) detail::throw_stale(name_);
    return *value_;
  }

 private:
  friend class Gradient;
  Shape shape_;
  detail::Value* value_ = nullptr;
  uint32_t generation_ = 0;
  const char* name_ = "";
};

class Gradient {
 public:
  Gradient() = default;
  explicit Gradient(const Tensor& tensor);
  Gradient(const Gradient&) = delete;
  Gradient& operator=(const Gradient&) = delete;
  Gradient(Gradient&& other) noexcept;
  Gradient& operator=(Gradient&& other) noexcept;
  ~Gradient();

  bool wanted() const { return value_ != nullptr && value_->requires_gradient; }
  bool present() const { return value_ != nullptr && value_->gradient_written; }
  const void* data() const;  // what was written; Error when nothing was

  // Where a contribution goes: the first writes, later ones add. Allocates on first use.
  struct Target {
    void* data = nullptr;
    bool accumulate = false;
  };
  Target target();

 private:
  detail::Value* value_ = nullptr;
  uint32_t generation_ = 0;
};

}  // namespace longshot
