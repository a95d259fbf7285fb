// Binary numbers of any length as symbols 0 and 1, through GMP: the arithmetic tasks go to 500
// bits and beyond.
#pragma once

#include <cstdint>
#include <gmpxx.h>
#include <vector>

#include "core/random.h"

namespace longshot {

// Uniform in [1, 2^bits - 1], bits >= 1: whole random words, zero drawn again.
mpz_class draw_positive(RandomSequence& random, int64_t bits);

// Appends exactly `bits` digits of a number below 2^bits, least significant first.
void append_little_endian(const mpz_class& value, int64_t bits, std::vector<int32_t>& out);
// The same, most significant first.
void append_big_endian(const mpz_class& value, int64_t bits, std::vector<int32_t>& out);
// Digits without redundant zeros; 1 for zero.
int64_t bit_length(const mpz_class& value);

}  // namespace longshot
