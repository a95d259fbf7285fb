// Standard output, standard error, and text that both can show. Nothing here throws: a reader that
// has gone away or a full disk must not end a training. What standard output did not take is
// remembered, and the program's exit code says so; what standard error did not take is lost.
#pragma once

#include <fmt/core.h>
#include <string>
#include <string_view>
#include <utility>

namespace longshot {

// At the program's start. A closed descriptor 0, 1 or 2 would be given to the next file that is
// opened, and messages would be written into data: /dev/null takes its place. (On 1 it is opened
// for reading, so that a result that nobody receives is noticed.) A reader that goes away is an
// error of the write, not the end of the program.
void keep_standard_streams();

void print_text(std::string_view text);  // on standard output
void say_text(std::string_view text);    // on standard error, as printable()

// A result, on standard output.
template <class... Args>
void print(fmt::format_string<Args...> format, Args&&... args) {
  print_text(fmt::format(format, std::forward<Args>(args)...));
}
// A line for the person at the terminal, on standard error.
template <class... Args>
void say(fmt::format_string<Args...> format, Args&&... args) {
  say_text(fmt::format(format, std::forward<Args>(args)...));
}

// Flushes standard output; the errno of the first write that it did not take, 0 when all went well.
int standard_output_error();

// File names are bytes. Those that are not UTF-8 become "\xff", so that the text can stand in a
// message, in JSON, on a page.
std::string printable(std::string_view text);
bool is_utf8(std::string_view text);

}  // namespace longshot
