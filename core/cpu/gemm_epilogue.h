// What follows a finished block of a matrix product: + bias, a copy of the value before the
// activation, the activation (formulas in core/cpu/activation_math.h).
#pragma once

#include "core/backend.h"
#include "core/cpu/activation_math.h"

namespace longshot::cpu {

template <class T>
struct Epilogue {
  const T* bias = nullptr;  // (columns) or null
  Activation activation = Activation::none;
  T* pre_activation = nullptr;  // laid out like c, or null
  bool nothing() const {
    return bias == nullptr && activation == Activation::none && pre_activation == nullptr;
  }
};

template <class T, Activation activation>
void finish_block(int64_t rows, int64_t columns, T* c, T* pre, int64_t ldc, const T* bias) {
  constexpr int64_t kWidth = Vec<T>::kWidth;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t j = 0; j < columns; j += kWidth) {
      const int64_t valid = columns - j;
      T* out = c + r * ldc + j;
      Vec<T> x = Vec<T>::load_partial(out, valid);
      if (bias != nullptr) x += Vec<T>::load_partial(bias + j, valid);
      if (pre != nullptr) x.store_partial(pre + r * ldc + j, valid);
      if constexpr (activation == Activation::relu) x = relu(x);
      if constexpr (activation == Activation::gelu) x = gelu(x);
      if constexpr (activation == Activation::gelu_tanh) x = gelu_tanh(x);
      x.store_partial(out, valid);
    }
}

// The block of c that begins at (row, column).
template <class T>
void finish(const Epilogue<T>& e, T* c, int64_t ldc, int64_t row, int64_t column, int64_t rows,
            int64_t columns) {
  if (e.nothing()) return;
  const int64_t offset = row * ldc + column;
  T* pre = e.pre_activation == nullptr ? nullptr : e.pre_activation + offset;
  const T* bias = e.bias == nullptr ? nullptr : e.bias + column;
  switch (e.activation) {
    case Activation::none:
      return finish_block<T, Activation::none>(rows, columns, c + offset, pre, ldc, bias);
    case Activation::relu:
      return finish_block<T, Activation::relu>(rows, columns, c + offset, pre, ldc, bias);
    case Activation::gelu:
      return finish_block<T, Activation::gelu>(rows, columns, c + offset, pre, ldc, bias);
    case Activation::gelu_tanh:
      return finish_block<T, Activation::gelu_tanh>(rows, columns, c + offset, pre, ldc, bias);
  }
}

}  // namespace longshot::cpu
