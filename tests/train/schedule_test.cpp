#include "train/schedule.h"

#include "tests/catch.h"

using namespace longshot;

// B27: the first update already moves; a warmup of 0 is the full rate at once.
TEST_CASE("warmup reaches the peak in equal steps from the first (B27)", "[schedule]") {
  TrainOptions options;
  options.lr = 1;
  options.warmup = 4;
  CHECK(learning_rate(options, 0) == 0.25);
  CHECK(learning_rate(options, 1) == 0.5);
  CHECK(learning_rate(options, 2) == 0.75);
  CHECK(learning_rate(options, 3) == 1.0);
  CHECK(learning_rate(options, 4) == 1.0);
  options.warmup = 0;
  CHECK(learning_rate(options, 0) == 1.0);
}

TEST_CASE("cosine and linear end at the final fraction", "[schedule]") {
  TrainOptions options;
  options.lr = 2;
  options.steps = 11;
  options.final_lr_fraction = 0.1;
  options.schedule = "linear";
  CHECK(learning_rate(options, 0) == Approx(2.0));
  CHECK(learning_rate(options, 5) == Approx(2 * (1 - 0.9 * 0.5)));
  CHECK(learning_rate(options, 10) == Approx(0.2));
  options.schedule = "cosine";
  CHECK(learning_rate(options, 0) == Approx(2.0));
  CHECK(learning_rate(options, 5) == Approx(2 * (0.1 + 0.9 * 0.5)));
  CHECK(learning_rate(options, 10) == Approx(0.2));
  options.warmup = 3;  // progress counts from the end of the warmup: steps 3 .. 10
  CHECK(learning_rate(options, 3) == Approx(2.0));
  CHECK(learning_rate(options, 10) == Approx(0.2));
}

TEST_CASE("inverse square root meets the warmup", "[schedule]") {
  TrainOptions options;
  options.lr = 1;
  options.warmup = 4;
  options.schedule = "inverse_sqrt";
  CHECK(learning_rate(options, 3) == 1.0);
  CHECK(learning_rate(options, 15) == Approx(0.5));
  options.warmup = 0;
  CHECK(learning_rate(options, 0) == 1.0);
  CHECK(learning_rate(options, 24) == Approx(0.2));
}
