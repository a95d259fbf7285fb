// Config values with their place in the file, and option structs described by one field list.
//
// A config is a tree of tables. Where it came from (TOML, command line, a checkpoint's metadata)
// does not matter here: core/config_toml.h parses TOML into this tree.
//
// An options struct names each of its fields once:
//
//   struct RopeOptions {
//     double base = 10000;
//     std::string pairing = "interleaved";
//     void fields(FieldVisitor& visit) {
//       visit.field("base", base, "frequency base", at_least(1.0));
//       visit.field("pairing", pairing, "lanes of a pair", one_of({"interleaved", "half"}));
//     }
//   };
//
// From that list come parsing, defaults, error messages, `longshot list`, the saved config and
// the reference page.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "core/error.h"

namespace longshot {

// Where a value was written. Prints as "file:line:column", or as the file part alone when
// there is no line (line 0), e.g. "command line".
struct SourceLocation {
  std::string file;
  int line = 0;
  int column = 0;
  std::string to_string() const;
};

class ConfigTable;
class ConfigValue;
using ConfigArray = std::vector<ConfigValue>;

class ConfigValue {
 public:
  using Variant = std::variant<bool, int64_t, double, std::string, std::shared_ptr<ConfigArray>,
                               std::shared_ptr<ConfigTable>>;
  ConfigValue() : value_(false) {}
  ConfigValue(Variant value, SourceLocation where)
      : value_(std::move(value)), where_(std::move(where)) {}
  // A copy is a value of its own: lists and tables in it are copied too.
  ConfigValue(const ConfigValue& other);
  ConfigValue& operator=(const ConfigValue& other);
  ConfigValue(ConfigValue&&) noexcept = default;
  ConfigValue& operator=(ConfigValue&&) noexcept = default;
  ~ConfigValue() = default;
  static ConfigValue array(ConfigArray items, SourceLocation where = {});
  static ConfigValue table(ConfigTable table, SourceLocation where = {});

  const Variant& variant() const { return value_; }
  const SourceLocation& where() const { return where_; }
  bool is_table() const { return std::holds_alternative<std::shared_ptr<ConfigTable>>(value_); }
  bool is_array() const { return std::holds_alternative<std::shared_ptr<ConfigArray>>(value_); }
  bool is_string() const { return std::holds_alternative<std::string>(value_); }
  const ConfigTable& as_table() const;
  ConfigTable& as_table();
  const ConfigArray& as_array() const;
  const std::string& as_string() const;
  // A whole number, also where it is written as 1e3 or 1000.0 (up to 2^53, where such numbers are
  // exact); nothing for anything else.
  std::optional<int64_t> as_whole() const;
  const char* type_name() const;  // "a string", "a whole number", ... for messages
  std::string to_toml() const;    // one line; numbers in the shortest form that reads back equal
  bool operator==(const ConfigValue& other) const;  // by value, places ignored

 private:
  Variant value_;
  SourceLocation where_;
};

// An ordered table: keys keep the order in which they were first written.
class ConfigTable {
 public:
  ConfigTable() = default;
  explicit ConfigTable(SourceLocation where) : where_(std::move(where)) {}

  bool contains(std::string_view key) const { return find(key) != nullptr; }
  const ConfigValue* find(std::string_view key) const;
  ConfigValue* find(std::string_view key);
  void set(const std::string& key, ConfigValue value);  // replaces, keeping the key's place
  void erase(std::string_view key);
  const std::vector<std::pair<std::string, ConfigValue>>& entries() const { return entries_; }
  bool empty() const { return entries_.empty(); }
  const SourceLocation& where() const { return where_; }
  std::string to_toml() const;  // a document: plain keys first, then [sections]; one level deep
  bool operator==(const ConfigTable& other) const;  // same keys and values in any order

