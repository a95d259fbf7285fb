// Vectorised Philox against core/random.h word for word; dropout against its definition.
#include "core/cpu/dropout.h"

#include "core/cpu/philox.h"
#include "tests/core/cpu/kernel_test.h"

using namespace longshot;
using namespace longshot::test;

TEST_CASE("vectorised Philox gives the scalar words, also across the 32-bit border",
          "[cpu][dropout]") {
  for (uint64_t first : {uint64_t(0), uint64_t(5), uint64_t(0xFFFFFFF0u), uint64_t(1) << 40}) {
    for (int64_t blocks : {0, 1, 3, 31, 32, 33, 100}) {
      const RandomKey key{0x123456789ABCDEFull, RandomPurpose::dropout, 77, 0xFFFFFFFFu};
      std::vector<uint32_t> words(size_t(4 * blocks + 1), 0xABCDu);
      cpu::random_words(key, first, blocks, words.data());
      for (int64_t i = 0; i < 4 * blocks; ++i) {
        REQUIRE(words[size_t(i)] == random_word(key, 4 * first + uint64_t(i)));
      }
      REQUIRE(words.back() == 0xABCDu);
    }
  }
}

namespace {

template <class T>
std::vector<T> run(const std::vector<T>& x, const DropoutSpec& spec,
                   const std::vector<T>* base = nullptr) {
  Guarded<T> y = base != nullptr ? Guarded<T>(*base) : Guarded<T>(int64_t(x.size()));
  DropoutArgs args;
  args.n = int64_t(x.size()), args.x = x.data(), args.y = y.data(), args.dropout = spec;
  args.accumulate = base != nullptr;
  call_kernel<T>(&Backend::dropout, args);
  return y.values();
}

}  // namespace

TEMPLATE_TEST_CASE("dropout follows its definition element by element", "[dropout]", float,
                   double) {
  using T = TestType;
  StepState state;
  state.seed = 9, state.step = 4, state.training = 1;
  for (float p : {0.1f, 0.5f, 0.9f, 1.0f}) {
    for (int64_t offset : {0, 3}) {
      state.sample_offset = offset;
      DropoutSpec spec;
      spec.p = p, spec.stream = 6, spec.elements_per_sample = 35, spec.state = &state;
      for (int64_t n : {0, 1, 5, 513, 40009}) {
        const auto x = uniform<T>(n, 1), base = uniform<T>(n, 2);
        std::vector<double> want;
        for (int64_t i = 0; i < n; ++i) {
          const RandomKey key{9, RandomPurpose::dropout, 6, 4};
          const float u = to_unit_float(random_word(key, uint64_t(i + offset * 35)));
          want.push_back(u >= p ? double(x[size_t(i)]) / (1 - double(p)) : 0);
        }
        expect_close(run(x, spec), want, tolerance<T>(), "dropout");
        expect_close(run(x, spec, &base), added(base, want), tolerance<T>(), "dropout added");
        expect_thread_independent([&] { return run(x, spec); }, "dropout");
      }
    }
  }
}

TEST_CASE("dropout keeps everything when p = 0 or not training", "[dropout]") {
  StepState state;
  DropoutSpec spec;
  spec.p = 0.5f, spec.state = &state;  // training = 0
  const auto x = uniform<float>(1000, 1);
  expect_same_bits(run(x, spec), x, "not training");
  state.training = 1;
  CHECK(run(x, spec) != x);
  spec.p = 0, spec.state = nullptr;
  expect_same_bits(run(x, spec), x, "p = 0 without a state");
}

TEST_CASE("dropout drops about the share asked for, differently by step and stream", "[dropout]") {
  StepState state;
  state.training = 1;
  DropoutSpec spec;
  spec.p = 0.25f, spec.state = &state;
  const int64_t n = 100000;
  const std::vector<float> ones(size_t(n), 1.0f);
  const auto a = run(ones, spec);
  const double dropped = double(std::count(a.begin(), a.end(), 0.0f)) / double(n);
  CHECK(std::abs(dropped - 0.25) < 5 * std::sqrt(0.25 * 0.75 / double(n)));
  state.step = 1;
  const auto b = run(ones, spec);
  state.step = 0, spec.stream = 1;
  const auto c = run(ones, spec);
  CHECK(a != b);
  CHECK(a != c);
  CHECK(b != c);
}

TEST_CASE("a micro-batch draws what its rows of the whole batch drew", "[dropout]") {
  StepState state;
  state.training = 1;
  DropoutSpec spec;
  spec.p = 0.5f, spec.state = &state, spec.elements_per_sample = 7;
  const std::vector<float> ones(7 * 10, 1.0f);
  const auto whole = run(ones, spec);
  state.sample_offset = 6;
  const auto part = run(std::vector<float>(7 * 4, 1.0f), spec);
  CHECK(part == std::vector<float>(whole.begin() + 42, whole.end()));
}
