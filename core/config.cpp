// The value tree of core/config.h: access, comparison, copying, and writing as TOML.
// Reading option structs from it is in config_fields.cpp.
#include "core/config.h"

#include <algorithm>
#include <cmath>
#include <fmt/core.h>

namespace longshot {

std::string SourceLocation::to_string() const {
  if (line <= 0) return file;
  return fmt::format("{}:{}:{}", file, line, column);
}

// ---- ConfigValue -----------------------------------------------------------------------------

ConfigValue::ConfigValue(const ConfigValue& other) : value_(other.value_), where_(other.where_) {
  if (is_array()) value_ = std::make_shared<ConfigArray>(other.as_array());
  if (is_table()) value_ = std::make_shared<ConfigTable>(other.as_table());
}

ConfigValue& ConfigValue::operator=(const ConfigValue& other) {
  return *this = ConfigValue(other);
}

ConfigValue ConfigValue::array(ConfigArray items, SourceLocation where) {
  return ConfigValue(std::make_shared<ConfigArray>(std::move(items)), std::move(where));
}

ConfigValue ConfigValue::table(ConfigTable table, SourceLocation where) {
  return ConfigValue(std::make_shared<ConfigTable>(std::move(table)), std::move(where));
}

namespace {

[[noreturn]] void wrong_type(const ConfigValue& value, const char* wanted) {
  throw UsageError(
      fmt::format("{}: must be {}, got {}", value.where().to_string(), wanted, value.type_name()));
}

bool is_bare_key(std::string_view key) {
  return !key.empty() && std::all_of(key.begin(), key.end(), [](unsigned char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
  });
}

std::string key_to_toml(const std::string& key) {
  return is_bare_key(key) ? key : quote_toml(key);
}

}  // namespace

const ConfigTable& ConfigValue::as_table() const {
  if (!is_table()) wrong_type(*this, "a table");
  return *std::get<std::shared_ptr<ConfigTable>>(value_);
}

ConfigTable& ConfigValue::as_table() {
  if (!is_table()) wrong_type(*this, "a table");
  return *std::get<std::shared_ptr<ConfigTable>>(value_);
}

const ConfigArray& ConfigValue::as_array() const {
  if (!is_array()) wrong_type(*this, "a list");
  return *std::get<std::shared_ptr<ConfigArray>>(value_);
}

const std::string& ConfigValue::as_string() const {
  if (!is_string()) wrong_type(*this, "a string");
  return std::get<std::string>(value_);
}

std::optional<int64_t> ConfigValue::as_whole() const {
  if (const int64_t* whole = std::get_if<int64_t>(&value_)) return *whole;
  const double* number = std::get_if<double>(&value_);
  constexpr double kExact = 9007199254740992;  // 2^53
  if (number == nullptr || !(std::abs(*number) <= kExact) || *number != std::trunc(*number))
    return std::nullopt;
  return int64_t(*number);
}

const char* ConfigValue::type_name() const {
  // In the order of Variant.
  static constexpr const char* kNames[] = {"true or false", "a whole number", "a number",
                                           "a string",      "a list",         "a table"};
  return kNames[value_.index()];
}

std::string ConfigValue::to_toml() const {
  if (const bool* flag = std::get_if<bool>(&value_)) return *flag ? "true" : "false";
  if (const int64_t* whole = std::get_if<int64_t>(&value_)) return fmt::format("{}", *whole);
  if (const double* number = std::get_if<double>(&value_)) return to_shortest(*number);
  if (const std::string* text = std::get_if<std::string>(&value_)) return quote_toml(*text);
  std::string result;
  if (is_array()) {
    for (const ConfigValue& item : as_array()) {
      if (!result.empty()) result += ", ";
      result += item.to_toml();
    }
    return "[" + result + "]";
  }
  for (const auto& [key, value] : as_table().entries()) {
    if (!result.empty()) result += ", ";
    result += key_to_toml(key) + " = " + value.to_toml();
  }
  return result.empty() ? "{}" : "{ " + result + " }";
}

bool ConfigValue::operator==(const ConfigValue& other) const {
  if (value_.index() != other.value_.index()) return false;
  if (is_array()) return as_array() == other.as_array();
  if (is_table()) return as_table() == other.as_table();
  return value_ == other.value_;
}

// ---- ConfigTable -----------------------------------------------------------------------------

const ConfigValue* ConfigTable::find(std::string_view key) const {
  for (const auto& [name, value] : entries_)
    if (name == key) return &value;
  return nullptr;
}

ConfigValue* ConfigTable::find(std::string_view key) {
  return const_cast<ConfigValue*>(static_cast<const ConfigTable*>(this)->find(key));
}

void ConfigTable::set(const std::string& key, ConfigValue value) {
  if (ConfigValue* present = find(key))
    *present = std::move(value);
  else
    entries_.emplace_back(key, std::move(value));
}

void ConfigTable::erase(std::string_view key) {
  std::erase_if(entries_, [&](const auto& entry) { return entry.first == key; });
}

std::string ConfigTable::to_toml() const {
  std::string result;
  for (const auto& [key, value] : entries_)
    if (!value.is_table()) result += key_to_toml(key) + " = " + value.to_toml() + "\n";
  for (const auto& [section, value] : entries_) {
    if (!value.is_table()) continue;
    if (!result.empty()) result += "\n";
    result += "[" + key_to_toml(section) + "]\n";
    for (const auto& [key, inner] : value.as_table().entries())
      result += key_to_toml(key) + " = " + inner.to_toml() + "\n";
  }
  return result;
}

bool ConfigTable::operator==(const ConfigTable& other) const {
  if (entries_.size() != other.entries_.size()) return false;
  return std::all_of(entries_.begin(), entries_.end(), [&](const auto& entry) {
    const ConfigValue* match = other.find(entry.first);
    return match != nullptr && *match == entry.second;
  });
}

// ---- text ------------------------------------------------------------------------------------

std::string to_shortest(double value) {
  std::string text = fmt::format("{}", value);  // the shortest digits that read back equal
  if (text.find_first_not_of("-0123456789") == std::string::npos) text += ".0";
  return text;
}

std::string quote_toml(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    switch (c) {
      case '"':
        result += "\\\"";
        break;
      case '\\':
        result += "\\\\";
        break;
      case '\n':
        result += "\\n";
        break;
      case '\t':
        result += "\\t";
        break;
      case '\r':
        result += "\\r";
        break;
      default:
        if (byte < 0x20 || byte == 0x7f)
          result += fmt::format("\\u{:04X}", byte);
        else
          result += c;
    }
  }
  return result + "\"";
}

}  // namespace longshot
