// The same call on the CPU and on a second backend (the emulated CUDA device), on equal data, and
// the comparison of what comes out.
//
//   Both both;
//   const auto x = both.random(n), y = both.output(n);
//   both.run([&](Backend& backend, int side) { ... x[side] ... y[side] ... });
//   both.check(y, "what");
#pragma once

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "core/backend.h"
#include "core/cpu/cpu_backend.h"
#include "core/random.h"
#include "tests/catch.h"

namespace longshot::test {

class Both {
 public:
  struct Buffer {
    void* on[2];
    int64_t n;
    void* operator[](int side) const { return on[side]; }
    float* f(int side) const { return static_cast<float*>(on[side]); }
    int32_t* i(int side) const { return static_cast<int32_t*>(on[side]); }
  };

  Both(Backend& cpu, Backend& other) : backend_{&cpu, &other} {}
  ~Both() {
    for (const Owned& owned : owned_) backend_[owned.side]->release(owned.pointer, owned.bytes);
  }
  Both(const Both&) = delete;
  Both& operator=(const Both&) = delete;

  Backend& cpu() const { return *backend_[0]; }
  Backend& other() const { return *backend_[1]; }

  template <class T>
  Buffer put(const std::vector<T>& values) {
    const size_t bytes = values.size() * sizeof(T);
    Buffer buffer{{nullptr, nullptr}, int64_t(values.size())};
    for (int side = 0; side < 2; ++side) {
      buffer.on[side] = backend_[side]->allocate(bytes);
      owned_.push_back({side, buffer.on[side], bytes});
      backend_[side]->copy_to_device(buffer.on[side], values.data(), bytes);
    }
    return buffer;
  }
  Buffer random(int64_t n, double low = -1, double high = 1) {
    return put(random_values(n, low, high));
  }
  Buffer integers(int64_t n, int64_t low, int64_t high) {
    std::vector<int32_t> values(static_cast<size_t>(n));
    for (auto& value : values) value = int32_t(sequence_.between(low, high));
    return put(values);
  }
  // NaN where the call must write, given values where it adds to them.
  Buffer output(int64_t n, bool accumulate = false) {
    if (accumulate) return random(n);
    return put(std::vector<float>(static_cast<size_t>(n), std::numeric_limits<float>::quiet_NaN()));
  }
  std::vector<float> random_values(int64_t n, double low = -1, double high = 1) {
    std::vector<float> values(static_cast<size_t>(n));
    for (auto& value : values) value = float(low + (high - low) * sequence_.uniform());
    return values;
  }

  template <class F>
  void run(const F& f) {
    for (int side = 0; side < 2; ++side) f(*backend_[side], side);
  }

  template <class T = float>
  std::vector<T> read(const Buffer& buffer, int side) const {
    std::vector<T> values(static_cast<size_t>(buffer.n));
    backend_[side]->copy_to_host(values.data(), buffer.on[side], values.size() * sizeof(T));
    return values;
  }

  // |a - b| <= tolerance * (1 + |a|), and everything was written.
  void check(const Buffer& buffer, const std::string& what, double tolerance = 2e-5) const {
    const auto expected = read(buffer, 0), got = read(buffer, 1);
    size_t bad = expected.size();
    for (size_t i = 0; i < expected.size() && bad == expected.size(); ++i) {
      const double a = double(expected[i]), b = double(got[i]);
      const bool same = a == b || std::abs(a - b) <= tolerance * (1 + std::abs(a));
      if (!same) bad = i;  // NaN is never the same
    }
    INFO(what << ": element " << bad << " of " << expected.size() << ", cpu "
              << (bad < expected.size() ? expected[bad] : 0) << ", other "
              << (bad < got.size() ? got[bad] : 0));
    CHECK(bad == expected.size());
  }
  void check_bits(const Buffer& buffer, const std::string& what) const {
    INFO(what);
    CHECK(read<int32_t>(buffer, 0) == read<int32_t>(buffer, 1));
  }

 private:
  struct Owned {
    int side;
    void* pointer;
    size_t bytes;
  };
  Backend* backend_[2];
  std::vector<Owned> owned_;
  RandomSequence sequence_{RandomKey{7, RandomPurpose::test, 1, 0}};
};

}  // namespace longshot::test
