#include <algorithm>
#include <map>

#include "tests/catch.h"
#include "tests/nn/positions/sampler_support.h"

using namespace longshot;

namespace {

PositionRequest training(int64_t batch, int64_t length, uint32_t step, int64_t first = 0) {
  return {.batch = batch,
          .length = length,
          .training = true,
          .seed = 11,
          .step = step,
          .first_sample = first};
}
PositionRequest evaluation(int64_t batch, int64_t length, int64_t first = 0) {
  return {.batch = batch, .length = length, .training = false, .seed = 11, .first_sample = first};
}
std::vector<double> row(const DrawnPositions& drawn, int64_t index, int64_t length) {
  const int64_t at = drawn.batches == 1 ? 0 : index;
  return {drawn.values.begin() + at * length, drawn.values.begin() + (at + 1) * length};
}

}  // namespace

TEST_CASE("randomized: every subset of 0 .. max - 1 equally likely, sorted", "[positions]") {
  // M = 10, n = 3: 120 subsets; E[first] = (M + 1) / (n + 1) - 1 = 1.75, E[gap] = 11 / 4 = 2.75,
  // P(0 is in) = 0.3.
  const auto sampler = make_sampler("type = \"randomized\"\nmax = 10\ndraw = \"sequence\"");
  const int64_t draws = 60000;
  const DrawnPositions drawn = sampler->draw(training(draws, 3, 1));
  REQUIRE(drawn.batches == draws);
  CHECK(drawn.limit == 10);
  std::map<std::vector<double>, int> counts;
  double first = 0, gap = 0, zero = 0;
  for (int64_t b = 0; b < draws; ++b) {
    const std::vector<double> p = row(drawn, b, 3);
    ++counts[p];
    first += p[0];
    gap += p[1] - p[0];
    zero += p[0] == 0;
  }
  CHECK(counts.size() == 120);
  double chi_square = 0;
  bool ordered = true;
  for (const auto& [p, count] : counts) {
    ordered = ordered && 0 <= p[0] && p[0] < p[1] && p[1] < p[2] && p[2] < 10;
    chi_square += (count - 500.0) * (count - 500.0) / 500.0;
  }
  CHECK(ordered);
  CHECK(chi_square < 119 + 5 * std::sqrt(2 * 119.0));
  CHECK(first / double(draws) == Approx(1.75).margin(0.03));
  CHECK(gap / double(draws) == Approx(2.75).margin(0.03));
  CHECK(zero / double(draws) == Approx(0.3).margin(0.01));
}

TEST_CASE("randomized: as many tokens as positions takes them all; more is an error",
          "[positions]") {
  const auto sampler = make_sampler("type = \"randomized\"\nmax = 130");
  std::vector<double> all(130);
  for (size_t i = 0; i < all.size(); ++i) all[i] = double(i);
  CHECK(sampler->draw(training(1, 130, 4)).values == all);
  CHECK_THROWS_WITH(sampler->draw(training(1, 131, 4)),
                    ContainsSubstring("131") && ContainsSubstring("max = 130"));
  CHECK_THROWS_AS(sampler->draw(evaluation(1, 131)), Error);
  CHECK(sampler->capacity() == 130);
  CHECK(sampler->position_limit() == 130);
}

TEST_CASE("randomized: one draw a batch, keyed by seed and step alone", "[positions]") {
  const auto sampler = make_sampler("type = \"randomized\"\nmax = 500");
  const DrawnPositions drawn = sampler->draw(training(8, 20, 3));
  CHECK(drawn.batches == 1);
  CHECK(sampler->draw(training(2, 20, 3, 6)).values == drawn.values);  // a later micro-batch
  CHECK(sampler->draw(training(8, 20, 4)).values != drawn.values);
  PositionRequest other = training(8, 20, 3);
  other.seed = 12;
  CHECK(sampler->draw(other).values != drawn.values);
}

TEST_CASE("randomized: draws by sequence do not depend on how a batch is cut", "[positions]") {
  const auto sampler = make_sampler("type = \"randomized\"\nmax = 500\ndraw = \"sequence\"");
  const DrawnPositions whole = sampler->draw(training(8, 20, 3));
  REQUIRE(whole.batches == 8);
  const DrawnPositions part = sampler->draw(training(3, 20, 3, 5));
  for (int64_t b = 0; b < 3; ++b) CHECK(row(part, b, 20) == row(whole, 5 + b, 20));
  CHECK(row(whole, 0, 20) != row(whole, 1, 20));
}

