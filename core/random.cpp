#include "core/random.h"

#include <cmath>
#include <numbers>

#include "core/error.h"

namespace longshot {

uint32_t RandomSequence::word() {
  if ((next_ & 3) == 0) block_ = random_block(key_, next_ >> 2);
  return block_.value[next_++ & 3];
}

uint64_t RandomSequence::word64() {
  const uint64_t low = word();
  return low | uint64_t(word()) << 32;
}

double RandomSequence::uniform() {
  return double(word64() >> 11) * 0x1.0p-53;
}

uint64_t RandomSequence::below(uint64_t bound) {
  LONGSHOT_CHECK(bound >= 1, "RandomSequence::below: bound must be at least 1, got 0");
  if (bound <= 0xFFFFFFFFull) {
    // Lemire's multiply-and-reject on 32 bits.
    const uint32_t small = uint32_t(bound);
    const uint32_t threshold = uint32_t(-small) % small;
    for (;;) {
      const uint64_t product = uint64_t(word()) * small;
      if (uint32_t(product) >= threshold) return product >> 32;
    }
  }
  const uint64_t threshold = (0 - bound) % bound;
  for (;;) {
    const uint64_t candidate = word64();
    if (candidate >= threshold) return candidate % bound;
  }
}

int64_t RandomSequence::between(int64_t low, int64_t high) {
  LONGSHOT_CHECK(low <= high, "RandomSequence::between: empty range [{}, {}]", low, high);
  return low + int64_t(below(uint64_t(high - low) + 1));
}

double RandomSequence::normal() {
  const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));
  return radius * std::cos(2.0 * std::numbers::pi * uniform());
}

double RandomSequence::truncated_normal() {
  for (;;) {
    const double value = normal();
    if (std::abs(value) <= 2.0) return value;
  }
}

uint64_t hash_name(const char* text, uint64_t size) {
  uint64_t hash = 0xcbf29ce484222325ull;
  for (uint64_t i = 0; i < size; ++i) {
    hash ^= static_cast<unsigned char>(text[i]);
    hash *= 0x100000001b3ull;
  }
  return hash;
}

}  // namespace longshot
