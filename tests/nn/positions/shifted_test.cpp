#include <map>
#include <set>

#include "tests/catch.h"
#include "tests/nn/positions/sampler_support.h"

using namespace longshot;

namespace {
PositionRequest training(int64_t batch, int64_t length, uint32_t step, int64_t first = 0) {
  return {.batch = batch,
          .length = length,
          .training = true,
          .seed = 5,
          .step = step,
          .first_sample = first};
}
}  // namespace

TEST_CASE("shifted: one offset a sequence in training, none at evaluation", "[positions]") {
  const auto sampler = make_sampler("type = \"shifted\"\nmax = 9");
  const DrawnPositions drawn = sampler->draw(training(50, 3, 1));
  REQUIRE(drawn.batches == 50);
  CHECK_FALSE(drawn.contiguous);
  CHECK(drawn.limit == 12);
  std::set<double> offsets;
  for (int64_t b = 0; b < 50; ++b) {
    const double* row = drawn.values.data() + b * 3;
    CHECK(row[1] == row[0] + 1);
    CHECK(row[2] == row[0] + 2);
    offsets.insert(row[0]);
  }
  CHECK(offsets.size() > 5);  // 50 draws of 10 values

  PositionRequest evaluation = training(50, 3, 1);
  evaluation.training = false;
  const DrawnPositions plain = sampler->draw(evaluation);
  CHECK(plain.values == std::vector<double>{0, 1, 2});
  CHECK(plain.contiguous);
  CHECK(plain.limit == 3);
}

TEST_CASE("shifted: the offset is uniform in 0 .. max, both ends included", "[positions]") {
  const auto sampler = make_sampler("type = \"shifted\"\nmax = 3\ndraw = \"batch\"");
  std::map<double, int> counts;
  for (uint32_t step = 0; step < 4000; ++step) {
    const DrawnPositions drawn = sampler->draw(training(8, 2, step));
    REQUIRE(drawn.batches == 1);
    ++counts[drawn.values[0]];
  }
  REQUIRE(counts.size() == 4);
  for (const auto& [offset, count] : counts) {
    CHECK(offset <= 3);
    CHECK(std::abs(count - 1000) < 137);  // 5 deviations of sqrt(4000 / 4 * 3 / 4)
  }
}

TEST_CASE("shifted: cutting a batch changes nothing", "[positions]") {
  const auto sampler = make_sampler("type = \"shifted\"\nmax = 1000");
  const std::vector<double> whole = sampler->draw(training(6, 4, 3)).values;
  const std::vector<double> second = sampler->draw(training(2, 4, 3, 4)).values;
  CHECK(std::vector<double>(whole.begin() + 16, whole.end()) == second);
  CHECK(sampler->draw(training(6, 4, 4)).values != whole);
}
