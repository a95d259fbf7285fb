#include "tests/support/backend_parity.h"

#include <cmath>
#include <cstring>

#include "tests/catch.h"
#include "tests/support/gradient_check.h"
#include "tests/support/test_backends.h"

namespace longshot::testing {

Parity::Parity(Backend& tested, DType dtype)
    : backends_{&reference_backend(), &tested}, dtype_(dtype) {}

Parity::~Parity() {
  for (const Entry& entry : entries_)
    for (int which = 0; which < 2; ++which)
      backends_[which]->release(entry.block[which], entry.bytes + 2 * kGuard);
}

Parity::Array Parity::add(const void* content, size_t bytes, Kind kind) {
  std::vector<unsigned char> image(bytes + 2 * kGuard, 0xA5);
  if (bytes > 0) std::memcpy(image.data() + kGuard, content, bytes);
  Entry entry{kind, bytes, {}};
  for (int which = 0; which < 2; ++which) {
    entry.block[which] = backends_[which]->allocate(image.size());
    backends_[which]->copy_to_device(entry.block[which], image.data(), image.size());
  }
  entries_.push_back(entry);
  return entries_.size() - 1;
}

Parity::Array Parity::floats(const std::vector<double>& values) {
  if (dtype_ == DType::f64) return add(values.data(), values.size() * 8, Kind::floats);
  const std::vector<float> rounded(values.begin(), values.end());
  return add(rounded.data(), rounded.size() * 4, Kind::floats);
}

Parity::Array Parity::random(int64_t n, double low, double high) {
  return floats(random_values(n, next_seed_++, low, high));
}

Parity::Array Parity::output(int64_t n, bool accumulate) {
  return accumulate ? random(n) : floats(std::vector<double>(size_t(n), std::nan("")));
}

Parity::Array Parity::integers(const std::vector<int32_t>& values) {
  return add(values.data(), values.size() * 4, Kind::integers);
}

Parity::Array Parity::random_integers(int64_t n, int32_t low, int32_t high) {
  return integers(testing::random_integers(n, next_seed_++, low, high));
}

void* Parity::Side::operator[](Array array) const {
  if (array == kNone) return nullptr;
  return static_cast<char*>(parity_->entries_[array].block[which_]) + kGuard;
}

Parity::Side Parity::side(int which) const {
  Side result;
  result.parity_ = this;
  result.which_ = which;
  return result;
}

void Parity::download(Array array, int which, void* to) const {
  const Entry& entry = entries_[array];
  if (entry.bytes > 0)
    backends_[which]->copy_to_host(to, static_cast<char*>(entry.block[which]) + kGuard,
                                   entry.bytes);
}

void Parity::compare(const std::string& what) const {
  INFO(what << " in " << name_of(dtype_) << " on " << backends_[1]->name());
  for (Array array = 0; array < entries_.size(); ++array) {
    const Entry& entry = entries_[array];
    std::vector<unsigned char> image(entry.bytes + 2 * kGuard);
    backends_[1]->copy_to_host(image.data(), entry.block[1], image.size());
    for (size_t i = 0; i < kGuard; ++i)
      if (image[i] != 0xA5 || image[kGuard + entry.bytes + i] != 0xA5)
        FAIL("array " << array << " of " << entry.bytes << " bytes: a guard byte was overwritten");
    if (entry.kind == Kind::raw) continue;
    std::vector<unsigned char> expected(entry.bytes + 1), got(entry.bytes + 1);
    download(array, 0, expected.data());
    download(array, 1, got.data());
    if (entry.kind == Kind::integers) {
      if (expected != got) FAIL("array " << array << ": integers differ");
      continue;
    }
    const int64_t width = size_of(dtype_);
    const double tolerance = dtype_ == DType::f32 ? 3e-5 : 1e-11;
    for (size_t i = 0; i < entry.bytes / size_t(width); ++i) {
      const auto at = [&](const std::vector<unsigned char>& bytes) {
        float single;
        double twice;
        std::memcpy(&single, bytes.data() + i * size_t(width), 4);
        if (dtype_ == DType::f32) return double(single);
        std::memcpy(&twice, bytes.data() + i * size_t(width), 8);
        return twice;
      };
      const double want = at(expected), have = at(got);
      if (want == have || (std::isnan(want) && std::isnan(have))) continue;
      if (std::abs(want - have) <= tolerance * std::max(1.0, std::abs(want))) continue;
      FAIL("array " << array << " element " << i << " of " << entry.bytes / size_t(width)
                    << ": got " << have << ", reference " << want);
    }
  }
  SUCCEED();
}

void check_backend_parity(Backend& tested, DType dtype, uint64_t seed) {
  SizeSource sizes(seed);
  parity_of_simple_methods(tested, dtype, sizes);
  parity_of_fused_methods(tested, dtype, sizes);
}

}  // namespace longshot::testing
