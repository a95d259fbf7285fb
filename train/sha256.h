// SHA-256 (FIPS 180-4), to name a run's parameters in summary.json.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace longshot {

class Sha256 {
 public:
  void add(std::span<const std::byte> bytes);
  std::string hex();  // ends the sum: 64 lower-case digits

 private:
  void block(const uint8_t* data);
  std::array<uint32_t, 8> state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<uint8_t, 64> buffer_{};
  uint64_t bytes_ = 0;
};

}  // namespace longshot
