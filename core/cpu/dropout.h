// Dropout on the CPU: y = x * factor, factor = 1 / (1 - p) where the element's uniform draw is at
// least p, else 0. The draws are recomputed wherever they are needed (core/backend.h: DropoutSpec).
#pragma once

#include <cstdint>

#include "core/backend.h"

namespace longshot::cpu {

// A DropoutSpec with its step state read: what one kernel call needs to draw any element's factor.
class DropoutFactors {
 public:
  explicit DropoutFactors(const DropoutSpec& spec);

  bool active() const { return active_; }  // false: every factor is 1
  // out[i] = factor of element begin + i, i < count.
  template <class T>
  void draw(int64_t begin, int64_t count, T* out) const;

 private:
  bool active_ = false;
  RandomKey key_;
  uint32_t threshold_ = 0;  // keep when the draw's 24 bits, as an integer, reach it
  double scale_ = 1;
  uint64_t offset_ = 0;  // index of this micro-batch's first element
};

template <class T>
void dropout(const DropoutArgs& args);

}  // namespace longshot::cpu
