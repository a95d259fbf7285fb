// Errors: what went wrong, where, and what would be right.
//
// Error       a failure while running (exit code 1)
// UsageError  a mistake in a config, a command line or an input file (exit code 2)
//
// LONGSHOT_CHECK(condition, format, arguments...) throws Error with a formatted message; use it
// for every precondition of a public function. It is never compiled out.
#pragma once

#include <fmt/core.h>
#include <new>
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

// work(), where memory that the system refuses comes out as an Error that says during what:
// std::bad_alloc says nothing. `doing` reads on from "while".
template <class Work>
decltype(auto) while_doing(const char* doing, const Work& work) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    throw Error(fmt::format("out of memory while {}", doing));
  } catch (const std::length_error&) {  // more than any vector can hold
    throw Error(fmt::format("out of memory while {}", doing));
  }
}

}  // namespace longshot

#define LONGSHOT_CHECK(condition, ...)                                   \
  do {                                                                   \
    if (!(condition)) throw ::longshot::Error(fmt::format(__VA_ARGS__)); \
  } while (false)
