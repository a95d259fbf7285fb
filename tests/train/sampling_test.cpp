// Intervals and errors of shares against values worked out by hand.
#include "train/sampling.h"

#include <cmath>
#include <vector>

#include "tests/catch.h"

using namespace longshot;

TEST_CASE("Wilson's interval: textbook values, and right at both ends", "[train]") {
  // 5 of 10: the middle is 0.5, half is z sqrt(0.025 + z^2 / 400) / (1 + z^2 / 10)
  //        = 1.95996 * 0.186020 / 1.384146 = 0.263406.
  const Interval half = wilson(0.5, 10);
  CHECK(half.low == Approx(0.236594).margin(1e-5));
  CHECK(half.high == Approx(0.763406).margin(1e-5));
  // Nothing of n: from 0 to z^2 / (n + z^2) = 3.841459 / 13.841459.
  CHECK(wilson(0, 10).low == 0);
  CHECK(wilson(0, 10).high == Approx(0.277533).margin(1e-5));
  // All of 512: from 512 / 515.841459.
  CHECK(wilson(1, 512).low == Approx(0.992553).margin(1e-6));
  CHECK(wilson(1, 512).high == 1);
  CHECK(std::isnan(wilson(0.5, 0).low));
  CHECK(std::isnan(wilson(NAN, 10).high));
  CHECK(std::isnan(wilson(0.5, NAN).high));
}

TEST_CASE("a share's error is over draws, and at the ends it is exactly 0", "[train]") {
  // Four samples of 2, 2, 4 and 2 predictions, of which 1, 2, 2 and 2 are right: 7 / 10.
  const std::vector<Draw> draws = {{1, 2}, {2, 2}, {2, 4}, {2, 2}};
  // Residuals from 0.7: -0.4, 0.6, -0.8, 0.6; squares 0.16 + 0.36 + 0.64 + 0.36 = 1.52;
  // sqrt(1.52 * 4 / 3) / 10 = 0.142361.
  const Share share = share_of(draws, 10);
  CHECK(share.value == Approx(0.7));
  CHECK(share.error == Approx(0.142361).margin(1e-6));
  // 0.21 / 0.142361^2 = 10.36; of 10 predictions, draws of unequal weight leave
  // 10 * (10^2 / (4 + 4 + 16 + 4)) / 4 = 8.928571.
  CHECK(share.independent == Approx(8.928571));
  // The same draws with three times the weight say no more.
  std::vector<Draw> heavy = draws;
  for (Draw& draw : heavy) draw.part *= 3, draw.whole *= 3;
  CHECK(share_of(heavy, 10).error == Approx(share.error));

  // 512 samples of 3 predictions, all right.
  const std::vector<Draw> right(512, Draw{3, 3});
  CHECK(share_of(right, 1536).value == 1);
  CHECK(share_of(right, 1536).error == 0);
  CHECK(share_of(right, 1536).independent == 512);
  CHECK(share_of(right, 1536).interval().low == Approx(0.992553).margin(1e-6));
  // One sample that weighs as much as 99 of 100: what it says is all that is known.
  std::vector<Draw> heavy_one(100, Draw{1, 1});
  heavy_one[0] = {9801, 9801};
  CHECK(share_of(heavy_one, 100).independent == Approx(9900.0 * 9900 / (9801.0 * 9801 + 99)));
  heavy_one[1].part = 0;
  CHECK(share_of(heavy_one, 100).interval().low < 0.3);
  // A draw without anything that counts is none.
  const std::vector<Draw> one = {{1, 2}, {0, 0}};
  CHECK(share_of(one, 2).value == 0.5);
  CHECK(std::isnan(share_of(one, 2).error));
  CHECK(share_of(one, 2).independent == 1);
  CHECK(std::isnan(share_of({}, 0).value));
  CHECK(std::isnan(share_of({}, 0).interval().low));
}
