// Random numbers as a pure function of (seed, purpose, step, index): Philox 4x32-10
// (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3").
//
// There is no generator state anywhere, so nothing can be disturbed, lost or resumed wrongly, and
// any element can be drawn by any thread. This header is shared by CPU and CUDA code and
// therefore holds nothing but plain functions on integers.
#pragma once

#include <cstdint>

#if defined(__CUDACC__)
#define LONGSHOT_HOST_DEVICE __host__ __device__
#else
#define LONGSHOT_HOST_DEVICE
#endif

namespace longshot {

// What a draw is for; draws for different purposes never share numbers.
enum class RandomPurpose : uint32_t {
  initialize = 1,  // parameter initial values
  dropout = 2,
  positions = 3,  // position samplers
  data = 4,       // task examples
  lengths = 5,    // length protocols
  shuffle = 6,
  masking = 7,  // masked-token modelling
  test = 99,
};

struct Philox4 {
  uint32_t value[4];
};

// One Philox block: counter (4 words) and key (2 words) to 4 random words.
LONGSHOT_HOST_DEVICE inline Philox4 philox4x32(const uint32_t counter[4], const uint32_t key[2]) {
  uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
  uint32_t k0 = key[0], k1 = key[1];
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t(0xD2511F53u) * c0;
    const uint64_t p1 = uint64_t(0xCD9E8D57u) * c2;
    const uint32_t n0 = uint32_t(p1 >> 32) ^ c1 ^ k0;
    const uint32_t n1 = uint32_t(p1);
    const uint32_t n2 = uint32_t(p0 >> 32) ^ c3 ^ k1;
    const uint32_t n3 = uint32_t(p0);
    c0 = n0, c1 = n1, c2 = n2, c3 = n3;
    k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
  }
  return Philox4{{c0, c1, c2, c3}};
}

// The coordinates of a stream of draws. `stream` tells apart the users of one purpose (a layer,
// a parameter's hashed name, a split and length); `step` is the optimizer step or sample index.
struct RandomKey {
  uint64_t seed = 0;
  RandomPurpose purpose = RandomPurpose::test;
  uint32_t stream = 0;
  uint32_t step = 0;
};

// Block `index` (4 words) of a stream.
LONGSHOT_HOST_DEVICE inline Philox4 random_block(const RandomKey& key, uint64_t index) {
  // The index takes two counter words, the step one; purpose and stream are mixed into the last
  // so that (purpose, stream) pairs never collide while stream < 2^24.
  const uint32_t counter[4] = {uint32_t(index), uint32_t(index >> 32), key.step,
                               (uint32_t(key.purpose) << 24) ^ key.stream};
  const uint32_t philox_key[2] = {uint32_t(key.seed), uint32_t(key.seed >> 32)};
  return philox4x32(counter, philox_key);
}

LONGSHOT_HOST_DEVICE inline uint32_t random_word(const RandomKey& key, uint64_t index) {
  return random_block(key, index >> 2).value[index & 3];
}

// Uniform in [0, 1) with 24 bits, exact in f32: the same value on every device.
LONGSHOT_HOST_DEVICE inline float to_unit_float(uint32_t word) {
  return float(word >> 8) * (1.0f / 16777216.0f);
}

// A convenient sequence over one stream, for host code that draws a varying number of values
// (tasks, samplers, initialisers). Two sequences with equal keys give equal numbers.
class RandomSequence {
 public:
  explicit RandomSequence(const RandomKey& key) : key_(key) {}

  uint32_t word();
  uint64_t word64();
  double uniform();                            // [0, 1) with 53 bits
  uint64_t below(uint64_t bound);              // unbiased in [0, bound); bound >= 1
  int64_t between(int64_t low, int64_t high);  // unbiased in [low, high]
  double normal();                             // standard normal (Box-Muller, one value a call)
  double truncated_normal();  // standard normal conditioned on |x| <= 2, by rejection

  // A uniformly random order (Fisher and Yates, from the last item down). std::shuffle would give
  // another order with another standard library.
  template <class T>
  void shuffle(T* items, int64_t count) {
    for (int64_t i = count - 1; i > 0; --i) {
      const auto j = int64_t(below(uint64_t(i) + 1));
      const T moved = items[i];
      items[i] = items[j];
      items[j] = moved;
    }
  }

 private:
  RandomKey key_;
  uint64_t next_ = 0;
  Philox4 block_{};
};

// FNV-1a, 64 bit: turns a name into a stream number or a seed that does not depend on the
// standard library's std::hash.
uint64_t hash_name(const char* text, uint64_t size);

}  // namespace longshot
