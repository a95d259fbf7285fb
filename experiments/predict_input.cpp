#include "experiments/predict_input.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/error.h"

namespace longshot {
namespace {

using nlohmann::json;

int32_t id_of(int64_t number, const std::string& written, const LineRules& rules) {
  if (number < 0 || number >= rules.ids)
    throw UsageError(fmt::format("token id {} is outside 0 .. {}", written, rules.ids - 1));
  return int32_t(number);
}

Line ids_from_words(const std::string& line, const LineRules& rules) {
  Line result;
  for (size_t at = 0; (at = line.find_first_not_of(" \t", at)) != std::string::npos;) {
    const size_t end = std::min(line.find_first_of(" \t", at), line.size());
    const std::string word = line.substr(at, end - at);
    if (word.find_first_not_of("0123456789") != std::string::npos)
      throw UsageError(fmt::format(
          "\"{}\" is no token id; ids are whole numbers with blanks between them", word));
    result.tokens.push_back(id_of(word.size() > 10 ? -1 : std::stoll(word), word, rules));
    at = end;
  }
  return result;
}

Line from_text(const std::string& line, const LineRules& rules) {
  return {rules.alphabet.ids(line), true};
}

Line from_json_value(const json& value, const LineRules& rules, const char* what) {
  if (value.is_string()) return from_text(value.get<std::string>(), rules);
  if (!value.is_array())
    throw UsageError(fmt::format("{} is {}, and must be a list of token ids or a string", what,
                                 value.type_name()));
  Line result;
  for (const json& token : value) {
    if (!token.is_number_integer())
      throw UsageError(fmt::format("{} is no token id", token.dump()));
    const bool huge = token.is_number_unsigned() &&
                      token.get<uint64_t>() > uint64_t(std::numeric_limits<int64_t>::max());
    result.tokens.push_back(id_of(huge ? -1 : token.get<int64_t>(), token.dump(), rules));
  }
  return result;
}

Line from_json(const std::string& line, const LineRules& rules) {
  json value;
  try {
    value = json::parse(line);
  } catch (const json::exception& error) {
    throw UsageError(
        fmt::format("read as JSON, because it begins so, and not valid ({}); --input "
                    "text takes it as text",
                    error.what()));
  }
  if (!value.is_object()) return from_json_value(value, rules, "the line");
  const auto input = value.find("input");
  if (input == value.end()) throw UsageError("a JSON object without \"input\"");
  return from_json_value(*input, rules, "\"input\"");
}

LineForm form_of(const std::string& line, const LineRules& rules) {
  const size_t first = line.find_first_not_of(" \t"), last = line.find_last_not_of(" \t");
  if (first == std::string::npos) return LineForm::text;
  if (line[first] == '{') return LineForm::json;
  if (line[first] == '[' && !rules.alphabet.find("[")) return LineForm::json;
  if (line.find_first_not_of("0123456789 \t") != std::string::npos) return LineForm::text;
  if (rules.alphabet.empty()) return LineForm::ids;
  const size_t blank = line.find_first_of(" \t", first);
  return blank < last && !rules.alphabet.find(" ") ? LineForm::ids : LineForm::text;
}

}  // namespace

Line read_line(const std::string& line, const LineRules& rules, LineForm form) {
  const bool asked = form != LineForm::automatic;
  if (!asked) form = form_of(line, rules);
  Line result;
  try {
    result = form == LineForm::json  ? from_json(line, rules)
             : form == LineForm::ids ? ids_from_words(line, rules)
                                     : from_text(line, rules);
  } catch (const UsageError& error) {
    if (asked || form != LineForm::ids || rules.alphabet.empty()) throw;
    throw UsageError(
        fmt::format("{} (read as ids, because blanks stand between digits; --input "
                    "text takes it as text)",
                    error.what()));
  }
  if (result.tokens.empty()) throw UsageError("an empty sequence");
  return result;
}

std::string joined(const std::vector<int32_t>& ids, const char* between) {
  std::string line;
  for (const int32_t id : ids) line += (line.empty() ? "" : between) + std::to_string(id);
  return line;
}

std::string show_line(const std::vector<int32_t>& ids, const LineRules& rules) {
  if (ids.empty()) return "";
  const auto reads_back = [&](const std::string& line) {
    if (line.find_first_of("\n\r") != std::string::npos) return false;
    try {
      return read_line(line, rules).tokens == ids;
    } catch (const UsageError&) {
      return false;
    }
  };
  const std::optional<std::string> text = rules.alphabet.text(ids);
  if (text && reads_back(*text)) return *text;
  if (!text && reads_back(joined(ids))) return joined(ids);
  if (text && is_valid_utf8(*text)) return json({{"input", *text}}).dump();
  return fmt::format("{{\"input\": [{}]}}", joined(ids, ", "));
}

}  // namespace longshot
