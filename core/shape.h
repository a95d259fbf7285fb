// Shape: up to four extents, row-major, contiguous. Scalar type tags.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "core/error.h"

namespace longshot {

enum class DType : uint8_t { f32, f64, i32 };

constexpr int64_t size_of(DType type) {
  return type == DType::f64 ? 8 : 4;
}
constexpr const char* name_of(DType type) {
  return type == DType::f32 ? "f32" : type == DType::f64 ? "f64" : "i32";
}
template <class T>
constexpr DType dtype_of();
template <>
constexpr DType dtype_of<float>() {
  return DType::f32;
}
template <>
constexpr DType dtype_of<double>() {
  return DType::f64;
}
template <>
constexpr DType dtype_of<int32_t>() {
  return DType::i32;
}

class Shape {
 public:
  static constexpr int kMaxRank = 4;

  Shape() = default;  // rank 0: a scalar, one element
  Shape(std::initializer_list<int64_t> extents) {
    LONGSHOT_CHECK(extents.size() <= kMaxRank, "shape: at most {} axes, got {}", kMaxRank,
                   extents.size());
    for (int64_t extent : extents) append(extent);
  }

  void append(int64_t extent) {
    LONGSHOT_CHECK(rank_ < kMaxRank, "shape: at most {} axes", kMaxRank);
    LONGSHOT_CHECK(extent >= 0, "shape: negative extent {}", extent);
    extents_[rank_++] = extent;
  }

  int rank() const { return rank_; }
  // Negative axes count from the end: shape[-1] is the last extent.
  int64_t operator[](int axis) const { return extents_[normalize(axis)]; }
  void set(int axis, int64_t extent) { extents_[normalize(axis)] = extent; }
  int normalize(int axis) const {
    const int index = axis < 0 ? axis + rank_ : axis;
    LONGSHOT_CHECK(index >= 0 && index < rank_, "axis {} is out of range for shape {}", axis,
                   to_string());
    return index;
  }
  int64_t elements() const {
    int64_t product = 1;
    for (int i = 0; i < rank_; ++i) product *= extents_[i];
    return product;
  }
  // Product of all extents but the last (1 for a scalar): the number of rows.
  int64_t rows() const { return rank_ == 0 ? 1 : product(0, rank_ - 1); }
  int64_t product(int begin, int end) const {
    int64_t result = 1;
    for (int i = begin; i < end; ++i) result *= extents_[i];
    return result;
  }
  bool operator==(const Shape& other) const = default;
  std::string to_string() const;  // "(2, 3, 4)"

 private:
  std::array<int64_t, kMaxRank> extents_{};
  int rank_ = 0;
};

}  // namespace longshot
