#include "train/sampling.h"

#include <algorithm>
#include <cmath>

namespace longshot {
namespace {

constexpr double kNotKnown = std::numeric_limits<double>::quiet_NaN();

double sum_of(std::span<const Draw> draws, double Draw::*member) {
  double sum = 0;
  for (const Draw& draw : draws) sum += draw.*member;
  return sum;
}

int64_t counting(std::span<const Draw> draws) {
  return std::count_if(draws.begin(), draws.end(), [](const Draw& draw) { return draw.whole > 0; });
}

}  // namespace

Interval wilson(double p, double n) {
  if (!std::isfinite(p) || !(n > 0)) return {};
  constexpr double z = 1.959963984540054;  // the normal distribution's 97.5 % quantile
  const double scale = 1 + z * z / n;
  const double middle = (p + z * z / (2 * n)) / scale;
  const double half = z * std::sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / scale;
  // At the ends the interval reaches them exactly; rounding must not leave it short.
  return {p <= 0 ? 0.0 : std::max(0.0, middle - half), p >= 1 ? 1.0 : std::min(1.0, middle + half)};
}

double ratio_of(std::span<const Draw> draws) {
  const double whole = sum_of(draws, &Draw::whole);
  return whole > 0 ? sum_of(draws, &Draw::part) / whole : kNotKnown;
}

double ratio_error(std::span<const Draw> draws) {
  const int64_t count = counting(draws);
  if (count < 2) return kNotKnown;
  const double ratio = ratio_of(draws), whole = sum_of(draws, &Draw::whole);
  double squares = 0;
  bool agree = true;  // all at the same ratio: no rounding may make a spread of it
  const Draw* first = nullptr;
  for (const Draw& draw : draws) {
    if (!(draw.whole > 0)) continue;
    if (first == nullptr) first = &draw;
    agree = agree && draw.part * first->whole == first->part * draw.whole;
    const double residual = draw.part - ratio * draw.whole;
    squares += residual * residual;
  }
  if (agree) return 0;
  return std::sqrt(squares * double(count) / double(count - 1)) / whole;
}

Share share_of(std::span<const Draw> draws, double counted) {
  Share share;
  share.value = ratio_of(draws);
  share.error = ratio_error(draws);
  const int64_t count = counting(draws);
  if (count == 0) return share;
  double whole = 0, squares = 0;
  for (const Draw& draw : draws) whole += draw.whole, squares += draw.whole * draw.whole;
  const double worth = whole * whole / squares;
  const double variance = share.error * share.error;
  const double most = std::max(1.0, counted * worth / double(count));
  share.independent = variance > 0 && share.value > 0 && share.value < 1
                          ? std::clamp(share.value * (1 - share.value) / variance, 1.0, most)
                          : worth;
  return share;
}

}  // namespace longshot
