// Vector helpers against libm in double precision, special values, partial loads and stores,
// transposition; scratch memory reuse.
#include "core/cpu/simd.h"

#include <cmath>
#include <limits>
#include <vector>

#include "core/cpu/scratch.h"
#include "tests/catch.h"

namespace longshot::cpu {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Largest distance, in units in the last place of the exact value, over [low, high].
template <class Function, class Reference>
double worst_ulp(float low, float high, Function function, Reference reference) {
  constexpr int kSteps = 200000;
  constexpr int kWidth = Vec<float>::kWidth;
  double worst = 0;
  for (int i = 0; i < kSteps; i += kWidth) {
    float in[kWidth], out[kWidth];
    for (int lane = 0; lane < kWidth; ++lane)
      in[lane] = float(double(low) + (double(high) - low) * (i + lane) / kSteps);
    function(Vec<float>::load(in)).store(out);
    for (int lane = 0; lane < kWidth; ++lane) {
      const double exact = reference(double(in[lane]));
      int exponent = 0;
      std::frexp(exact, &exponent);
      const double ulp = std::ldexp(1.0, std::max(exponent - 24, -149));
      worst = std::max(worst, std::abs(out[lane] - exact) / ulp);
    }
  }
  return worst;
}

template <class Function>
float at(float x, Function function) {
  return function(Vec<float>(x))[Vec<float>::kWidth - 1];
}

TEST_CASE("vector exp, log, tanh and erf are accurate", "[cpu]") {
  auto vexp = [](Vec<float> x) { return exp(x); };
  auto vlog = [](Vec<float> x) { return log(x); };
  auto vtanh = [](Vec<float> x) { return tanh(x); };
  auto verf = [](Vec<float> x) { return erf(x); };
  auto dexp = [](double x) { return std::exp(x); };
  auto dlog = [](double x) { return std::log(x); };
  auto dtanh = [](double x) { return std::tanh(x); };
  auto derf = [](double x) { return std::erf(x); };
  CHECK(worst_ulp(-87.33f, 88.7f, vexp, dexp) < 1.5);
  CHECK(worst_ulp(-1, 1, vexp, dexp) < 1.5);
  CHECK(at(-87.4f, vexp) == 0);  // instead of a subnormal number
  auto vbounded = [](Vec<float> x) { return exp_bounded(x); };
  CHECK(worst_ulp(-64, 64, vbounded, dexp) < 4);
  CHECK(worst_ulp(64, 88, vbounded, dexp) < 5);
  CHECK(worst_ulp(-10, 1, vbounded, dexp) < 2);
  CHECK(at(-64.1f, vbounded) == 0);  // adds nothing to a sum with a term of 1
  CHECK(at(-kInfinity, vbounded) == 0);
  CHECK(at(0, vbounded) == 1);
  CHECK(std::isnan(at(NAN, vbounded)));
  CHECK(worst_ulp(0.4f, 2.5f, vlog, dlog) < 2.0);
  CHECK(worst_ulp(1e-30f, 1e30f, vlog, dlog) < 2.0);
  CHECK(worst_ulp(1e-42f, 1e-37f, vlog, dlog) < 2.0);
  CHECK(worst_ulp(-9, 9, vtanh, dtanh) < 3.0);
  CHECK(worst_ulp(-0.7f, 0.7f, vtanh, dtanh) < 3.0);
  CHECK(worst_ulp(-5, 5, verf, derf) < 3.0);
  CHECK(worst_ulp(-1, 1, verf, derf) < 3.0);

  CHECK(at(-kInfinity, vexp) == 0);
  CHECK(at(kInfinity, vexp) == kInfinity);
  CHECK(at(89, vexp) == kInfinity);
  CHECK(at(-1e30f, vexp) == 0);
  CHECK(at(0, vexp) == 1);
  CHECK(std::isnan(at(NAN, vexp)));
  CHECK(at(0, vlog) == -kInfinity);
  CHECK(at(kInfinity, vlog) == kInfinity);
  CHECK(at(1, vlog) == 0);
  CHECK(std::isnan(at(-1, vlog)));
  CHECK(std::isnan(at(NAN, vlog)));
  CHECK(at(kInfinity, vtanh) == 1);
  CHECK(at(-50, vtanh) == -1);
  CHECK(std::isnan(at(NAN, vtanh)));
  CHECK(at(kInfinity, verf) == 1);
  CHECK(at(-6, verf) == -1);
  CHECK(std::isnan(at(NAN, verf)));
}

template <class T>
void check_lanes() {
  constexpr int kWidth = Vec<T>::kWidth;
  std::vector<T> in(size_t(3 * kWidth)), out;
  for (size_t i = 0; i < in.size(); ++i) in[i] = T(1 + i);
  for (int n = 0; n <= kWidth; ++n) {
    out.assign(in.size(), T(-7));
    const Vec<T> part = Vec<T>::load_partial(in.data() + 1, n);
    part.store_partial(out.data() + 2, n);
    const Vec<T> rest = Vec<T>::load_partial(in.data() + 1, n, Vec<T>(T(-3)));
    for (int i = 0; i < kWidth; ++i) CHECK(part[i] == (i < n ? in[size_t(i + 1)] : T(0)));
    for (int i = 0; i < kWidth; ++i) CHECK(rest[i] == (i < n ? in[size_t(i + 1)] : T(-3)));
    for (int i = 0; i < int(out.size()); ++i)
      CHECK(out[size_t(i)] == (i >= 2 && i < 2 + n ? in[size_t(i - 1)] : T(-7)));
  }
  const Vec<T> first = Vec<T>::load(in.data());
  CHECK(horizontal_sum(first) == T(kWidth * (kWidth + 1) / 2));
  CHECK(horizontal_max(first) == T(kWidth));
  CHECK(horizontal_max(-first) == T(-1));
  CHECK(reverse(first)[0] == T(kWidth));
  CHECK(sqrt(first * first)[kWidth - 1] == T(kWidth));
  std::vector<int32_t> index;
  for (int i = 0; i < kWidth; ++i) index.push_back((i * 5) % kWidth);
  const Vec<T> gathered = gather(in.data(), index.data());
  for (int i = 0; i < kWidth; ++i) CHECK(gathered[i] == in[size_t(index[size_t(i)])]);

  for (int rows : {1, kWidth - 1, kWidth})
    for (int columns : {1, kWidth - 1, kWidth}) {
      std::vector<T> matrix(size_t(rows * (columns + 2)));
      for (size_t i = 0; i < matrix.size(); ++i) matrix[i] = T(i + 1);
      std::vector<T> transposed(size_t(columns * kWidth), T(-1));
      transpose_tile(matrix.data(), columns + 2, rows, columns, transposed.data(), kWidth);
      for (int r = 0; r < kWidth; ++r)
        for (int c = 0; c < columns; ++c)
          CHECK(transposed[size_t(c * kWidth + r)] ==
                (r < rows ? matrix[size_t(r * (columns + 2) + c)] : T(0)));
    }
}

// Vectors of the numbers 0, 1, 2, ... in order: vector r, lane c holds r W + c.
template <class T, size_t count>
void count_up(Vec<T> (&a)[count]) {
  for (int r = 0; r < int(count); ++r)
    for (int c = 0; c < Vec<T>::kWidth; ++c) a[r].v[c] = T(r * Vec<T>::kWidth + c);
}

template <class T>
void check_groups() {
  constexpr int kWidth = Vec<T>::kWidth, kHalf = kWidth / 2;
  Vec<T> a[kWidth], sums[kWidth], maxima[kWidth];
  count_up(a), count_up(sums), count_up(maxima);
  const Vec<T> sum = horizontal_sums(sums), largest = horizontal_maxima(maxima);
  const Vec<T> even = even_lanes(a[0], a[1]), odd = odd_lanes(a[0], a[1]);
  transpose(a);
  for (int r = 0; r < kWidth; ++r) {
    CHECK(sum[r] == T(kWidth * kWidth * r + kWidth * (kWidth - 1) / 2));
    CHECK(largest[r] == T(kWidth * r + kWidth - 1));
    CHECK(even[r] == T(2 * r));
    CHECK(odd[r] == T(2 * r + 1));
    for (int c = 0; c < kWidth; ++c) CHECK(a[c][r] == T(r * kWidth + c));
  }
  // W rows of W/2 elements: row r, column c holds r W/2 + c.
  Vec<T> narrow[kHalf];
  count_up(narrow);
  transpose_narrow(narrow);
  for (int r = 0; r < kWidth; ++r)
    for (int c = 0; c < kHalf; ++c) CHECK(narrow[c][r] == T(r * kHalf + c));
  transpose(narrow);
  for (int r = 0; r < kHalf; ++r)
    for (int c = 0; c < kWidth; ++c) CHECK(narrow[r][c] == T(r * kWidth + c));
}

TEST_CASE("half vectors are joined and taken apart", "[cpu]") {
  constexpr int kWidth = Vec<float>::kWidth, kHalf = kWidth / 2;
  float in[kWidth + 1], out[kWidth];
  for (int i = 0; i <= kWidth; ++i) in[i] = float(i);
  const Vec<float> joined = join_halves(load_half(in + 1 + kHalf), load_half(in + 1));
  store_half(upper_half(joined), out);
  store_half(lower_half(joined), out + kHalf);
  for (int i = 0; i < kWidth; ++i) CHECK(out[i] == float(i + 1));
}

TEST_CASE("vector lanes: partial access, sums, gather, transposition", "[cpu]") {
  check_lanes<float>();
  check_lanes<double>();
  check_groups<float>();
  check_groups<double>();
}

TEST_CASE("scratch memory is aligned, nested and reused", "[cpu]") {
  release_scratch();
  void* first = nullptr;
  for (int round = 0; round < 3; ++round) {
    ScratchScope outer;
    auto* a = outer.allocate<float>(100);
    a[99] = 1;
    CHECK(reinterpret_cast<uintptr_t>(a) % 64 == 0);
    {
      ScratchScope inner;
      auto* b = inner.allocate<double>(300000);  // more than the first block holds
      b[299999] = 2;
      CHECK(static_cast<void*>(b) != static_cast<void*>(a));
    }
    auto* c = outer.allocate<char>(1);
    *c = 3;
    CHECK(reinterpret_cast<uintptr_t>(c) % 64 == 0);
    CHECK(static_cast<void*>(c) != static_cast<void*>(a));
    CHECK(a[99] == 1);
    if (round == 1) first = a;
    if (round == 2) CHECK(first == a);  // after warm-up the same work gets the same memory
  }
  const int64_t held = scratch_bytes();
  {
    ScratchScope again;
    again.allocate<double>(300000);
  }
  CHECK(scratch_bytes() == held);
  {
    ScratchScope open;
    CHECK_THROWS_WITH(release_scratch(), ContainsSubstring("1 scope(s) are open"));
  }
  release_scratch();
  CHECK(scratch_bytes() == 0);
}

}  // namespace
}  // namespace longshot::cpu
