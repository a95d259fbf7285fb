// Expanding [sweep] into cells. Their identities and folder names are made in cell_identity.cpp.
#include "experiments/sweep.h"

#include <fmt/core.h>
#include <map>

#include "experiments/cell_identity.h"

namespace longshot {

namespace {

constexpr size_t kMostCells = 100000;

using Setting = std::pair<std::string, ConfigValue>;  // dotted key, value
using Alternative = std::vector<Setting>;             // settings that go together
using Group = std::vector<Alternative>;               // one of these is chosen

struct SweepOptions {
  ConfigValue grid = ConfigValue::table({});
  ConfigValue zip = ConfigValue::table({});
  ConfigValue cells = ConfigValue::array({});
  void fields(FieldVisitor& visit) {
    visit.field("grid", grid, "every combination of the lists' values", "table of lists");
    visit.field("zip", zip, "lists of equal length, in step", "table of lists");
    visit.field("cells", cells, "explicit combinations", "list of tables");
  }
};

[[noreturn]] void fail(const SourceLocation& where, const std::string& message) {
  throw UsageError(where.to_string() + ": " + message);
}

struct Axis {
  std::string key;
  const ConfigValue* list;
};

void check_axis_key(const std::string& key, const SourceLocation& where) {
  if (key == "name" || key == "extends" || key == "sweep" || key.starts_with("sweep."))
    fail(where, fmt::format("{} cannot be swept", key));
}

// The lists below a table: { train = { lr = [..] } } is the axis train.lr.
void collect_axes(const ConfigTable& table, const std::string& prefix, const std::string& kind,
                  std::vector<Axis>& axes) {
  for (const auto& [name, value] : table.entries()) {
    const std::string key = prefix.empty() ? name : prefix + "." + name;
    check_axis_key(key, value.where());
    if (value.is_table()) {
      if (value.as_table().empty()) fail(value.where(), fmt::format("{}.{} is empty", kind, key));
      collect_axes(value.as_table(), key, kind, axes);
    } else if (!value.is_array()) {
      fail(value.where(), fmt::format("{}.{} must be a list of values, got {}: {}", kind, key,
                                      value.type_name(), value.to_toml()));
    } else if (value.as_array().empty()) {
      fail(value.where(), fmt::format("{}.{} is an empty list: no cell would be left", kind, key));
    } else {
      axes.push_back({key, &value});
    }
  }
}

// The values below a table: { train = { lr = 1 }, seed = 2 }. A table with a `type`, or in place of
// a typed section, is one value.
void collect_settings(const ConfigTable& table, const std::string& prefix, const Schema& schema,
                      Alternative& settings) {
  for (const auto& [name, value] : table.entries()) {
    const std::string key = prefix.empty() ? name : prefix + "." + name;
    check_axis_key(key, value.where());
    const bool whole = schema.typed(key) != nullptr || !value.is_table();
    if (whole)
      settings.emplace_back(key, value);
    else
      collect_settings(value.as_table(), key, schema, settings);
  }
}

bool has_key(const ConfigTable& table, std::string_view dotted_key) {
  const size_t dot = dotted_key.find('.');
  const ConfigValue* value = table.find(dotted_key.substr(0, dot));
  if (value == nullptr || dot == std::string_view::npos) return value != nullptr;
  return value->is_table() && has_key(value->as_table(), dotted_key.substr(dot + 1));
}

// Whether the command line decides this axis: it sets that key, or gives that section a type.
bool decided(const ConfigTable& command_line, const std::string& key, const Schema& schema) {
  if (schema.typed(key) != nullptr) return has_key(command_line, key + ".type");
  const ConfigValue* section = command_line.find(key);
  if (section != nullptr && section->is_table())
    return false;  // merged into each value of the axis
  return has_key(command_line, key);
}

class Groups {
 public:
  Groups(const ConfigTable& command_line, const Schema& schema)
      : command_line_(command_line), schema_(schema) {}

  void add_grid(const ConfigValue& grid) {
    std::vector<Axis> axes;
    if (!axes_of(grid, "sweep.grid", axes)) return;
    for (const Axis& axis : axes) {
      claim(axis.key, *axis.list, "sweep.grid");
      if (decided(command_line_, axis.key, schema_)) continue;
      Group group;
      for (const ConfigValue& value : axis.list->as_array()) group.push_back({{axis.key, value}});
      groups.push_back(std::move(group));
    }
  }

  void add_zip(const ConfigValue& zip) {
    std::vector<Axis> axes;
    if (!axes_of(zip, "sweep.zip", axes)) return;
    const size_t length = axes.front().list->as_array().size();
    Group group(length);
    bool any = false;
    for (const Axis& axis : axes) {
      claim(axis.key, *axis.list, "sweep.zip");
      const ConfigArray& values = axis.list->as_array();
      if (values.size() != length)
        fail(axis.list->where(),
             fmt::format("the lists of sweep.zip must be equally long: {} has {} values, {} has {}",
                         axes.front().key, length, axis.key, values.size()));
      if (decided(command_line_, axis.key, schema_)) continue;
      any = true;
      for (size_t i = 0; i < length; ++i) group[i].emplace_back(axis.key, values[i]);
    }
    if (any) groups.push_back(std::move(group));
  }

