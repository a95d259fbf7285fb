// Catch2 in either major version, one set of names for the tests.
#pragma once

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
using Catch::Approx;
using Catch::Matchers::ContainsSubstring;
#else
#include <catch2/catch.hpp>
namespace Catch::Matchers {
inline auto ContainsSubstring(const std::string& text) {
  return Contains(text);
}
}  // namespace Catch::Matchers
using Catch::Matchers::ContainsSubstring;
#endif
