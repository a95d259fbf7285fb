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

// High and low half of x * m in every lane.
LONGSHOT_INLINE void multiply_wide(VecU32 x, uint32_t m, VecU32& high, VecU32& low) {
#if defined(__AVX512F__)
  const __m512i v = reinterpret_cast<__m512i>(x);
  const __m512i factor = _mm512_set1_epi64(int64_t(m));
  const __m512i even = _mm512_maskz_mul_epu32(__mmask8(-1), v, factor);
  const __m512i odd =
      _mm512_maskz_mul_epu32(__mmask8(-1), _mm512_maskz_srli_epi64(__mmask8(-1), v, 32), factor);
  high = reinterpret_cast<VecU32>(_mm512_mask_blend_epi32(
      __mmask16(0xaaaa), _mm512_maskz_srli_epi64(__mmask8(-1), even, 32), odd));
  low = reinterpret_cast<VecU32>(_mm512_mask_blend_epi32(
      __mmask16(0xaaaa), even, _mm512_maskz_slli_epi64(__mmask8(-1), odd, 32)));
#else
  const VecU64 wide = reinterpret_cast<VecU64>(x);
  const VecU64 even = (wide & 0xffffffffu) * uint64_t(m);
  const VecU64 odd = (wide >> 32) * uint64_t(m);
  high = reinterpret_cast<VecU32>((even >> 32) | (odd & 0xffffffff00000000u));
  low = reinterpret_cast<VecU32>((even & 0xffffffffu) | (odd << 32));
#endif
}

// Blocks (high:low in each lane) of a stream: random_block(key, index) for every lane.
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

// to_unit_float in every lane.
LONGSHOT_INLINE Vec<float> to_unit_lanes(VecU32 word) {
  typedef int32_t Signed __attribute__((vector_size(kVectorBytes)));
  const Signed bits = reinterpret_cast<Signed>(word >> 8);
  return Vec<float>(__builtin_convertvector(bits, VecTypes<float>::Native)) *
         Vec<float>(1.0f / 16777216.0f);
}

}  // namespace longshot::cpu