  void add_cells(const ConfigValue& cells) {
    if (!cells.is_array())
      fail(cells.where(),
           fmt::format("sweep.cells must be a list of tables, got {}", cells.type_name()));
    if (cells.as_array().empty())
      fail(cells.where(), "sweep.cells is empty: no cell would be left");
    Group group;
    for (const ConfigValue& cell : cells.as_array()) {
      if (!cell.is_table())
        fail(cell.where(),
             fmt::format("sweep.cells holds tables, got {}: {}", cell.type_name(), cell.to_toml()));
      Alternative settings;
      collect_settings(cell.as_table(), "", schema_, settings);
      for (const Setting& setting : settings)
        if (const auto claimed = claimed_.find(setting.first); claimed != claimed_.end())
          fail(setting.second.where(),
               fmt::format("{} is set by sweep.cells and by {}", setting.first, claimed->second));
      group.push_back(std::move(settings));
    }
    groups.push_back(std::move(group));
  }

  std::vector<Group> groups;

 private:
  static bool axes_of(const ConfigValue& value, const std::string& kind, std::vector<Axis>& axes) {
    if (!value.is_table())
      fail(value.where(), fmt::format("{} must be a table of lists, got {}: {}", kind,
                                      value.type_name(), value.to_toml()));
    if (value.as_table().empty())
      fail(value.where(), fmt::format("{} is empty: no cell would be left", kind));
    collect_axes(value.as_table(), "", kind, axes);
    return !axes.empty();
  }
  void claim(const std::string& key, const ConfigValue& list, const std::string& kind) {
    const auto [claimed, added] = claimed_.emplace(key, kind);
    if (!added)
      fail(list.where(), fmt::format("{} is an axis of {} and of {}", key, kind, claimed->second));
  }

  const ConfigTable& command_line_;
  const Schema& schema_;
  std::map<std::string, std::string> claimed_;
};

std::string describe(const Cell& cell) {
  std::string text;
  for (const auto& [key, value] : cell.overrides)
    text += (text.empty() ? "" : ", ") + key + " = " + value.to_toml();
  return text.empty() ? "no overrides" : text;
}

void check_duplicates(const std::vector<Cell>& cells, const SourceLocation& where) {
  std::map<std::string, size_t> seen;
  for (size_t i = 0; i < cells.size(); ++i) {
    const auto [first, added] = seen.emplace(cells[i].identity, i);
    if (added) continue;
    const Cell& other = cells[first->second];
    const bool same = to_table(other.config) == to_table(cells[i].config);
    fail(where,
         fmt::format("sweep: cells {} ({}) and {} ({}) {}", first->second + 1, describe(other),
                     i + 1, describe(cells[i]),
                     same ? "are the same run"
                          : "train the same model: they differ only in what does not change "
                            "training (use `longshot eval` to evaluate a run in several ways)"));
  }
}

}  // namespace

std::vector<Cell> expand_sweep(const LoadedConfig& loaded, const std::string& auto_device,
                               const Schema& schema) {
  ConfigTable base = loaded.table;
  base.erase("sweep");
  Groups groups(loaded.command_line, schema);
  SourceLocation where = base.where();
  if (const ConfigValue* sweep = loaded.table.find("sweep")) {
    where = sweep->where();
    if (!sweep->is_table())
      fail(where, fmt::format("[sweep] must be a section, got {}", sweep->type_name()));
    const ConfigTable& table = sweep->as_table();
    SweepOptions options;
    read_options(table, ReadContext{"sweep", {}, {}}, options);
    if (table.contains("grid")) groups.add_grid(options.grid);
    if (table.contains("zip")) groups.add_zip(options.zip);
    if (table.contains("cells")) groups.add_cells(options.cells);
  }

  size_t count = 1;
  for (const Group& group : groups.groups) {
    count *= group.size();
    if (count > kMostCells) fail(where, fmt::format("sweep: more than {} cells", kMostCells));
  }

  std::vector<Cell> cells;
  cells.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    Cell cell;
    ConfigTable table = base;
    size_t rest = i, block = count;
    for (const Group& group : groups.groups) {
      block /= group.size();
      const Alternative& chosen = group[rest / block];
      rest %= block;
      for (const auto& [key, value] : chosen) {
        merge_config(table, table_of(key, value), schema);
        cell.overrides.emplace_back(key, value);
      }
    }
    merge_config(table, loaded.command_line, schema);
    cell.config = resolve(table, schema);
    cell.identity = identity_of(cell.config, auto_device, schema);
    cells.push_back(std::move(cell));
  }
  check_duplicates(cells, where);
  name_folders(cells, auto_device, schema);
  return cells;
}

}  // namespace longshot
