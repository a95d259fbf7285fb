// What a finite number of test samples leaves open: standard errors over independent draws, and
// intervals for shares that are right at 0 % and 100 % too.
#pragma once

#include <cstdint>
#include <limits>
#include <span>

namespace longshot {

struct Interval {
  double low = std::numeric_limits<double>::quiet_NaN();
  double high = std::numeric_limits<double>::quiet_NaN();
};

// The 95 % interval of Wilson 1927 for a share `p` seen in `n` independent samples: the p0 with
// |p - p0| <= z sqrt(p0 (1 - p0) / n), z = 1.96. NaN where p or n is, or n is not above 0.
Interval wilson(double p, double n);

// A share of things that are right, each counted with a weight.
struct Share {
  double value = std::numeric_limits<double>::quiet_NaN();  // in [0, 1]; NaN: nothing was counted
  double error = std::numeric_limits<double>::quiet_NaN();  // standard error; NaN: not known
  // The number of independent samples that would leave the same uncertainty; NaN: not known.
  double independent = std::numeric_limits<double>::quiet_NaN();
  Interval interval() const { return wilson(value, independent); }
};

// What one independent draw (a sample, or samples that shared a draw) adds to a ratio of sums.
struct Draw {
  double part = 0, whole = 0;
};

// sum(part) / sum(whole), and its standard error for draws that are independent of each other:
//   sqrt(G / (G - 1) sum_g (part_g - ratio whole_g)^2) / sum(whole)
// (the ratio estimator's, Cochran 1977, section 2.11, without the finite population's correction).
// NaN for fewer than two draws with something to count, and 0 where all agree.
double ratio_of(std::span<const Draw> draws);
double ratio_error(std::span<const Draw> draws);

// The same as a share of `counted` things. With K = (sum whole)^2 / sum(whole^2), the number of
// draws that are worth something (Kish 1965; G of them where all weigh the same):
// independent = p (1 - p) / error^2, between 1 and counted K / G (Korn and Graubard 1998); where
// the draws all agree they tell nothing of their spread, and it is K.
Share share_of(std::span<const Draw> draws, double counted);

}  // namespace longshot
