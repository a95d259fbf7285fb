// Field lists at work: one visitor reads an options struct from a table, one writes it back, one
// describes it. Also the limits on values and the search for the key that was meant.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fmt/core.h>

#include "core/config.h"
#include "core/streams.h"

namespace longshot {

// ---- limits ----------------------------------------------------------------------------------

Limits at_least(double low) {
  Limits limits;
  limits.low = low;
  return limits;
}
Limits above(double low) {
  Limits limits = at_least(low);
  limits.low_open = true;
  return limits;
}
Limits between(double low, double high) {
  Limits limits = at_least(low);
  limits.high = high;
  return limits;
}
Limits from_to_below(double low, double high) {
  Limits limits = between(low, high);
  limits.high_open = true;
  return limits;
}
Limits one_of(std::vector<std::string> choices) {
  Limits limits;
  limits.choices = std::move(choices);
  return limits;
}
Limits file_path() {
  Limits limits;
  limits.file = true;
  return limits;
}

namespace {

std::string join_quoted(const std::vector<std::string>& names) {
  std::string result;
  for (const std::string& name : names) result += (result.empty() ? "" : ", ") + quote_toml(name);
  return result;
}

std::string plain_number(double value) {
  return fmt::format("{}", value);
}

// "at least 1", "above 0", "from 0 to 1", "at least 0 and below 1", "one of ..."; "" = anything.
std::string describe_limits(const Limits& limits) {
  if (!limits.choices.empty()) return "one of " + join_quoted(limits.choices);
  const bool low = std::isfinite(limits.low), high = std::isfinite(limits.high);
  if (low && high && !limits.low_open && !limits.high_open)
    return fmt::format("from {} to {}", plain_number(limits.low), plain_number(limits.high));
  std::string text;
  if (low) text = (limits.low_open ? "above " : "at least ") + plain_number(limits.low);
  if (high) {
    if (low) text += " and ";
    text += (limits.high_open ? "below " : "at most ") + plain_number(limits.high);
  }
  return text;
}

bool inside(double value, const Limits& limits) {
  const bool low = limits.low_open ? value > limits.low : value >= limits.low;
  const bool high = limits.high_open ? value < limits.high : value <= limits.high;
  return low && high;
}

}  // namespace

// ---- nearest name ----------------------------------------------------------------------------

namespace {

// Insertions, deletions, replacements and swaps of neighbours (optimal string alignment).
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
    std::swap(before, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

}  // namespace

std::string nearest_name(std::string_view wrong, const std::vector<std::string>& candidates) {
  std::string best;
  size_t best_distance = wrong.size() + 1;
  for (const std::string& candidate : candidates) {
    const size_t distance = edit_distance(wrong, candidate);
    const size_t near = (std::max(wrong.size(), candidate.size()) + 1) / 2;
    if (distance < std::min(near, best_distance)) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

// ---- reading ---------------------------------------------------------------------------------

namespace {

class KeyCollector : public FieldVisitor {
 public:
  std::vector<std::string> keys;

  void field(const char* key, bool&, const char*) override { keys.push_back(key); }
  void field(const char* key, int64_t&, const char*, const Limits&) override {
    keys.push_back(key);
  }
  void field(const char* key, double&, const char*, const Limits&) override { keys.push_back(key); }
  void field(const char* key, std::string&, const char*, const Limits&) override {
    keys.push_back(key);
  }
  void field(const char* key, std::vector<int64_t>&, const char*, const Limits&) override {
    keys.push_back(key);
  }
  void field(const char* key, std::vector<double>&, const char*, const Limits&) override {
    keys.push_back(key);
  }
  void field(const char* key, ConfigValue&, const char*, const char*) override {
    keys.push_back(key);
  }

 protected:
  void nested_fields(const char* key, void*, Visit, const char*) override { keys.push_back(key); }
};

class Reader : public FieldVisitor {
 public:
  Reader(const ConfigTable& table, const ReadContext& context) : table_(table), context_(context) {}

  void field(const char* key, bool& value, const char*) override {
    const ConfigValue* found = table_.find(key);
    if (found == nullptr) return;
    if (const bool* flag = std::get_if<bool>(&found->variant()))
      value = *flag;
    else
      wrong(key, *found, "must be true or false");
  }
  void field(const char* key, int64_t& value, const char*, const Limits& limits) override {
    if (const ConfigValue* found = table_.find(key)) value = read_whole(key, *found, limits);
  }
  void field(const char* key, double& value, const char*, const Limits& limits) override {
    if (const ConfigValue* found = table_.find(key)) value = read_number(key, *found, limits);
  }
  void field(const char* key, std::string& value, const char*, const Limits& limits) override {
    const ConfigValue* found = table_.find(key);
    if (found == nullptr) return;
    if (!found->is_string())
      wrong(key, *found,
            limits.choices.empty() ? "must be a string" : "must be " + describe_limits(limits));
    const std::string& text = found->as_string();
    const std::vector<std::string>& choices = limits.choices;
    if (!choices.empty() && std::find(choices.begin(), choices.end(), text) == choices.end()) {
      const std::string near = nearest_name(text, choices);
      fail(*found, fmt::format("{} must be {}, got {}{}", full_name(key), describe_limits(limits),
                               quote_toml(text),
                               near.empty() ? "" : fmt::format("; did you mean \"{}\"?", near)));
    }
    value = limits.file ? absolute_path(text, found->where()) : text;
  }
  void field(const char* key, std::vector<int64_t>& value, const char*,
             const Limits& each) override {
    read_list(key, value, "must be a list of whole numbers",
              [&](const ConfigValue& item) { return read_whole(key, item, each); });
  }
  void field(const char* key, std::vector<double>& value, const char*,
             const Limits& each) override {
    read_list(key, value, "must be a list of numbers",
              [&](const ConfigValue& item) { return read_number(key, item, each); });
  }
  void field(const char* key, ConfigValue& value, const char*, const char*) override {
    if (const ConfigValue* found = table_.find(key)) value = *found;
  }

 protected:
  void nested_fields(const char* key, void* options, Visit visit, const char*) override {
    const ConfigValue* found = table_.find(key);
    if (found == nullptr) return;
    if (!found->is_table()) wrong(key, *found, "must be a table");
    detail::read_fields(found->as_table(), ReadContext{full_name(key), {}, {}}, visit, options);
  }

 private:
  std::string full_name(const char* key) const {
    return context_.section.empty() ? key : context_.section + "." + key;
  }
  [[noreturn]] static void fail(const ConfigValue& value, const std::string& message) {
    throw UsageError(value.where().to_string() + ": " + message);
  }
  [[noreturn]] void wrong(const char* key, const ConfigValue& value,
                          const std::string& requirement) const {
    fail(value, fmt::format("{} {}, got {}: {}", full_name(key), requirement, value.type_name(),
                            value.to_toml()));
  }
  void check_limits(const char* key, const ConfigValue& value, double number,
                    const Limits& limits) const {
    if (!inside(number, limits))
      fail(value, fmt::format("{} must be {}, got {}", full_name(key), describe_limits(limits),
                              value.to_toml()));
  }
  int64_t read_whole(const char* key, const ConfigValue& value, const Limits& limits) const {
    const std::optional<int64_t> whole = value.as_whole();
    if (!whole) {
      const double* number = std::get_if<double>(&value.variant());
      if (number != nullptr && std::isfinite(*number) && std::abs(*number) > 1e15) {
        const std::string bounds = describe_limits(limits);
        fail(value,
             fmt::format("{} is too {}: {}; it must be {}a whole number from {} to {}",
                         full_name(key), *number > 0 ? "large" : "small", value.to_toml(),
                         bounds.empty() ? "" : bounds + ", ", std::numeric_limits<int64_t>::min(),
                         std::numeric_limits<int64_t>::max()));
      }
      wrong(key, value, "must be a whole number");
    }
    check_limits(key, value, double(*whole), limits);
    return *whole;
  }
  double read_number(const char* key, const ConfigValue& value, const Limits& limits) const {
    double number = 0;
    if (const int64_t* whole = std::get_if<int64_t>(&value.variant()))
      number = double(*whole);
    else if (const double* real = std::get_if<double>(&value.variant()))
      number = *real;
    else
      wrong(key, value, "must be a number");
    if (!std::isfinite(number))
      fail(value,
           fmt::format("{} must be a finite number, got {}", full_name(key), value.to_toml()));
    check_limits(key, value, number, limits);
    return number;
  }
  template <class T, class ReadItem>
  void read_list(const char* key, std::vector<T>& value, const char* requirement, ReadItem read) {
    const ConfigValue* found = table_.find(key);
    if (found == nullptr) return;
    if (!found->is_array()) wrong(key, *found, requirement);
    std::vector<T> items;
    for (const ConfigValue& item : found->as_array()) items.push_back(read(item));
    value = std::move(items);
  }
  static std::string absolute_path(const std::string& text, const SourceLocation& where) {
    namespace fs = std::filesystem;
    if (text.empty()) return text;
    const fs::path base = where.line > 0 ? fs::path(where.file).parent_path() : fs::path();
    std::string path = fs::absolute(base / text).lexically_normal().string();
    if (!is_utf8(path))
      throw UsageError(fmt::format(
          "{}: the path {} is not UTF-8, and the config that a run keeps is: use another name",
          where.to_string(), printable(path)));
    return path;
  }

  const ConfigTable& table_;
  const ReadContext& context_;
};

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

void check_keys(const ConfigTable& table, const ReadContext& context,
                const std::vector<std::string>& known) {
  for (const auto& [key, value] : table.entries()) {
    if (contains(known, key) || contains(context.ignore, key)) continue;
    std::string message = fmt::format(
        "{}: unknown key {} {}", value.where().to_string(), quote_toml(key),
        context.section.empty() ? "at the top level" : fmt::format("in [{}]", context.section));
    std::vector<std::string> candidates = known;
    candidates.insert(candidates.end(), context.ignore.begin(), context.ignore.end());
    std::string hints;
    for (const auto& [other, hint] : context.keys_known_elsewhere)
      if (other == key && hints.find(hint) == std::string::npos)
        hints += (hints.empty() ? "" : ", ") + hint;
    const std::string near = nearest_name(key, candidates);
    if (!hints.empty()) message += fmt::format("; {} {}", quote_toml(key), hints);
    if (!near.empty())
      message += fmt::format("; did you mean \"{}\"?", near);
    else if (!candidates.empty())
      message += "; known keys: " + fmt::format("{}", [&] {
                   std::string list;
                   for (const std::string& name : candidates)
                     list += (list.empty() ? "" : ", ") + name;
                   return list;
                 }());
    else
      message += "; it takes no keys";
    throw UsageError(message);
  }
}

// ---- writing and describing ------------------------------------------------------------------

template <class T>
ConfigValue list_value(const std::vector<T>& items) {
  ConfigArray array;
  for (const T item : items) array.push_back(ConfigValue(item, {}));
  return ConfigValue::array(std::move(array));
}

class Writer : public FieldVisitor {
 public:
  explicit Writer(ConfigTable& table) : table_(table) {}

  void field(const char* key, bool& value, const char*) override { set(key, value); }
  void field(const char* key, int64_t& value, const char*, const Limits&) override {
    set(key, value);
  }
  void field(const char* key, double& value, const char*, const Limits&) override {
    set(key, value);
  }
  void field(const char* key, std::string& value, const char*, const Limits&) override {
    set(key, value);
  }
  void field(const char* key, std::vector<int64_t>& value, const char*, const Limits&) override {
    table_.set(key, list_value(value));
  }
  void field(const char* key, std::vector<double>& value, const char*, const Limits&) override {
    table_.set(key, list_value(value));
  }
  void field(const char* key, ConfigValue& value, const char*, const char*) override {
    table_.set(key, value);
  }

 protected:
  void nested_fields(const char* key, void* options, Visit visit, const char*) override {
    ConfigTable nested;
    detail::write_fields(nested, visit, options);
    table_.set(key, ConfigValue::table(std::move(nested)));
  }

 private:
  void set(const char* key, ConfigValue::Variant value) {
    table_.set(key, ConfigValue(std::move(value), {}));
  }
  ConfigTable& table_;
};

class Describer : public FieldVisitor {
 public:
  std::vector<FieldInfo> rows;

  void field(const char* key, bool& value, const char* help) override {
    rows.push_back({key, "true or false", value ? "true" : "false", "", help});
  }
  void field(const char* key, int64_t& value, const char* help, const Limits& limits) override {
    rows.push_back({key, "whole number", fmt::format("{}", value), describe_limits(limits), help});
  }
  void field(const char* key, double& value, const char* help, const Limits& limits) override {
    rows.push_back({key, "number", to_shortest(value), describe_limits(limits), help});
  }
  void field(const char* key, std::string& value, const char* help, const Limits& limits) override {
    rows.push_back(
        {key, limits.file ? "file" : "string", quote_toml(value), describe_limits(limits), help});
  }
  void field(const char* key, std::vector<int64_t>& value, const char* help,
             const Limits& each) override {
    add_list(key, "list of whole numbers", list_value(value), each, help);
  }
  void field(const char* key, std::vector<double>& value, const char* help,
             const Limits& each) override {
    add_list(key, "list of numbers", list_value(value), each, help);
  }
  void field(const char* key, ConfigValue& value, const char* help, const char* shape) override {
    rows.push_back({key, shape, value.to_toml(), "", help});
  }

 protected:
  void nested_fields(const char* key, void* options, Visit visit, const char*) override {
    for (FieldInfo row : detail::describe_fields(visit, options)) {
      row.key = std::string(key) + "." + row.key;
      rows.push_back(std::move(row));
    }
  }

 private:
  void add_list(const char* key, const char* type, const ConfigValue& value, const Limits& each,
                const char* help) {
    const std::string limits = describe_limits(each);
    rows.push_back({key, type, value.to_toml(), limits.empty() ? "" : "each " + limits, help});
  }
};

}  // namespace

namespace detail {

void read_fields(const ConfigTable& table, const ReadContext& context,
                 void (*visit)(void* options, FieldVisitor&), void* options) {
  KeyCollector collector;
  visit(options, collector);
  check_keys(table, context, collector.keys);
  Reader reader(table, context);
  visit(options, reader);
}

void write_fields(ConfigTable& table, void (*visit)(void* options, FieldVisitor&), void* options) {
  Writer writer(table);
  visit(options, writer);
}

std::vector<FieldInfo> describe_fields(void (*visit)(void* options, FieldVisitor&), void* options) {
  Describer describer;
  visit(options, describer);
  return std::move(describer.rows);
}

}  // namespace detail

}  // namespace longshot
