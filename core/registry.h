// Registry: things chosen by name in a config (encodings, position samplers, tasks, sources).
//
// A registered thing is one .cpp file: an options struct with its field list, a class, and one
// registration object:
//
//   const RegisterType<PositionalEncoding, Alibi, AlibiOptions> kRegister{
//       "alibi", "linear penalty on distance (Press et al. 2022)"};
//
// where Alibi has a constructor Alibi(const AlibiOptions&, Arguments...) and Arguments are fixed by
// the interface's `using Arguments = std::tuple<...>`; a class that has no use for them may do with
// Alibi(const AlibiOptions&).
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "core/config.h"
#include "core/error.h"

namespace longshot {

template <class Interface, class ArgumentTuple = typename Interface::Arguments>
class Registry;

template <class Interface, class... Arguments>
class Registry<Interface, std::tuple<Arguments...>> {
 public:
  struct Entry {
    std::string name;
    std::string summary;
    std::vector<FieldInfo> (*describe)();
    // Reads and checks the options, then writes them all (defaults included) into a new table.
    ConfigTable (*resolve)(const ConfigTable&, const ReadContext&);
    std::unique_ptr<Interface> (*create)(const ConfigTable&, const ReadContext&, Arguments...);
  };

  static Registry& instance() {
    static Registry registry;
    return registry;
  }

  void add(Entry entry) {
    LONGSHOT_CHECK(find(entry.name) == nullptr, "registry: the name {} is taken twice", entry.name);
    entries_.push_back(std::move(entry));
    std::sort(entries_.begin(), entries_.end(),
              [](const Entry& a, const Entry& b) { return a.name < b.name; });
  }

  // For tests, whose own types must not stay for the tests that go over everything registered.
  void remove(std::string_view name) {
    std::erase_if(entries_, [&](const Entry& entry) { return entry.name == name; });
  }

  const Entry* find(std::string_view name) const {
    for (const Entry& entry : entries_)
      if (entry.name == name) return &entry;
    return nullptr;
  }

  // `what` is the kind in words ("encoding"); `where` is where the name was written. Unknown
  // names throw UsageError with the nearest known one.
  const Entry& get(std::string_view name, const char* what, const SourceLocation& where) const {
    if (const Entry* entry = find(name)) return *entry;
    std::vector<std::string> known = names();
    const std::string nearest = nearest_name(name, known);
    std::string list;
    for (const std::string& each : known) list += (list.empty() ? "" : ", ") + each;
    throw UsageError(
        fmt::format("{}: unknown {} \"{}\"{}; known: {}", where.to_string(), what, name,
                    nearest.empty() ? "" : fmt::format("; did you mean \"{}\"?", nearest), list));
  }

  std::vector<std::string> names() const {
    std::vector<std::string> result;
    for (const Entry& entry : entries_) result.push_back(entry.name);
    return result;
  }
  const std::vector<Entry>& entries() const { return entries_; }

  // Hints for keys that belong to another registered type: (key, "belongs to encoding rope").
  std::vector<std::pair<std::string, std::string>> foreign_keys(std::string_view name,
                                                                const char* what) const {
    std::vector<std::pair<std::string, std::string>> result;
    for (const Entry& entry : entries_) {
      if (entry.name == name) continue;
      for (const FieldInfo& field : entry.describe())
        result.emplace_back(field.key, fmt::format("is an option of {} {}", what, entry.name));
    }
    return result;
  }

 private:
  std::vector<Entry> entries_;
};

template <class Interface, class Type, class Options,
          class ArgumentTuple = typename Interface::Arguments>
class RegisterType;

template <class Interface, class Type, class Options, class... Arguments>
class RegisterType<Interface, Type, Options, std::tuple<Arguments...>> {
 public:
  RegisterType(const char* name, const char* summary) {
    typename Table::Entry entry;
    entry.name = name;
    entry.summary = summary;
    entry.describe = &RegisterType::describe;
    entry.resolve = &RegisterType::resolve;
    entry.create = &RegisterType::create;
    Table::instance().add(std::move(entry));
  }

 private:
  using Table = Registry<Interface, std::tuple<Arguments...>>;
  static std::vector<FieldInfo> describe() { return describe_options<Options>(); }
  static ConfigTable resolve(const ConfigTable& table, const ReadContext& context) {
    Options options;
    read_options(table, context, options);
    ConfigTable resolved(table.where());
    write_options(resolved, options);
    return resolved;
  }
  static std::unique_ptr<Interface> create(const ConfigTable& table, const ReadContext& context,
                                           Arguments... arguments) {
    Options options;
    read_options(table, context, options);
    if constexpr (std::is_constructible_v<Type, const Options&, Arguments...>)
      return std::make_unique<Type>(options, std::forward<Arguments>(arguments)...);
    else
      return std::make_unique<Type>(options);
  }
};

}  // namespace longshot