 private:
  std::vector<std::pair<std::string, ConfigValue>> entries_;
  SourceLocation where_;
};

// ---- limits on a field's value ---------------------------------------------------------------

struct Limits {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool low_open = false;  // low itself is not allowed
  bool high_open = false;
  std::vector<std::string> choices;  // for strings: empty = anything
  bool file = false;                 // for strings: a path, see file_path()
};
Limits at_least(double low);
Limits above(double low);
Limits between(double low, double high);        // both ends allowed
Limits from_to_below(double low, double high);  // low <= x < high
Limits one_of(std::vector<std::string> choices);
// The string is a path: relative ones count from the folder of the config file that holds the
// value, or from the working directory for values that come from no file. Read as an absolute
// path; "" stays "".
Limits file_path();

// ---- field lists -----------------------------------------------------------------------------

class FieldVisitor {
 public:
  virtual ~FieldVisitor() = default;
  virtual void field(const char* key, bool& value, const char* help) = 0;
  virtual void field(const char* key, int64_t& value, const char* help, const Limits& = {}) = 0;
  virtual void field(const char* key, double& value, const char* help, const Limits& = {}) = 0;
  virtual void field(const char* key, std::string& value, const char* help, const Limits& = {}) = 0;
  virtual void field(const char* key, std::vector<int64_t>& value, const char* help,
                     const Limits& each = {}) = 0;
  virtual void field(const char* key, std::vector<double>& value, const char* help,
                     const Limits& each = {}) = 0;
  // A value read and checked by hand (length lists, tables inside a table). The default is what
  // is in `value`; `shape` says in words what is allowed, for help and messages.
  virtual void field(const char* key, ConfigValue& value, const char* help, const char* shape) = 0;
  // A table inside the table, with a field list of its own: `lengths = { min = 1, max = 40 }`.
  template <class Options>
  void table(const char* key, Options& nested, const char* help) {
    nested_fields(key, &nested, &visit_nested<Options>, help);
  }

 protected:
  using Visit = void (*)(void* options, FieldVisitor&);
  virtual void nested_fields(const char* key, void* options, Visit visit, const char* help) = 0;

 private:
  template <class Options>
  static void visit_nested(void* options, FieldVisitor& visitor) {
    static_cast<Options*>(options)->fields(visitor);
  }
};

// One row of a reference table.
struct FieldInfo {
  std::string key, type, default_value, limits, help;
};  // the keys of a nested table are dotted: "lengths.min"

// `keys_known_elsewhere` maps a key that is unknown here to a hint, e.g. "belongs to encoding
// rope".
struct ReadContext {
  std::string section;  // "encoding", for messages: [encoding]
  std::vector<std::pair<std::string, std::string>> keys_known_elsewhere;
  std::vector<std::string> ignore;  // keys of the table that someone else reads, e.g. "type"
};

namespace detail {
void read_fields(const ConfigTable& table, const ReadContext& context,
                 void (*visit)(void* options, FieldVisitor&), void* options);
void write_fields(ConfigTable& table, void (*visit)(void* options, FieldVisitor&), void* options);
std::vector<FieldInfo> describe_fields(void (*visit)(void* options, FieldVisitor&), void* options);
template <class Options>
void visit_fields(void* options, FieldVisitor& visitor) {
  static_cast<Options*>(options)->fields(visitor);
}
}  // namespace detail

// Fills `options` from `table`: values absent keep their defaults. Unknown keys (with the nearest
// known one), wrong types and values outside their limits throw UsageError with file:line:column.
template <class Options>
void read_options(const ConfigTable& table, const ReadContext& context, Options& options) {
  detail::read_fields(table, context, &detail::visit_fields<Options>, &options);
}
// Writes every field, defaults included.
template <class Options>
void write_options(ConfigTable& table, Options options) {
  detail::write_fields(table, &detail::visit_fields<Options>, &options);
}
template <class Options>
std::vector<FieldInfo> describe_options(Options options = {}) {
  return detail::describe_fields(&detail::visit_fields<Options>, &options);
}

// The candidate with the smallest edit distance, or "" when none is near (distance >= length / 2).
std::string nearest_name(std::string_view wrong, const std::vector<std::string>& candidates);

// Shortest decimal text that reads back to the same double ("0.0003", "1e-05", "1" becomes "1.0").
std::string to_shortest(double value);
std::string quote_toml(std::string_view text);  // a TOML basic string with its quotes

}  // namespace longshot
