// Philox 4x32-10 (core/random.h) on vectors of 32-bit lanes: the same numbers, many at a time.
#pragma once

#include "core/cpu/simd.h"
#include "core/random.h"

namespace longshot::cpu {

typedef uint32_t VecU32 __attribute__((vector_size(kVectorBytes)));
typedef uint64_t VecU64 __attribute__((vector_size(kVectorBytes)));
inline constexpr int kLanesU32 = kVectorBytes / 4;

struct PhiloxLanes {
  VecU32 value[4];
};

// Blocks (high:low in each lane) of a stream: random_block(key, index) for every lane.
#if defined(__AVX512F__)
// Lanes in two halves, each 32-bit number at the bottom of 64 bits: what a product needs and what
// it gives, so that no halves have to be put together between rounds. What lies above is ignored.
LONGSHOT_INLINE PhiloxLanes random_blocks(const RandomKey& key, VecU32 low, VecU32 high) {
  VecU64 c[2][4];
  c[0][0] = reinterpret_cast<VecU64>(low), c[1][0] = c[0][0] >> 32;
  c[0][1] = reinterpret_cast<VecU64>(high), c[1][1] = c[0][1] >> 32;
  uint64_t k0 = uint32_t(key.seed), k1 = uint32_t(key.seed >> 32);
#pragma GCC unroll 2
  for (int half = 0; half < 2; ++half) {
    c[half][2] = VecU64{} + key.step;
    c[half][3] = VecU64{} + ((uint32_t(key.purpose) << 24) ^ key.stream);
  }
  const auto product = [](VecU64 x, uint32_t m) {
    return reinterpret_cast<VecU64>(_mm512_maskz_mul_epu32(
        __mmask8(-1), reinterpret_cast<__m512i>(x), _mm512_set1_epi64(int64_t(m))));
  };
#pragma GCC unroll 10
  for (int round = 0; round < 10; ++round) {
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {
      VecU64* v = c[half];
      const VecU64 p0 = product(v[0], 0xD2511F53u), p1 = product(v[2], 0xCD9E8D57u);
      v[0] = (p1 >> 32) ^ v[1] ^ k0;
      v[1] = p1;
      v[2] = (p0 >> 32) ^ v[3] ^ k1;
      v[3] = p0;
    }
    k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
  }
  PhiloxLanes result;
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i)
    result.value[i] = reinterpret_cast<VecU32>(
        _mm512_mask_blend_epi32(__mmask16(0xaaaa), reinterpret_cast<__m512i>(c[0][i]),
                                reinterpret_cast<__m512i>(c[1][i] << 32)));
  return result;
}
#else
// High and low half of x * m in every lane.
LONGSHOT_INLINE void multiply_wide(VecU32 x, uint32_t m, VecU32& high, VecU32& low) {
  const VecU64 wide = reinterpret_cast<VecU64>(x);
  const VecU64 even = (wide & 0xffffffffu) * uint64_t(m);
  const VecU64 odd = (wide >> 32) * uint64_t(m);
  high = reinterpret_cast<VecU32>((even >> 32) | (odd & 0xffffffff00000000u));
  low = reinterpret_cast<VecU32>((even & 0xffffffffu) | (odd << 32));
}
LONGSHOT_INLINE PhiloxLanes random_blocks(const RandomKey& key, VecU32 low, VecU32 high) {
  VecU32 c0 = low, c1 = high;
  VecU32 c2 = VecU32{} + key.step;
  VecU32 c3 = VecU32{} + ((uint32_t(key.purpose) << 24) ^ key.stream);
  uint32_t k0 = uint32_t(key.seed), k1 = uint32_t(key.seed >> 32);
  for (int round = 0; round < 10; ++round) {
    VecU32 high0, low0, high1, low1;
    multiply_wide(c0, 0xD2511F53u, high0, low0);
    multiply_wide(c2, 0xCD9E8D57u, high1, low1);
    c0 = high1 ^ c1 ^ k0;
    c1 = low1;
    c2 = high0 ^ c3 ^ k1;
    c3 = low0;
    k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
  }
  return PhiloxLanes{{c0, c1, c2, c3}};
}
#endif

// to_unit_float in every lane.
LONGSHOT_INLINE Vec<float> to_unit_lanes(VecU32 word) {
  typedef int32_t Signed __attribute__((vector_size(kVectorBytes)));
  const Signed bits = reinterpret_cast<Signed>(word >> 8);
  return Vec<float>(__builtin_convertvector(bits, VecTypes<float>::Native)) *
         Vec<float>(1.0f / 16777216.0f);
}

}  // namespace longshot::cpu
