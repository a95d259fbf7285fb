#include "data/big_binary.h"

#include "core/error.h"

namespace longshot {

mpz_class draw_positive(RandomSequence& random, int64_t bits) {
  LONGSHOT_CHECK(bits >= 1, "a positive number needs at least 1 bit, got {}", bits);
  std::vector<uint32_t> words(size_t((bits + 31) / 32));
  mpz_class value;
  do {
    for (uint32_t& word : words) word = random.word();
    if (bits % 32 != 0) words.back() &= (uint32_t(1) << (bits % 32)) - 1;
    // Least significant word first, words in this machine's byte order.
    mpz_import(value.get_mpz_t(), words.size(), -1, sizeof(uint32_t), 0, 0, words.data());
  } while (value == 0);
  return value;
}

void append_little_endian(const mpz_class& value, int64_t bits, std::vector<int32_t>& out) {
  LONGSHOT_CHECK(bit_length(value) <= bits, "a number of {} bits does not fit into {}",
                 bit_length(value), bits);
  for (int64_t i = 0; i < bits; ++i)
    out.push_back(int32_t(mpz_tstbit(value.get_mpz_t(), mp_bitcnt_t(i))));
}

void append_big_endian(const mpz_class& value, int64_t bits, std::vector<int32_t>& out) {
  LONGSHOT_CHECK(bit_length(value) <= bits, "a number of {} bits does not fit into {}",
                 bit_length(value), bits);
  for (int64_t i = bits - 1; i >= 0; --i)
    out.push_back(int32_t(mpz_tstbit(value.get_mpz_t(), mp_bitcnt_t(i))));
}

int64_t bit_length(const mpz_class& value) {
  return int64_t(mpz_sizeinbase(value.get_mpz_t(), 2));
}

}  // namespace longshot
