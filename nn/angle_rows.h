// Cosine and sine of position times frequency, row by row, formed in double. Rows of whole
// positions are kept: each is a pure function of its position, so what was asked before changes no
// result.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace longshot {

class AngleRows {
 public:
  AngleRows() = default;
  explicit AngleRows(std::vector<double> frequencies, double amplitude = 1.0)
      : frequencies_(std::move(frequencies)), amplitude_(amplitude) {}

  int64_t width() const { return int64_t(frequencies_.size()); }
  // Writes width() cosines and sines of position * frequency, times the amplitude.
  void write(double position, double* cosine, double* sine);

 private:
  void compute(double position, double* cosine, double* sine) const;

  std::vector<double> frequencies_;
  double amplitude_ = 1.0;
  std::vector<double> cosine_, sine_;  // rows of positions 0, 1, 2, ...
};

}  // namespace longshot
