// Many Philox blocks at once: the words of core/random.h's random_block, bit for bit.
#pragma once

#include <cstdint>

#include "core/random.h"

namespace longshot::cpu {

// words[4 * b + w] = word w of block first + b, for b < blocks.
void random_words(const RandomKey& key, uint64_t first, int64_t blocks, uint32_t* words);

}  // namespace longshot::cpu