TEST_CASE("randomized: evaluation draws by length and group of samples", "[positions]") {
  const auto sampler = make_sampler("type = \"randomized\"\nmax = 500\ndraw_every = 4");
  CHECK(sampler->samples_per_draw() == 4);
  const DrawnPositions whole = sampler->draw(evaluation(12, 20));
  REQUIRE(whole.batches == 12);
  CHECK(row(whole, 0, 20) == row(whole, 3, 20));
  CHECK(row(whole, 3, 20) != row(whole, 4, 20));
  // Another cut, aligned or not, gives each sample the same positions.
  CHECK(sampler->draw(evaluation(4, 20, 4)).batches == 1);
  CHECK(row(sampler->draw(evaluation(4, 20, 4)), 0, 20) == row(whole, 5, 20));
  CHECK(row(sampler->draw(evaluation(5, 20, 6)), 3, 20) == row(whole, 9, 20));
  // The training step is no part of it; the length is.
  PositionRequest later = evaluation(12, 20);
  later.step = 99;
  CHECK(sampler->draw(later).values == whole.values);
  const std::vector<double> longer = row(sampler->draw(evaluation(1, 21)), 0, 21);
  CHECK(std::vector<double>(longer.begin(), longer.end() - 1) != row(whole, 0, 20));
}

TEST_CASE("randomized: draw_every = 0 shares one draw among all samples of a length",
          "[positions]") {
  const auto sampler = make_sampler("type = \"randomized\"\nmax = 500\ndraw_every = 0");
  const DrawnPositions early = sampler->draw(evaluation(3, 9)),
                       late = sampler->draw(evaluation(3, 9, 1000));
  CHECK(early.batches == 1);
  CHECK(early.values == late.values);
  CHECK(sampler->samples_per_draw() == 0);
}

TEST_CASE("randomized: evaluation evenly spaced or off", "[positions]") {
  const auto even = make_sampler("type = \"randomized\"\nmax = 11\nevaluate = \"even\"");
  CHECK(even->draw(evaluation(2, 5)).values ==
        std::vector<double>{0, 2, 5, 7, 10});  // 10 t / 4, rounded down
  CHECK(even->draw(evaluation(2, 1)).values == std::vector<double>{0});
  CHECK_FALSE(even->draw(evaluation(2, 5)).fractional);
  CHECK(even->samples_per_draw() == 0);
  const auto off = make_sampler("type = \"randomized\"\nmax = 11\nevaluate = \"off\"");
  CHECK(off->draw(evaluation(2, 5)).values == std::vector<double>{0, 1, 2, 3, 4});
  CHECK(off->draw(evaluation(2, 5)).contiguous);
  CHECK(off->draw(evaluation(2, 5)).limit == 5);
  CHECK_FALSE(off->draw(training(2, 5, 1)).contiguous);
}

TEST_CASE("randomized: drawn distances start at 0 and then are distinct in 1 .. max - 1",
          "[positions]") {
  const auto distances = make_sampler("type = \"randomized\"\nmax = 40\nrelative = \"distances\"");
  const auto differences = make_sampler("type = \"randomized\"\nmax = 40");
  const DrawnPositions drawn = distances->draw(training(1, 12, 5));
  REQUIRE(drawn.distances.size() == 12);
  CHECK(drawn.distances[0] == 0);
  CHECK(drawn.distances[1] >= 1);
  CHECK(std::adjacent_find(drawn.distances.begin(), drawn.distances.end(),
                           std::greater_equal<>()) == drawn.distances.end());
  CHECK(drawn.distances.back() <= 39);
  CHECK(drawn.distances != drawn.values);
  // The option changes nothing about the positions.
  CHECK(drawn.values == differences->draw(training(1, 12, 5)).values);
  CHECK(differences->draw(training(1, 12, 5)).distances.empty());
  // All of them when there are as many tokens as positions.
  CHECK(distances->draw(training(1, 40, 5)).distances.back() == 39);
}

TEST_CASE("randomized: a fresh draw in every layer when asked", "[positions]") {
  const auto sampler = make_sampler("type = \"randomized\"\nmax = 500\nper_layer = true");
  CHECK(sampler->per_layer());
  PositionRequest request = training(2, 20, 3);
  const std::vector<double> first = sampler->draw(request).values;
  request.layer = 1;
  CHECK(sampler->draw(request).values != first);
}

TEST_CASE("randomized: wrong options are refused with their place", "[positions]") {
  CHECK_THROWS_WITH(make_sampler("type = \"randomized\"\nmax = 0"),
                    ContainsSubstring("test.toml:2"));
  CHECK_THROWS_AS(make_sampler("type = \"randomized\"\nevaluate = \"never\""), UsageError);
  CHECK_THROWS_WITH(make_sampler("type = \"randomized\"\nmaximum = 5"), ContainsSubstring("max"));
}
