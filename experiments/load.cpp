// Layers of configs: reading files with their `extends`, command-line overrides, merging.
#include "experiments/load.h"

#include <algorithm>
#include <filesystem>
#include <fmt/core.h>

#include "core/config_toml.h"
#include "core/streams.h"

namespace longshot {

namespace fs = std::filesystem;

namespace {

void merge_table(ConfigTable& base, const ConfigTable& later, bool typed);

// `typed`: tables that hold a `type` (an encoding, its scaling) are replaced, not merged, by one
// with another type. A table without a type takes any: nothing that was written is lost without a
// word.
void merge_value(ConfigTable& base, const std::string& key, const ConfigValue& later, bool typed) {
  ConfigValue* present = base.find(key);
  if (present == nullptr || !present->is_table() || !later.is_table()) {
    base.set(key, later);
    return;
  }
  if (typed) {
    const ConfigValue* new_type = later.as_table().find("type");
    const ConfigValue* old_type = present->as_table().find("type");
    if (new_type != nullptr && old_type != nullptr && !(*new_type == *old_type)) {
      base.set(key, later);
      return;
    }
  }
  merge_table(present->as_table(), later.as_table(), typed);
}

void merge_table(ConfigTable& base, const ConfigTable& later, bool typed) {
  for (const auto& [key, value] : later.entries()) merge_value(base, key, value, typed);
}

// `encoding = "rope"` to `encoding = { type = "rope" }`
ConfigValue with_type_table(const ConfigValue& value) {
  if (!value.is_string()) return value;
  ConfigTable table(value.where());
  table.set("type", ConfigValue(value.as_string(), value.where()));
  return ConfigValue::table(std::move(table), value.where());
}

// A sweep goes as a whole: an overlay that has one ends its base's, axes it does not name included.
void note_replaced_sweep(const ConfigTable& base, const ConfigTable& later,
                         std::vector<std::string>& notes) {
  const ConfigValue *before = base.find("sweep"), *after = later.find("sweep");
  if (before != nullptr && after != nullptr)
    notes.push_back(fmt::format("[sweep] of {} replaces the whole [sweep] of {}",
                                after->where().to_string(), before->where().to_string()));
}

ConfigTable load_layers(const std::string& path, std::vector<std::string>& open_files,
                        const Schema& schema, std::vector<std::string>& notes) {
  std::error_code ignored;
  const std::string identity = fs::weakly_canonical(path, ignored).string();
  ConfigTable own = parse_toml_file(path);
  open_files.push_back(identity);

  ConfigTable result(own.where());
  if (const ConfigValue* extends = own.find("extends")) {
    const ConfigArray names = extends->is_array() ? extends->as_array() : ConfigArray{*extends};
    for (const ConfigValue& name : names) {
      if (!name.is_string())
        throw UsageError(
            fmt::format("{}: extends must be a file name or a list of them, got {}: {}",
                        name.where().to_string(), name.type_name(), name.to_toml()));
      const fs::path base = (fs::path(path).parent_path() / name.as_string()).lexically_normal();
      if (!fs::is_regular_file(base, ignored))
        throw UsageError(fmt::format("{}: extends names a file that is not there: {}",
                                     name.where().to_string(), base.string()));
      const std::string base_identity = fs::weakly_canonical(base, ignored).string();
      if (std::find(open_files.begin(), open_files.end(), base_identity) != open_files.end())
        throw UsageError(fmt::format("{}: extends goes in a circle: {} is being read already",
                                     name.where().to_string(), base.string()));
      const ConfigTable layer = load_layers(base.string(), open_files, schema, notes);
      note_replaced_sweep(result, layer, notes);
      merge_config(result, layer, schema);
    }
    own.erase("extends");
  }
  open_files.pop_back();
  note_replaced_sweep(result, own, notes);
  merge_config(result, own, schema);
  return result;
}

}  // namespace

void merge_config(ConfigTable& base, const ConfigTable& later, const Schema& schema) {
  for (const auto& [key, value] : later.entries()) {
    const SectionTypes* types = schema.typed(key);
    if (types != nullptr)
      merge_value(base, key, with_type_table(value), true);
    else if (key == "sweep")
      base.set(key, value);
    else
      merge_value(base, key, value, false);
  }
}

ConfigTable table_of(std::string_view dotted_key, ConfigValue value) {
  const SourceLocation where = value.where();
  const size_t dot = dotted_key.find('.');
  ConfigTable table(where);
  if (dot == std::string_view::npos) {
    table.set(std::string(dotted_key), std::move(value));
  } else {
    ConfigTable inner = table_of(dotted_key.substr(dot + 1), std::move(value));
    table.set(std::string(dotted_key.substr(0, dot)), ConfigValue::table(std::move(inner), where));
  }
  return table;
}

ConfigTable parse_override(const std::string& text) {
  const SourceLocation where{"command line", 0, 0};
  const size_t equals = text.find('=');
  std::string_view key = std::string_view(text).substr(0, equals);
  const bool well_formed = equals != std::string::npos && !key.empty() && key.front() != '.' &&
                           key.back() != '.' && key.find("..") == std::string_view::npos &&
                           key.find_first_of(" \t[]{}\"'") == std::string_view::npos;
  if (!well_formed)
    throw UsageError(fmt::format("{}: {} is not of the form section.key=value", where.to_string(),
                                 quote_toml(text)));
  if (!is_utf8(text))
    throw UsageError(fmt::format("{}: {} is not UTF-8, and the config that a run keeps is",
                                 where.to_string(), printable(text)));
  return table_of(key, parse_toml_value(std::string_view(text).substr(equals + 1), where));
}

LoadedConfig load_config(const std::vector<std::string>& files,
                         const std::vector<std::string>& overrides, const Schema& schema) {
  LoadedConfig result;
  for (const std::string& file : files) {
    std::vector<std::string> open_files;
    const ConfigTable layer = load_layers(file, open_files, schema, result.notes);
    note_replaced_sweep(result.table, layer, result.notes);
    merge_config(result.table, layer, schema);
  }
  for (const std::string& text : overrides) {
    const ConfigTable one = parse_override(text);
    // A part of a sweep (`sweep.grid.seed=[1]`) changes that part only, and the sweep is no
    // section.
    const ConfigValue* sweep = one.find("sweep");
    if (sweep != nullptr && sweep->is_table()) {
      merge_value(result.table, "sweep", *sweep, false);
      continue;
    }
    if (one.contains("extends"))
      throw UsageError("command line: extends belongs in a file; name several files instead");
    merge_config(result.command_line, one, schema);
  }
  merge_config(result.table, result.command_line, schema);
  if (!result.table.contains("name") && !files.empty())
    result.table.set("name",
                     ConfigValue(fs::path(files.back()).stem().string(), {files.back(), 0, 0}));
  return result;
}

RunConfig load_run(const std::string& file, const std::vector<std::string>& overrides,
                   const Schema& schema) {
  const LoadedConfig loaded = load_config({file}, overrides, schema);
  if (const ConfigValue* sweep = loaded.table.find("sweep"))
    throw UsageError(sweep->where().to_string() +
                     ": this config must describe one run, no [sweep]");
  return resolve(loaded.table, schema);
}

}  // namespace longshot
