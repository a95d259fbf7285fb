#include "core/streams.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <fcntl.h>
#include <unistd.h>

namespace longshot {
namespace {

int output_error = 0;

// Bytes of the well-formed UTF-8 sequence at the text's beginning (Unicode 15, table 3-7); 0: none.
size_t sequence_size(std::string_view text) {
  const auto byte = [&](size_t i) { return i < text.size() ? uint8_t(text[i]) : 0u; };
  const auto continues = [&](size_t i) { return (byte(i) & 0xC0u) == 0x80u; };
  const unsigned lead = byte(0), second = byte(1);
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return continues(1) ? 2 : 0;
  if (lead >= 0xE0 && lead <= 0xEF) {
    const bool overlong = lead == 0xE0 && second < 0xA0, surrogate = lead == 0xED && second > 0x9F;
    return continues(1) && continues(2) && !overlong && !surrogate ? 3 : 0;
  }
  if (lead >= 0xF0 && lead <= 0xF4) {
    const bool overlong = lead == 0xF0 && second < 0x90, beyond = lead == 0xF4 && second > 0x8F;
    return continues(1) && continues(2) && continues(3) && !overlong && !beyond ? 4 : 0;
  }
  return 0;
}

}  // namespace

void keep_standard_streams() {
  for (int descriptor = 0; descriptor <= 2; ++descriptor) {
    if (fcntl(descriptor, F_GETFD) >= 0 || errno != EBADF) continue;
    // The lowest free descriptor is this one: those below it are open.
    const int opened = open("/dev/null", descriptor == 2 ? O_WRONLY : O_RDONLY);
    if (opened < 0) return;
  }
  std::signal(SIGPIPE, SIG_IGN);
}

void print_text(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() && output_error == 0)
    output_error = errno;
}

void say_text(std::string_view text) {
  const std::string shown = printable(text);
  // Not checked: there is nobody left to tell.
  if (std::fwrite(shown.data(), 1, shown.size(), stderr) != shown.size()) std::clearerr(stderr);
}

int standard_output_error() {
  if (std::fflush(stdout) != 0 && output_error == 0) output_error = errno;
  return output_error;
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const size_t size = sequence_size(text);
    if (size == 0) return false;
    text.remove_prefix(size);
  }
  return true;
}

std::string printable(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const size_t size = sequence_size(text);
    if (size == 0)
      result += fmt::format("\\x{:02x}", uint8_t(text[0]));
    else
      result += text.substr(0, size);
    text.remove_prefix(size == 0 ? 1 : size);
  }
  return result;
}

}  // namespace longshot
