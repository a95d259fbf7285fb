// Philox and everything drawn from it. Pinned values come from tests/reference/random_reference.py,
// which writes the generator out again; the known answers are those of the Random123 distribution.
#include "core/random.h"

#include <cmath>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "core/error.h"
#include "tests/catch.h"

using namespace longshot;

namespace {

constexpr RandomKey kSeedOne{1, RandomPurpose::test, 0, 0};

void check_block(const uint32_t (&counter)[4], const uint32_t (&key)[2],
                 const uint32_t (&expected)[4]) {
  const Philox4 block = philox4x32(counter, key);
  for (int i = 0; i < 4; ++i) CHECK(block.value[i] == expected[i]);
}

// Smallest and largest chi-square that 100 equally likely cells give but once in some 10^6 times.
constexpr double kChiSquareLow99 = 43, kChiSquareHigh99 = 178;

double chi_square(const std::vector<int64_t>& counts) {
  const int64_t draws = std::accumulate(counts.begin(), counts.end(), int64_t(0));
  const double expected = double(draws) / double(counts.size());
  double sum = 0;
  for (const int64_t count : counts)
    sum += (double(count) - expected) * (double(count) - expected) / expected;
  return sum;
}

}  // namespace

TEST_CASE("Philox 4x32-10 gives the published known answers") {
  check_block({0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  constexpr uint32_t kOnes = 0xffffffff;
  check_block({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes},
              {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  check_block({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0},
              {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("seed 1: the first uniforms, normals, shuffles are pinned (B35)") {
  const double uniforms[] = {0x1.283c70cd12244p-1, 0x1.288ee7fb56c34p-2, 0x1.40abd58c91c20p-3,
                             0x1.e65907b0d750cp-1, 0x1.6ca20dff25d12p-2, 0x1.9f58cc3cd79ffp-1,
                             0x1.14d0e0a83b68fp-1, 0x1.d289265dafaaep-2};
  RandomSequence uniform(kSeedOne);
  for (const double expected : uniforms) CHECK(uniform.uniform() == expected);

  // log and cos may differ by a last bit between mathematics libraries.
  const double normals[] = {-0.32379771928578743, 0.5549096002392455, 0.3521075055616546,
                            -1.1991402228118027,  1.417820815162817,  0.4407858397738322,
                            -0.5158912478409815,  1.3870471964808013};
  RandomSequence normal(kSeedOne);
  for (const double expected : normals) CHECK(std::abs(normal.normal() - expected) < 1e-14);

  const std::vector<std::vector<int>> shuffles = {
      {6, 3, 0, 2, 1, 5, 7, 4}, {4, 1, 0, 3, 6, 2, 5, 7}, {2, 4, 5, 1, 6, 0, 7, 3},
      {2, 4, 0, 5, 6, 1, 7, 3}, {2, 3, 7, 4, 5, 0, 6, 1}, {1, 0, 4, 7, 5, 3, 6, 2},
      {6, 0, 2, 5, 7, 3, 4, 1}, {2, 1, 0, 7, 5, 3, 4, 6}};
  RandomSequence shuffle(kSeedOne);
  for (const std::vector<int>& expected : shuffles) {
    std::vector<int> items(8);
    std::iota(items.begin(), items.end(), 0);
    shuffle.shuffle(items.data(), int64_t(items.size()));
    CHECK(items == expected);
  }

  const uint64_t below_ten[] = {5, 5, 8, 2, 5, 1, 4, 9, 7, 3, 4, 8};
  RandomSequence below(kSeedOne);
  for (const uint64_t expected : below_ten) CHECK(below.below(10) == expected);
}

TEST_CASE("a stream's words are a pure function of its key and the index") {
  const RandomKey key{0x123456789ABCDEF0, RandomPurpose::data, 77, 5};
  const uint32_t expected[] = {0x9bc520fe, 0x43ff38f9, 0x6ab0fc06,
                               0x2652f139, 0x396fdcea, 0x38fe80f1};
  RandomSequence sequence(key);
  for (const uint32_t word : expected) CHECK(sequence.word() == word);
  for (int i = 5; i >= 0; --i) CHECK(random_word(key, uint64_t(i)) == expected[i]);

  // Another sequence drawn in between disturbs nothing.
  RandomSequence first(key), second(key), other(kSeedOne);
  for (int i = 0; i < 100; ++i) {
    const uint32_t word = first.word();
    other.normal();
    CHECK(word == second.word());
  }
}

TEST_CASE("every part of the key gives other numbers") {
  std::set<uint64_t> seen;
  const auto add = [&](const RandomKey& key) {
    RandomSequence sequence(key);
    seen.insert(sequence.word64());
  };
  add({1, RandomPurpose::data, 2, 3});
  add({2, RandomPurpose::data, 2, 3});
  add({1 | uint64_t(1) << 32, RandomPurpose::data, 2, 3});
  add({1, RandomPurpose::dropout, 2, 3});
  add({1, RandomPurpose::data, 3, 3});
  add({1, RandomPurpose::data, 2, 4});
  CHECK(seen.size() == 6);
  const RandomKey key{1, RandomPurpose::data, 2, 3};
  CHECK(random_word(key, 4) != random_word(key, uint64_t(4) + (uint64_t(1) << 34)));
}

TEST_CASE("to_unit_float covers [0, 1) exactly") {
  CHECK(to_unit_float(0) == 0.0f);
  CHECK(to_unit_float(0xff) == 0.0f);
  CHECK(to_unit_float(0x100) == 0x1p-24f);
  CHECK(to_unit_float(0x80000000u) == 0.5f);
  CHECK(to_unit_float(0xffffffffu) == 1.0f - 0x1p-24f);
}

TEST_CASE("uniform is uniform") {
  RandomSequence sequence({7, RandomPurpose::test, 1, 0});
  std::vector<int64_t> counts(100);
  for (int i = 0; i < 200000; ++i) {
    const double value = sequence.uniform();
    REQUIRE(value >= 0.0);
    REQUIRE(value < 1.0);
    ++counts[size_t(value * 100)];
  }
  const double statistic = chi_square(counts);
  CHECK(statistic > kChiSquareLow99);
  CHECK(statistic < kChiSquareHigh99);
}

TEST_CASE("below is unbiased and stays in range") {
  RandomSequence sequence({7, RandomPurpose::test, 2, 0});
  std::vector<int64_t> counts(100);
  for (int i = 0; i < 200000; ++i) ++counts.at(sequence.below(100));
  CHECK(chi_square(counts) > kChiSquareLow99);
  CHECK(chi_square(counts) < kChiSquareHigh99);

  // A bound of 3 * 2^30 shows what a plain modulus would do: a third of the results twice as
  // likely.
  const uint64_t bound = uint64_t(3) << 30;
  std::vector<int64_t> thirds(3);
  for (int i = 0; i < 30000; ++i) ++thirds.at(sequence.below(bound) / (bound / 3));
  for (const int64_t count : thirds) CHECK(std::abs(count - 10000) < 500);

  // The same past 32 bits.
  const uint64_t wide = uint64_t(3) << 62;
  std::vector<int64_t> wide_thirds(3);
  for (int i = 0; i < 30000; ++i) ++wide_thirds.at(sequence.below(wide) / (wide / 3));
  for (const int64_t count : wide_thirds) CHECK(std::abs(count - 10000) < 500);

  CHECK(sequence.below(1) == 0);
  CHECK_THROWS_AS(sequence.below(0), Error);
}

TEST_CASE("between includes both ends") {
  RandomSequence sequence({7, RandomPurpose::test, 3, 0});
  std::set<int64_t> seen;
  for (int i = 0; i < 200; ++i) seen.insert(sequence.between(-2, 2));
  CHECK(seen == std::set<int64_t>{-2, -1, 0, 1, 2});
  CHECK(sequence.between(5, 5) == 5);
  CHECK_THROWS_AS(sequence.between(2, 1), Error);
}

TEST_CASE("normal and truncated normal have the right moments") {
  const int draws = 200000;
  RandomSequence sequence({7, RandomPurpose::test, 4, 0});
  double sum = 0, squares = 0, fourth = 0;
  for (int i = 0; i < draws; ++i) {
    const double value = sequence.normal();
    sum += value, squares += value * value, fourth += value * value * value * value;
  }
  // Standard errors: 1 / sqrt(n), sqrt(2 / n), sqrt(96 / n); five of them allowed.
  CHECK(std::abs(sum / draws) < 0.0112);
  CHECK(std::abs(squares / draws - 1) < 0.0158);
  CHECK(std::abs(fourth / draws - 3) < 0.110);

  // Conditioned on |x| <= 2 the variance is 1 - 4 phi(2) / (2 Phi(2) - 1) = 0.773741.
  double truncated_sum = 0, truncated_squares = 0, largest = 0;
  for (int i = 0; i < draws; ++i) {
    const double value = sequence.truncated_normal();
    truncated_sum += value, truncated_squares += value * value;
    largest = std::max(largest, std::abs(value));
  }
  CHECK(std::abs(truncated_sum / draws) < 0.0099);
  CHECK(std::abs(truncated_squares / draws - 0.773741) < 0.011);
  CHECK(largest <= 2.0);
  CHECK(largest > 1.99);
}

TEST_CASE("hash_name is FNV-1a") {
  // The published values of the 64-bit FNV-1a hash.
  CHECK(hash_name("", 0) == 0xcbf29ce484222325ull);
  CHECK(hash_name("a", 1) == 0xaf63dc4c8601ec8cull);
  CHECK(hash_name("foobar", 6) == 0x85944171f73967e8ull);
}
