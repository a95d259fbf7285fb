// Reading and writing an array of either dtype as doubles, and the scalar functions of the
// reference.
#pragma once

#include <cmath>

#include "core/backend.h"
#include "core/random.h"

namespace longshot::testing {

class ConstArray {
 public:
  ConstArray(const void* data, DType dtype) : data_(data), dtype_(dtype) {}
  explicit operator bool() const { return data_ != nullptr; }
  double operator[](int64_t i) const {
    return dtype_ == DType::f32 ? double(static_cast<const float*>(data_)[i])
                                : static_cast<const double*>(data_)[i];
  }

 private:
  const void* data_;
  DType dtype_;
};

class Array {
 public:
  Array(void* data, DType dtype) : data_(data), dtype_(dtype) {}
  explicit operator bool() const { return data_ != nullptr; }
  double operator[](int64_t i) const { return ConstArray(data_, dtype_)[i]; }
  void put(int64_t i, double value, bool accumulate = false) const {
    if (accumulate) value += (*this)[i];
    if (dtype_ == DType::f32)
      static_cast<float*>(data_)[i] = float(value);
    else
      static_cast<double*>(data_)[i] = value;
  }

 private:
  void* data_;
  DType dtype_;
};

// What dropout multiplies element `index` with: 0 or 1 / (1 - p).
inline double dropout_factor(const DropoutSpec& spec, int64_t index) {
  if (spec.p == 0 || spec.state->training == 0) return 1.0;
  const RandomKey key{spec.state->seed, RandomPurpose::dropout, spec.stream, spec.state->step};
  const int64_t shifted = index + spec.state->sample_offset * spec.elements_per_sample;
  const float uniform = to_unit_float(random_word(key, uint64_t(shifted)));
  return uniform >= spec.p ? 1.0 / (1.0 - double(spec.p)) : 0.0;
}

double unary_value(Unary op, double x);
double unary_derivative(Unary op, double x);  // of the input
double activation_value(Activation activation, double x);
double activation_derivative(Activation activation, double x);

}  // namespace longshot::testing
