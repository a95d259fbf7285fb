#include "tests/catch.h"
#include "tests/nn/positions/sampler_support.h"

using namespace longshot;

TEST_CASE("contiguous: 0, 1, 2, ... for everyone, training or not", "[positions]") {
  const auto sampler = make_sampler("type = \"contiguous\"");
  for (const bool training : {false, true}) {
    const DrawnPositions drawn =
        sampler->draw({.batch = 3, .length = 4, .training = training, .seed = 7, .step = 9});
    CHECK(drawn.values == std::vector<double>{0, 1, 2, 3});
    CHECK(drawn.batches == 1);
    CHECK(drawn.contiguous);
    CHECK_FALSE(drawn.fractional);
    CHECK(drawn.limit == 4);
    CHECK(drawn.distances.empty());
  }
  CHECK(sampler->capacity() == 0);
  CHECK(sampler->samples_per_draw() == 0);
  CHECK_FALSE(sampler->per_layer());
}

TEST_CASE("contiguous: takes no options", "[positions]") {
  CHECK_THROWS_AS(make_sampler("type = \"contiguous\"\nmax = 4"), UsageError);
}
