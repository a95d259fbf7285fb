// Philox 4x32-10 over several blocks (Salmon et al. 2011). Every 64-bit lane holds one 32-bit word
// of one block, so that the round's two 32 x 32 -> 64 products are one vector multiplication each.
// The upper halves of c1 and c3 hold rubbish that no later step looks at: a round only multiplies
// the low halves of c0 and c2. Several vectors are in flight to hide the multiplier's latency.
#include "core/cpu/philox.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/cpu/simd.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace longshot::cpu {
namespace {

typedef uint64_t Lanes __attribute__((vector_size(kVectorBytes)));
constexpr int kBlocks = kVectorBytes / 8;             // blocks in a vector
constexpr int kVectors = kVectorBytes == 64 ? 4 : 2;  // vectors in flight: 4 of 32 registers each
constexpr int kGroup = kBlocks * kVectors;

// The full products of the lanes' low halves.
LONGSHOT_INLINE Lanes multiply_low(Lanes a, uint32_t factor) {
  // GCC multiplies all 64 bits (three times the work) where it cannot prove the upper halves away.
#if defined(__AVX512F__)
  return Lanes(
      _mm512_maskz_mul_epu32(__mmask8(-1), __m512i(a), _mm512_set1_epi64(int64_t(factor))));
#elif defined(__AVX2__)
  return Lanes(_mm256_mul_epu32(__m256i(a), _mm256_set1_epi64x(int64_t(factor))));
#else
  return (a & 0xFFFFFFFFull) * (Lanes{} + uint64_t(factor));
#endif
}

template <int kHalf, size_t... I>
LONGSHOT_INLINE Lanes interleave(Lanes a, Lanes b, std::index_sequence<I...>) {
  return __builtin_shufflevector(a, b,
                                 (int(I) % 2 ? kBlocks + kHalf * kBlocks / 2 + int(I) / 2
                                             : kHalf * kBlocks / 2 + int(I) / 2)...);
}

template <size_t... I>
constexpr Lanes count_up(std::index_sequence<I...>) {
  return Lanes{I...};
}

void group_words(const RandomKey& key, uint64_t first, uint32_t* words) {
  const uint64_t low = 0xFFFFFFFFull;
  constexpr Lanes kLane = count_up(std::make_index_sequence<size_t(kBlocks)>{});
  uint64_t k0 = uint32_t(key.seed), k1 = uint32_t(key.seed >> 32);
  Lanes c0[kVectors], c1[kVectors], c2[kVectors], c3[kVectors];
  // The first round: c2 and c3 are the same in all lanes.
  const uint64_t fixed = uint64_t(key.step) * 0xCD9E8D57u;
  const uint64_t fixed_k1 = ((uint32_t(key.purpose) << 24) ^ key.stream) ^ k1;
  for (int v = 0; v < kVectors; ++v) {
    const Lanes index = kLane + (first + uint64_t(v * kBlocks));
    const Lanes p0 = multiply_low(index, 0xD2511F53u);
    c0[v] = (index >> 32) ^ ((fixed >> 32) ^ k0);
    c1[v] = Lanes{} + (fixed & low);
    c2[v] = (p0 >> 32) ^ fixed_k1;
    c3[v] = p0;
  }
  for (int round = 1; round < 10; ++round) {
    k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
    for (int v = 0; v < kVectors; ++v) {
      const Lanes p0 = multiply_low(c0[v], 0xD2511F53u), p1 = multiply_low(c2[v], 0xCD9E8D57u);
      c0[v] = (p1 >> 32) ^ c1[v] ^ uint64_t(k0);
      c2[v] = (p0 >> 32) ^ c3[v] ^ uint64_t(k1);
      c1[v] = p1;
      c3[v] = p0;
    }
  }
  for (int v = 0; v < kVectors; ++v) {
    const Lanes a = (c0[v] & low) | (c1[v] << 32), b = (c2[v] & low) | (c3[v] << 32);
    constexpr auto lanes = std::make_index_sequence<size_t(kBlocks)>{};
    const Lanes lower = interleave<0>(a, b, lanes), upper = interleave<1>(a, b, lanes);
    std::memcpy(words + v * 4 * kBlocks, &lower, kVectorBytes);
    std::memcpy(words + v * 4 * kBlocks + 2 * kBlocks, &upper, kVectorBytes);
  }
}

}  // namespace

void random_words(const RandomKey& key, uint64_t first, int64_t blocks, uint32_t* words) {
  int64_t b = 0;
  for (; b + kGroup <= blocks; b += kGroup) group_words(key, first + uint64_t(b), words + 4 * b);
  if (b < blocks) {
    uint32_t last[4 * kGroup];
    group_words(key, first + uint64_t(b), last);
    std::copy(last, last + 4 * (blocks - b), words + 4 * b);
  }
}

}  // namespace longshot::cpu
