// The only file that knows toml++ (3.3 and 3.4). The library's table sorts its keys, so the order
// in which they were written is restored from their source positions. A value's place is that of
// its key, or its own inside a list.
#include "core/config_toml.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fmt/core.h>
#include <limits>
#include <toml++/toml.h>

#include "core/files.h"

namespace longshot {

namespace {

constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();

class Converter {
 public:
  // `fixed`: the place of every value, for text that stands in no file.
  Converter(std::string file, const SourceLocation* fixed)
      : file_(std::move(file)), fixed_(fixed) {}

  ConfigTable table(const toml::table& source, SourceLocation where) const {
    struct Entry {
      const toml::key* key;
      const toml::node* node;
    };
    std::vector<Entry> entries;
    for (auto&& [key, node] : source) entries.push_back({&key, &node});
    std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
      const toml::source_position& first = a.key->source().begin;
      const toml::source_position& second = b.key->source().begin;
      return first.line != second.line ? first.line < second.line : first.column < second.column;
    });
    ConfigTable result(std::move(where));
    for (const Entry& entry : entries)
      result.set(std::string(entry.key->str()),
                 value(*entry.node, place(entry.key->source().begin)));
    return result;
  }

  ConfigValue value(const toml::node& node, SourceLocation where) const {
    switch (node.type()) {
      case toml::node_type::table: {
        ConfigTable inner = table(*node.as_table(), where);
        return ConfigValue::table(std::move(inner), std::move(where));
      }
      case toml::node_type::array: {
        ConfigArray items;
        for (const toml::node& item : *node.as_array())
          items.push_back(value(item, place(item.source().begin)));
        return ConfigValue::array(std::move(items), std::move(where));
      }
      case toml::node_type::string:
        return ConfigValue(std::string(node.as_string()->get()), std::move(where));
      case toml::node_type::integer:
        return ConfigValue(int64_t(node.as_integer()->get()), std::move(where));
      case toml::node_type::floating_point:
        return ConfigValue(double(node.as_floating_point()->get()), std::move(where));
      case toml::node_type::boolean:
        return ConfigValue(bool(node.as_boolean()->get()), std::move(where));
      default:
        throw UsageError(where.to_string() +
                         ": dates and times have no use here; quote the value to make it a string");
    }
  }

  SourceLocation place(const toml::source_position& position) const {
    if (fixed_ != nullptr) return *fixed_;
    return {file_, int(position.line), int(position.column)};
  }

 private:
  std::string file_;
  const SourceLocation* fixed_;
};

// A key of very many parts would overflow the parser's stack.
void check_depth(std::string_view text, const std::string& file_name) {
  constexpr int64_t kMostParts = 200;
  int line = 1;
  while (!text.empty()) {
    const std::string_view content = text.substr(0, text.find('\n'));
    const std::string_view key =
        content.starts_with('[') ? content : content.substr(0, content.find_first_of("=\"'#"));
    if (const auto dots = std::count(key.begin(), key.end(), '.'); dots >= kMostParts)
      throw UsageError(fmt::format("{}:{}: a key of {} parts; {} are the most", file_name, line,
                                   dots + 1, kMostParts));
    text.remove_prefix(std::min(content.size() + 1, text.size()));
    ++line;
  }
}

}  // namespace

ConfigTable parse_toml(std::string_view text, const std::string& file_name) {
  const Converter converter(file_name, nullptr);
  try {
    check_depth(text, file_name);
    const toml::table parsed = toml::parse(text, file_name);
    return converter.table(parsed, {file_name, 1, 1});
  } catch (const toml::parse_error& error) {
    const std::string_view reason = error.description();
    const bool large = reason.find("not representable in 64 bits") != std::string_view::npos;
    throw UsageError(
        fmt::format("{}: {}{}", converter.place(error.source().begin).to_string(), reason,
                    large ? fmt::format(": too large, whole numbers go up to {}", kLargest) : ""));
  }
}

ConfigTable parse_toml_file(const std::string& path) {
  if (std::filesystem::is_directory(path))
    throw UsageError(fmt::format("{}: is a folder, not a config file", path));
  std::string text;
  try {
    text = read_file(path);
  } catch (const FileError& error) {
    if (error.of_the_disk()) throw;
    throw UsageError(fmt::format("{}: cannot read: {}", path, std::strerror(error.error())));
  }
  return parse_toml(text, path);
}

ConfigValue parse_toml_value(std::string_view text, const SourceLocation& where) {
  const Converter converter("", &where);
  try {
    const toml::table parsed = toml::parse(fmt::format("value = {}\n", text));
    const toml::node* node = parsed.get("value");
    const bool is_value = parsed.size() == 1 && node != nullptr && !node->is_date() &&
                          !node->is_time() && !node->is_date_time();
    if (is_value) return converter.value(*node, where);
  } catch (const toml::parse_error& error) {
    // A list, table or quoted string that does not parse is a mistake, not a word.
    if (!text.empty() && std::strchr("[{\"'", text.front()) != nullptr)
      throw UsageError(fmt::format("{}: {} is not a valid value: {}", where.to_string(), text,
                                   error.description()));
    // A number that TOML cannot hold is a number still: its field knows the bounds.
    double number = 0;
    const auto [end, result] = std::from_chars(text.data(), text.data() + text.size(), number);
    const bool whole_text = end == text.data() + text.size();
    if (whole_text && result == std::errc::result_out_of_range)
      throw UsageError(
          fmt::format("{}: {} is too large or too small for a number", where.to_string(), text));
    if (whole_text && std::isfinite(number) && std::abs(number) > double(kLargest))
      return ConfigValue(number, where);
  }
  return ConfigValue(std::string(text), where);
}

}  // namespace longshot
