// How `predict` reads a line, and shows one so that it reads back.
#include "experiments/predict_input.h"

#include "core/error.h"
#include "tests/catch.h"

using namespace longshot;
using Ids = std::vector<int32_t>;

namespace {

std::string all_bytes() {
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte) bytes.push_back(char(byte));
  return bytes;
}

const LineRules kDigits{Alphabet("0123456789+"), 15}, kNoCharacters{Alphabet(), 300},
    kBytes{Alphabet(all_bytes()), 257}, kLetters{Alphabet("abc"), 5},
    kWithBlank{Alphabet(" 12"), 5}, kAccents{Alphabet("", {'a', 0xE9, 0x4E2D}), 4};

std::string refusal(const std::string& line, const LineRules& rules,
                    LineForm form = LineForm::automatic) {
  try {
    read_line(line, rules, form);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("one rule says how a line is read") {
  struct Case {
    const char* line;
    const LineRules& rules;
    Ids ids;
    bool text;
  };
  const Case cases[] = {{"12+34", kDigits, {1, 2, 10, 3, 4}, true},
                        {"12", kDigits, {1, 2}, true},
                        {"1", kDigits, {1}, true},
                        {" 12 ", kDigits, {1, 2}, true},
                        {"1 2", kDigits, {1, 2}, false},
                        {"12 10", kDigits, {12, 10}, false},
                        {"12 + 3", kDigits, {1, 2, 10, 3}, true},
                        {"[1, 12]", kDigits, {1, 12}, false},
                        {"{\"input\": [1, 12]}", kDigits, {1, 12}, false},
                        {"{\"input\": \"12\"}", kDigits, {1, 2}, true},
                        {"12", kNoCharacters, {12}, false},
                        {"1 2", kNoCharacters, {1, 2}, false},
                        {"12", kBytes, {49, 50}, true},
                        {"1 2", kBytes, {49, 32, 50}, true},
                        {"[1]", kBytes, {91, 49, 93}, true},
                        {" \xC3", kBytes, {32, 0xC3}, true},
                        {"{\"input\": \"a\\nb\"}", kBytes, {97, 10, 98}, true},
                        {"{\"input\": [256]}", kBytes, {256}, false},
                        {"1 2", kWithBlank, {1, 0, 2}, true},
                        {"a\xC3\xA9\xE4\xB8\xAD", kAccents, {0, 1, 2}, true},
                        {"cab", kLetters, {2, 0, 1}, true}};
  for (const Case& each : cases) {
    INFO(each.line);
    const Line line = read_line(each.line, each.rules);
    CHECK(line.tokens == each.ids);
    CHECK(line.text == each.text);
  }
}

TEST_CASE("--input forces each way of reading") {
  CHECK(read_line("12", kDigits, LineForm::ids).tokens == Ids{12});
  CHECK(read_line("1 2", kDigits, LineForm::text).tokens == Ids{1, 2});
  CHECK(read_line("1 2", kBytes, LineForm::ids).tokens == Ids{1, 2});
  CHECK(read_line("[1, 2]", kBytes, LineForm::json).tokens == Ids{1, 2});
  CHECK(read_line("{1}", kBytes, LineForm::text).tokens == Ids{'{', '1', '}'});
  CHECK(read_line("\"ab\"", kLetters, LineForm::json).tokens == Ids{0, 1});
}

TEST_CASE("a line that cannot be read: what is wrong and what would be right") {
  CHECK_THAT(refusal("12x", kDigits), ContainsSubstring("'x' is not one of this task's symbols "
                                                        "(0123456789+)"));
  CHECK_THAT(refusal("12 34", kDigits), ContainsSubstring("token id 34 is outside 0 .. 14") &&
                                            ContainsSubstring("--input text"));
  CHECK_THAT(refusal("99999999999999999999", kNoCharacters), ContainsSubstring("is outside"));
  CHECK_THAT(refusal("ab", kNoCharacters), ContainsSubstring("give token ids"));
  CHECK_THAT(refusal("1 -2", kNoCharacters, LineForm::ids), ContainsSubstring("\"-2\""));
  CHECK_THAT(refusal("{1", kBytes), ContainsSubstring("--input text"));
  CHECK_THAT(refusal("{\"in\": 1}", kDigits), ContainsSubstring("without \"input\""));
  CHECK_THAT(refusal("{\"input\": 3}", kDigits), ContainsSubstring("must be a list"));
  CHECK_THAT(refusal("{\"input\": [1.5]}", kDigits), ContainsSubstring("1.5 is no token id"));
  CHECK_THAT(refusal("{\"input\": [18446744073709551615]}", kDigits),
             ContainsSubstring("18446744073709551615 is outside"));
  CHECK_THAT(refusal("a\xC3", kAccents), ContainsSubstring("'\\xc3'"));
  CHECK_THAT(refusal("\xC3\xB6", kAccents), ContainsSubstring("'\xC3\xB6' is not one"));
  for (const char* empty : {"", "  ", "[]", "{\"input\": []}", "{\"input\": \"\"}"})
    CHECK_THAT(refusal(empty, kDigits), ContainsSubstring("an empty sequence"));
}

TEST_CASE("what is shown reads back as the same ids") {
  struct Case {
    Ids ids;
    const LineRules& rules;
    const char* shown;
  };
  const Case cases[] = {{{0, 4, 6}, kDigits, "046"},
                        {{11, 11, 0, 11, 0, 0}, kDigits, "11 11 0 11 0 0"},  // 11: no character
                        {{11}, kDigits, "{\"input\": [11]}"},  // "11" would be two characters
                        {{1, 4, 0}, kLetters, "1 4 0"},
                        {{1, 2}, kLetters, "bc"},
                        {{49, 32, 50}, kBytes, "1 2"},
                        {{97, 10, 98}, kBytes, "{\"input\":\"a\\nb\"}"},
                        {{10, 0xC3}, kBytes, "{\"input\": [10, 195]}"},
                        {{'{', '}'}, kBytes, "{\"input\":\"{}\"}"},
                        {{3, 0}, kWithBlank, "{\"input\": [3, 0]}"},
                        {{7, 8}, kNoCharacters, "7 8"},
                        {{2, 1}, kAccents, "\xE4\xB8\xAD\xC3\xA9"}};
  for (const Case& each : cases) {
    const std::string shown = show_line(each.ids, each.rules);
    INFO(shown);
    CHECK(shown == each.shown);
    CHECK(read_line(shown, each.rules).tokens == each.ids);
  }
  CHECK(show_line({}, kDigits).empty());
}
