// Tests of what kernels compute. Those tagged [cpu] look inside the CPU's; the others call methods
// of the backend that tests run on (tests/support/kernel_call.h). What they share: outputs between
// guard elements, comparison with a reference, finite differences, and the rule that bits do not
// depend on the number of threads.
#pragma once

#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <string>
#include <vector>

#include "core/backend.h"
#include "core/parallel.h"
#include "core/random.h"
#include "tests/catch.h"
#include "tests/support/kernel_call.h"

namespace longshot::test {

using testing::call_kernel;

// An array whose surroundings are watched. Fresh elements are NaN, so that a kernel which forgets
// to write one, or reads an output it should only write, is seen.
template <class T>
class Guarded {
 public:
  static constexpr size_t kGuard = 32;
  explicit Guarded(int64_t n, T value = std::nan(""))
      : n_(size_t(n)), data_(n_ + 2 * kGuard, T(-77)) {
    for (size_t i = 0; i < n_; ++i) data_[kGuard + i] = value;
  }
  explicit Guarded(const std::vector<T>& values) : Guarded(int64_t(values.size())) {
    std::copy(values.begin(), values.end(), data_.begin() + kGuard);
  }
  T* data() { return data_.data() + kGuard; }
  // The content; fails when a guard was touched.
  std::vector<T> values(const std::string& what = "output") const {
    for (size_t i = 0; i < kGuard; ++i) {
      if (data_[i] != T(-77)) FAIL(what << ": element " << int(i) - int(kGuard) << " was written");
      if (data_[kGuard + n_ + i] != T(-77)) FAIL(what << ": element n + " << i << " was written");
    }
    return {data_.begin() + kGuard, data_.end() - kGuard};
  }

 private:
  size_t n_;
  std::vector<T> data_;
};

template <class T>
std::vector<T> uniform(int64_t n, uint32_t stream, double low = -1, double high = 1) {
  RandomSequence sequence({1, RandomPurpose::test, stream, 0});
  std::vector<T> result(static_cast<size_t>(n));
  for (T& value : result) value = T(low + (high - low) * sequence.uniform());
  return result;
}
inline std::vector<int32_t> integers(int64_t n, uint32_t stream, int low, int high) {
  RandomSequence sequence({2, RandomPurpose::test, stream, 0});
  std::vector<int32_t> result(static_cast<size_t>(n));
  for (int32_t& value : result) value = int32_t(sequence.between(low, high));
  return result;
}

template <class T>
constexpr double tolerance() {
  return sizeof(T) == 4 ? 4e-6 : 1e-13;
}

// |got - want| <= tolerance (1 + |want|), element by element.
template <class T, class W>
void expect_close(const std::vector<T>& got, const std::vector<W>& want, double tolerance,
                  const std::string& what) {
  INFO(what);
  REQUIRE(got.size() == want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    const double g = double(got[i]), w = double(want[i]);
    const bool same = std::isinf(w) ? g == w : std::abs(g - w) <= tolerance * (1 + std::abs(w));
    if (!same) FAIL(fmt::format("{}: element {}: got {:.9g}, want {:.9g}", what, i, g, w));
  }
  SUCCEED();
}

template <class T>
void expect_same_bits(const std::vector<T>& a, const std::vector<T>& b, const std::string& what) {
  INFO(what);
  REQUIRE(a.size() == b.size());
  REQUIRE((a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0));
}

// run() gives a vector; it must be the same, bit for bit, with 1, 2, 3 and 4 threads; on CUDA,
// twice.
template <class Run>
void expect_thread_independent(const Run& run, const std::string& what) {
  if (testing::testing_cuda()) return expect_same_bits(run(), run(), what + " twice");
  const int before = threads();
  set_threads(1);
  const auto one = run();
  for (int n = 2; n <= 4; ++n) {
    set_threads(n);
    expect_same_bits(run(), one, fmt::format("{} with {} threads", what, n));
  }
  set_threads(before);
}

// analytic[i] against (loss(x + h e_i) - loss(x - h e_i)) / 2h. `x` is what loss() reads.
template <class Loss>
void expect_gradient(std::vector<double>& x, const std::vector<double>& analytic, const Loss& loss,
                     const std::string& what) {
  REQUIRE(x.size() == analytic.size());
  const double h = 1e-5;
  for (size_t i = 0; i < x.size(); ++i) {
    const double keep = x[i];
    x[i] = keep + h;
    const double above = loss();
    x[i] = keep - h;
    const double below = loss();
    x[i] = keep;
    const double numeric = (above - below) / (2 * h);
    if (!(std::abs(numeric - analytic[i]) <= 1e-7 * (1 + std::abs(numeric)))) {
      FAIL(fmt::format("{}: gradient {}: analytic {:.10g}, numeric {:.10g}", what, i, analytic[i],
                       numeric));
    }
  }
  SUCCEED();
}

inline double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

template <class T>
std::vector<double> widened(const std::vector<T>& values) {
  return {values.begin(), values.end()};
}

// base + values: what an accumulating kernel must leave.
template <class T>
std::vector<double> added(const std::vector<T>& base, const std::vector<double>& values) {
  std::vector<double> result = values;
  for (size_t i = 0; i < result.size(); ++i) result[i] += double(base[i]);
  return result;
}

}  // namespace longshot::test
