// Errors: what went wrong, where, and what would be right.
//
// Error       a failure while running (exit code 1)
// UsageError  a mistake in a config, a command line or an input file (exit code 2)
//
// LONGSHOT_CHECK(condition, format, arguments...) throws Error with a formatted message; use it
// for every precondition of a public function. It is never compiled out.
#pragma once

#include <fmt/core.h>
#include <stdexcept>
#include <string>

namespace longshot {

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class UsageError : public Error {
 public:
  using Error::Error;
};

}  // namespace longshot

#define LONGSHOT_CHECK(condition, ...)                                   \
  do {                                                                   \
    if (!(condition)) throw ::longshot::Error(fmt::format(__VA_ARGS__)); \
  } while (false)
