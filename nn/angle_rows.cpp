// Rows of cosines and sines; see the header.
#include "nn/angle_rows.h"

#include <algorithm>
#include <cmath>

namespace longshot {

namespace {
constexpr int64_t kKeptPositions = 1 << 16;
}

void AngleRows::write(double position, double* cosine, double* sine) {
  const double size = std::abs(position);
  if (size != std::floor(size) || size >= double(kKeptPositions))
    return compute(position, cosine, sine);
  const int64_t row = int64_t(size), columns = width();
  for (int64_t next = columns == 0 ? row + 1 : int64_t(cosine_.size()) / columns; next <= row;
       ++next) {
    cosine_.resize(size_t((next + 1) * columns));
    sine_.resize(size_t((next + 1) * columns));
    compute(double(next), cosine_.data() + next * columns, sine_.data() + next * columns);
  }
  std::copy_n(cosine_.begin() + row * columns, columns, cosine);
  std::copy_n(sine_.begin() + row * columns, columns, sine);
  if (position < 0) std::for_each(sine, sine + columns, [](double& value) { value = -value; });
}

void AngleRows::compute(double position, double* cosine, double* sine) const {
  for (size_t t = 0; t < frequencies_.size(); ++t) {
    const double angle = position * frequencies_[t];
    cosine[t] = amplitude_ * std::cos(angle);
    sine[t] = amplitude_ * std::sin(angle);
  }
}

}  // namespace longshot
