#include "core/streams.h"

#include "tests/catch.h"

using namespace longshot;

TEST_CASE("UTF-8: what the Unicode standard calls well-formed (table 3-7)") {
  for (const char* good :
       {"", "a", "\x7f", "\xC2\x80", "\xDF\xBF", "\xE0\xA0\x80", "\xED\x9F\xBF", "\xEE\x80\x80",
        "\xEF\xBF\xBF", "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF"}) {
    CHECK(is_utf8(good));
    CHECK(printable(good) == good);
  }
  for (const char* bad :
       {"\x80", "\xBF", "\xC0\x80", "\xC1\xBF", "\xC2", "\xC2z", "\xE0\x9F\xBF", "\xE0\xA0",
        "\xED\xA0\x80", "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFE", "\xFF"})
    CHECK_FALSE(is_utf8(bad));
}

TEST_CASE("printable: bytes that are not UTF-8 are shown, everything else stays") {
  CHECK(printable("caf\xC3\xA9") == "caf\xC3\xA9");
  CHECK(printable("a\xFFz") == "a\\xffz");
  CHECK(printable("\xE2\x82") == "\\xe2\\x82");  // a euro sign cut short
  CHECK(printable("\xC3(") == "\\xc3(");
  CHECK(printable(std::string_view("a\0b", 3)) == std::string_view("a\0b", 3));
}
