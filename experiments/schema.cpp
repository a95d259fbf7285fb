// Reading, checking and writing a run's config.
#include "experiments/schema.h"

#include <algorithm>
#include <filesystem>
#include <fmt/core.h>
#include <fstream>
#include <set>

#include "core/streams.h"
#include "experiments/installed_types.h"

namespace longshot {

namespace {

constexpr const char* kSections[] = {"device",    "task",  "model",   "encoding",
                                     "positions", "train", "evaluate"};

[[noreturn]] void fail(const SourceLocation& where, const std::string& message) {
  throw UsageError(where.to_string() + ": " + message);
}

// The section's table, or null when absent.
const ConfigTable* section_table(const ConfigTable& table, const char* section) {
  const ConfigValue* value = table.find(section);
  if (value == nullptr) return nullptr;
  if (!value->is_table())
    fail(value->where(), fmt::format("[{}] must be a section or a table, got {}: {}", section,
                                     value->type_name(), value->to_toml()));
  return &value->as_table();
}

// Where unknown keys belong: only asked for when something is wrong, since it costs more than all
// the rest and a sweep reads hundreds of configs.
struct Hints {
  const Schema& schema;
  bool wanted;
  std::vector<std::pair<std::string, std::string>> operator()(std::string_view section,
                                                              std::string_view type = "") const {
    if (!wanted) return {};
    return schema.keys_elsewhere(section, type);
  }
};

template <class Options>
void read_section(const ConfigTable& table, const char* section, const Hints& hints,
                  Options& options) {
  if (const ConfigTable* found = section_table(table, section))
    read_options(*found, ReadContext{section, hints(section), {}}, options);
}

TypedSection read_typed(const ConfigTable& table, const SectionTypes& types, const Hints& hints) {
  static const ConfigTable kNothing;
  const ConfigTable* written = section_table(table, types.section.c_str());
  TypedSection result;
  result.type = types.default_type;
  result.where = place_of(table, types.section, "type");
  if (written == nullptr) written = &kNothing;
  if (const ConfigValue* type = written->find("type")) {
    if (!type->is_string())
      fail(type->where(), fmt::format("{}.type must be a string, got {}: {}", types.section,
                                      type->type_name(), type->to_toml()));
    result.type = type->as_string();
  }
  std::vector<std::string> names;
  std::string list;
  for (const SectionType& each : types.types) {
    names.push_back(each.name);
    list += (list.empty() ? "" : ", ") + each.name;
  }
  if (result.type.empty())
    fail(result.where, fmt::format("[{}] needs a type; known: {}", types.section, list));
  const SectionType* type = types.find(result.type);
  if (type == nullptr) {
    const std::string near = nearest_name(result.type, names);
    fail(result.where,
         fmt::format("unknown {} {}{}; known: {}", types.what, quote_toml(result.type),
                     near.empty() ? "" : fmt::format("; did you mean \"{}\"?", near), list));
  }
  const ReadContext context{types.section, hints(types.section, result.type), {"type"}};
  result.options = type->resolve(*written, context);
  // Values that were written keep their place, for messages about them later.
  for (const auto& [key, value] : written->entries())
    if (ConfigValue* resolved = result.options.find(key))
      *resolved = ConfigValue(resolved->variant(), value.where());
  return result;
}

void check_name(const std::string& name, const SourceLocation& where) {
  const bool safe = is_utf8(name) && !name.empty() && name.front() != '.' && name.front() != '-' &&
                    name.size() <= 100 &&
                    std::none_of(name.begin(), name.end(), [](unsigned char c) {
                      return c < 0x20 || c == 0x7f || c == '/' || c == '\\';
                    });
  if (!safe)
    fail(where, fmt::format(
                    "name must be usable as a folder's name (1 to 100 characters, no slash, UTF-8, "
                    "not beginning with . or -), got {}",
                    quote_toml(printable(name))));
}

void check_device(const std::string& type, const SourceLocation& where) {
  const auto digits = [](std::string_view text) {
    return !text.empty() && text.size() <= 4 &&
           text.find_first_not_of("0123456789") == std::string_view::npos;
  };
  if (type == "auto" || type == "cpu" || type == "cuda") return;
  if (type.starts_with("cuda:") && digits(std::string_view(type).substr(5))) return;
  fail(where,
       fmt::format("device.type must be auto, cpu, cuda or cuda:N, got {}", quote_toml(type)));
}

// The place of the first of the keys that was written.
SourceLocation first_written(const ConfigTable& table, const char* section,
                             std::initializer_list<const char*> keys) {
  if (const ConfigTable* found = section_table(table, section))
    for (const char* key : keys)
      if (const ConfigValue* value = found->find(key)) return value->where();
  return place_of(table, section, "");
}

void check_lengths(const ConfigTable& table, const LengthOptions& lengths) {
  SourceLocation where = place_of(table, "train", "lengths");
  const auto at = [&](const char* key) {
    const ConfigTable* train = section_table(table, "train");
    const ConfigValue* nested = train ? train->find("lengths") : nullptr;
    const ConfigValue* value =
        nested && nested->is_table() ? nested->as_table().find(key) : nullptr;
    return value ? value->where() : where;
  };
  if (lengths.draw != "fixed" && lengths.min > lengths.max)
    fail(at("max"), fmt::format("train.lengths needs min <= max, got min = {}, max = {}",
                                lengths.min, lengths.max));
  if (lengths.length > 0 && lengths.draw != "fixed")
    fail(at("length"), fmt::format("train.lengths.length is for draw = \"fixed\", and draw is {}",
                                   quote_toml(lengths.draw)));
  if (lengths.curriculum_steps > 0 && lengths.curriculum == "none")
    fail(
        at("curriculum_steps"),
        "train.lengths.curriculum_steps needs curriculum = \"linear\", and curriculum is \"none\"");
}

// What no single field can see.
void check_together(const ConfigTable& table, const RunConfig& config) {
  check_name(config.name, place_of(table, "", "name"));
  check_device(config.device.type, place_of(table, "device", "type"));
  const ModelOptions& model = config.model;
  if (model.dim % model.heads != 0)
    fail(
        first_written(table, "model", {"heads", "dim"}),
        fmt::format("model.dim = {} is not divisible by model.heads = {}", model.dim, model.heads));
  check_lengths(table, config.train.lengths);
  if (config.evaluate.stride > 0 && config.evaluate.window == "segments")
    fail(place_of(table, "evaluate", "stride"),
         "evaluate.stride needs window = \"sliding\" or \"both\", and window is \"segments\"");
  config.evaluate_lengths();
}

}  // namespace

// ---- Schema ------------------------------------------------------------------------------------

const SectionType* SectionTypes::find(std::string_view name) const {
  for (const SectionType& type : types)
    if (type.name == name) return &type;
  return nullptr;
}

Schema::Schema(SectionTypes task, SectionTypes encoding, SectionTypes positions)
    : task_(std::move(task)), encoding_(std::move(encoding)), positions_(std::move(positions)) {}

const Schema& Schema::installed() {
  static const Schema schema(installed_tasks(), installed_encodings(), installed_positions());
  return schema;
}

const SectionTypes* Schema::typed(std::string_view section) const {
  for (const SectionTypes* types : {&task_, &encoding_, &positions_})
    if (types->section == section) return types;
  return nullptr;
}

const std::vector<std::pair<std::string, std::vector<FieldInfo>>>& Schema::plain() {
  static const std::vector<std::pair<std::string, std::vector<FieldInfo>>> kPlain = {
      {"", describe_options<TopOptions>()},
      {"device", describe_options<DeviceOptions>()},
      {"model", describe_options<ModelOptions>()},
      {"train", describe_options<TrainOptions>()},
      {"evaluate", describe_options<EvaluateOptions>()}};
  return kPlain;
}

std::vector<std::pair<std::string, std::string>> Schema::keys_elsewhere(
    std::string_view section, std::string_view type) const {
  std::vector<std::pair<std::string, std::string>> result;
  // Types of the same section first: an option of another encoding is the likelier mistake.
  std::vector<const SectionTypes*> order = {&task_, &encoding_, &positions_};
  std::stable_sort(order.begin(), order.end(), [&](const auto* a, const auto* b) {
    return (a->section == section) > (b->section == section);
  });
  for (const SectionTypes* types : order) {
    std::vector<std::pair<std::string, std::string>>
        owners;  // key, names of the types that have it
    for (const SectionType& each : types->types) {
      if (types->section == section && each.name == type) continue;
      for (const FieldInfo& field : each.describe()) {
        const auto same_key = [&](const auto& owner) { return owner.first == field.key; };
        const auto owner = std::find_if(owners.begin(), owners.end(), same_key);
        if (owner == owners.end())
          owners.emplace_back(field.key, each.name);
        else
          owner->second += ", " + each.name;
      }
    }
    for (const auto& [key, names] : owners)
      result.emplace_back(key, fmt::format("is an option of {} {}", types->what, names));
  }
  for (const auto& [other, fields] : plain()) {
    if (other == section) continue;
    for (const FieldInfo& field : fields)
      result.emplace_back(field.key, other.empty() ? "stands at the top level, before any section"
                                                   : fmt::format("is a key of [{}]", other));
  }
  return result;
}

// ---- reading -----------------------------------------------------------------------------------

SourceLocation place_of(const ConfigTable& table, std::string_view section, std::string_view key) {
  const ConfigValue* found = section.empty() ? table.find(key) : table.find(section);
  if (found == nullptr) return {"defaults", 0, 0};
  if (!section.empty() && found->is_table())
    if (const ConfigValue* value = found->as_table().find(key)) return value->where();
  return found->where();
}

namespace {

RunConfig resolve_with(const ConfigTable& table, const Schema& schema, const Hints& hints) {
  TopOptions top;
  ReadContext context{"", hints(""), {"sweep", "extends"}};
  context.ignore.insert(context.ignore.end(), std::begin(kSections), std::end(kSections));
  read_options(table, context, top);

  RunConfig config;
  config.written = table;
  config.name = top.name.empty() ? "run" : top.name;
  config.seed = top.seed;
  read_section(table, "device", hints, config.device);
  config.task = read_typed(table, schema.task(), hints);
  read_section(table, "model", hints, config.model);
  config.encoding = read_typed(table, schema.encoding(), hints);
  config.positions = read_typed(table, schema.positions(), hints);
  read_section(table, "train", hints, config.train);
  read_section(table, "evaluate", hints, config.evaluate);
  check_together(table, config);
  return config;
}

}  // namespace

RunConfig resolve(const ConfigTable& table, const Schema& schema) {
  try {
    return resolve_with(table, schema, {schema, false});
  } catch (const UsageError&) {
    return resolve_with(table, schema, {schema, true});  // fails in the same place, and says more
  }
}

void check_files(const RunConfig& config, const Schema& schema) {
  const auto check = [](const SourceLocation& where, const std::string& key,
                        const std::string& path) {
    if (path.empty()) return;
    std::error_code ignored;
    const auto status = std::filesystem::status(path, ignored);
    // Opening a FIFO would wait for its writer.
    if (std::filesystem::exists(status) && std::filesystem::is_other(status))
      fail(where, fmt::format("{}: {} is not a regular file", key, path));
    std::ifstream file(path, std::ios::binary);
    if (!file) fail(where, fmt::format("{} names a file that cannot be read: {}", key, path));
  };
  for (const SectionTypes* types : {&schema.task(), &schema.encoding(), &schema.positions()}) {
    const TypedSection& section = types == &schema.task()       ? config.task
                                  : types == &schema.encoding() ? config.encoding
                                                                : config.positions;
    const SectionType* type = types->find(section.type);
    if (type == nullptr) continue;
    for (const FieldInfo& field : type->describe()) {
      const ConfigValue* value = section.options.find(field.key);
      if (field.type == "file" && value != nullptr)
        check(value->where().file.empty() ? section.where : value->where(),
              types->section + "." + field.key, value->as_string());
    }
  }
  check(place_of(config.written, "train", "init_from"), "train.init_from", config.train.init_from);
}

// ---- writing -----------------------------------------------------------------------------------

namespace {

template <class Options>
void put_section(ConfigTable& table, const char* section, const Options& options) {
  ConfigTable written;
  write_options(written, options);
  table.set(section, ConfigValue::table(std::move(written)));
}

void put_typed(ConfigTable& table, const char* section, const TypedSection& typed) {
  table.set(section, ConfigValue::table(typed.with_type(), typed.where));
}

}  // namespace

ConfigTable TypedSection::with_type() const {
  ConfigTable table(where);
  table.set("type", ConfigValue(type, where));
  for (const auto& [key, value] : options.entries()) table.set(key, value);
  return table;
}

ConfigTable to_table(const RunConfig& config) {
  ConfigTable table;
  write_options(table, TopOptions{config.name, config.seed});
  put_section(table, "device", config.device);
  put_typed(table, "task", config.task);
  put_section(table, "model", config.model);
  put_typed(table, "encoding", config.encoding);
  put_typed(table, "positions", config.positions);
  put_section(table, "train", config.train);
  put_section(table, "evaluate", config.evaluate);
  return table;
}

std::string to_toml(const RunConfig& config) {
  return to_table(config).to_toml();
}

}  // namespace longshot
