// What a cell is, apart from how it is named: the hash of everything that changes its trained bits;
// and what it is called: the values of the keys that differ in its sweep, then 8 digits of the
// hash.
#include "experiments/cell_identity.h"

#include <algorithm>
#include <cerrno>
#include <fmt/core.h>
#include <fstream>
#include <map>
#include <mutex>
#include <set>

#include "core/files.h"
#include "core/random.h"
#include "experiments/identity_keys.h"

namespace longshot {

namespace fs = std::filesystem;

namespace {

constexpr size_t kLongestName = 60;

// FNV-1a leaves its upper bits poorly mixed for short texts; this is MurmurHash3's finaliser.
uint64_t mix(uint64_t hash) {
  hash ^= hash >> 33;
  hash *= 0xff51afd7ed558ccdull;
  hash ^= hash >> 33;
  hash *= 0xc4ceb9fe1a85ec53ull;
  return hash ^ (hash >> 33);
}

std::string hex(uint64_t hash) {
  return fmt::format("{:016x}", hash);
}

std::string hash_text(const std::string& text) {
  return hex(mix(hash_name(text.data(), text.size())));
}

// The content's hash, or the path where there is nothing to read. Remembered while size and time
// stay.
std::string content_of(const std::string& path) {
  static std::mutex mutex;
  static std::map<std::string, std::string> known;
  std::error_code error;
  const auto size = fs::file_size(path, error);
  if (error || !fs::is_regular_file(path, error)) return path;
  const auto time = fs::last_write_time(path, error).time_since_epoch().count();
  const std::string key = fmt::format("{}:{}:{}", path, size, time);
  const std::lock_guard lock(mutex);
  if (const auto found = known.find(key); found != known.end()) return found->second;
  std::ifstream file(path, std::ios::binary);
  if (!file) throw FileError("cannot read", path, errno);
  std::vector<char> block(1 << 20);
  std::string digests;
  while (file) {
    file.read(block.data(), std::streamsize(block.size()));
    digests += hex(hash_name(block.data(), uint64_t(file.gcount())));
  }
  if (file.bad()) throw FileError("cannot read", path, EIO);
  return known[key] = "content " + hash_text(digests);
}

// Every "file" field of the typed sections and of [train], replaced through `replace`.
template <class Replace>
void replace_files(ConfigTable& table, const Schema& schema, Replace replace) {
  const auto in_section = [&](const std::string& section, const std::vector<FieldInfo>& fields) {
    ConfigTable& entries = table.find(section)->as_table();
    for (const FieldInfo& field : fields) {
      ConfigValue* value = entries.find(field.key);
      if (field.type == "file" && value != nullptr && !value->as_string().empty())
        *value = ConfigValue(replace(value->as_string()), value->where());
    }
  };
  for (const SectionTypes* types : {&schema.task(), &schema.encoding(), &schema.positions()}) {
    const std::string& name = table.find(types->section)->as_table().find("type")->as_string();
    if (const SectionType* type = types->find(name)) in_section(types->section, type->describe());
  }
  in_section("train", describe_options<TrainOptions>());
}

// ---- names -------------------------------------------------------------------------------------

using Flat = std::map<std::string, std::string>;  // dotted key to TOML text

void flatten(const ConfigTable& table, const std::string& prefix, Flat& flat) {
  for (const auto& [name, value] : table.entries()) {
    const std::string key = prefix.empty() ? name : prefix + "." + name;
    if (value.is_table())
      flatten(value.as_table(), key, flat);
    else
      flat[key] = value.is_string() ? value.as_string() : value.to_toml();
  }
}

std::string section_of(const std::string& key) {
  return key.substr(0, key.find('.'));
}

const std::string& type_in(const Flat& flat, const std::string& section) {
  static const std::string kNone;
  const auto found = flat.find(section + ".type");
  return found == flat.end() ? kNone : found->second;
}

// A key differs when two cells that could both have it (of the same type, in a typed section) do
// not have the same value.
std::vector<std::string> differing_keys(const std::vector<Flat>& cells) {
  std::map<std::pair<std::string, std::string>, std::set<std::string>> values;
  for (const Flat& flat : cells)
    for (const auto& [key, value] : flat) {
      const std::string section = section_of(key);
      const bool is_type = key == section + ".type";
      values[{key, is_type ? "" : type_in(flat, section)}].insert(value);
    }
  std::vector<std::string> keys;
  for (const auto& [key_and_type, seen] : values)
    if (seen.size() > 1 && (keys.empty() || keys.back() != key_and_type.first))
      keys.push_back(key_and_type.first);
  const auto rank = [](const std::string& key) {
    static constexpr const char* kOrder[] = {"task",  "encoding", "positions",
                                             "model", "train",    "device"};
    const auto* found = std::find(std::begin(kOrder), std::end(kOrder), section_of(key));
    return std::pair(found - std::begin(kOrder), key.ends_with(".type") ? 0 : 1);  // seed last
  };
  std::stable_sort(keys.begin(), keys.end(),
                   [&](const std::string& a, const std::string& b) { return rank(a) < rank(b); });
  return keys;
}

std::string safe(const std::string& text) {
  std::string result;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '.' || c == '+';
    if (plain)
      result += c;
    else if (!result.empty() && result.back() != '_')
      result += '_';
  }
  while (!result.empty() && (result.back() == '_' || result.back() == '.')) result.pop_back();
  while (!result.empty() && result.front() == '.') result.erase(0, 1);
  return result;
}

// "rope" for a type, "dim64" for a number, "norm_pre" for a word.
std::string part_of(const std::string& key, const std::string& value, bool ambiguous) {
  if (key.ends_with(".type")) return safe(value);
  const std::string last = key.substr(key.rfind('.') + 1);
  const std::string name = ambiguous ? safe(key) : last;
  const bool negative = value.size() > 1 && value[0] == '-';
  const bool number = !value.empty() && (negative || (value[0] >= '0' && value[0] <= '9'));
  return safe(name) + (number ? (negative ? "-" : "") : "_") + safe(value);
}

}  // namespace

ConfigTable trained_part(const RunConfig& config, const std::string& auto_device) {
  ConfigTable table = to_table(config);
  table.erase("name");
  ConfigTable& device = table.find("device")->as_table();
  std::string type = config.device.type == "auto" ? auto_device : config.device.type;
  if (type.starts_with("cuda")) type = "cuda";  // which of several does not matter
  device.set("type", ConfigValue(type, {}));
  device.erase("capture");
  ConfigTable& train = table.find("train")->as_table();
  for (const char* key : {"checkpoint_every", "log_every"}) train.erase(key);
  // Evaluations during training change the result only when they decide on it.
  if (config.train.patience == 0 && config.train.keep == "last") {
    for (const char* key : {"evaluate_every", "patience", "min_delta", "keep"}) train.erase(key);
    table.erase("evaluate");
  } else {
    ConfigTable deciding;
    deciding.set("in_range_samples", ConfigValue(config.evaluate.in_range_samples, {}));
    table.set("evaluate", ConfigValue::table(std::move(deciding)));
  }
  return table;
}

int64_t bits_version_of(const RunConfig& config) {
  const bool best = config.train.keep == "best";
  const bool decides = best || config.train.patience > 0;
  const std::string& task = config.task.type;
  const bool own_data = task == "jsonl" || task == "text" || task == "synthetic_text";
  const bool changed = (best && config.train.min_delta > 0) || (decides && own_data);
  return changed ? 2 : 1;
}

std::string identity_of(const RunConfig& config, const std::string& auto_device,
                        const Schema& schema, std::optional<int64_t> bits_version) {
  ConfigTable table = lasting_part(trained_part(config, auto_device), schema);
  replace_files(table, schema, content_of);
  std::string text = table.to_toml();
  const int64_t version = bits_version.value_or(bits_version_of(config));
  if (version > 1) text += fmt::format("\nbits_version = {}\n", version);
  return hash_text(text);
}

std::vector<std::string> missing_files(const RunConfig& config, const Schema& schema) {
  std::vector<std::string> missing;
  ConfigTable table = to_table(config);
  replace_files(table, schema, [&](const std::string& path) {
    std::error_code error;
    if (!fs::is_regular_file(path, error)) missing.push_back(path);
    return path;
  });
  return missing;
}

void name_folders(std::vector<Cell>& cells, const std::string& auto_device, const Schema& schema) {
  std::vector<Flat> flats;
  for (const Cell& cell : cells) {
    ConfigTable table = trained_part(cell.config, auto_device);
    replace_files(table, schema,
                  [](const std::string& path) { return fs::path(path).stem().string(); });
    Flat flat;
    flatten(table, "", flat);
    flats.push_back(std::move(flat));
  }
  std::vector<std::string> keys = differing_keys(flats);
  if (keys.empty()) keys = {"task.type", "encoding.type"};
  std::map<std::string, int> uses;
  for (const std::string& key : keys) ++uses[key.substr(key.rfind('.') + 1)];

  for (size_t i = 0; i < cells.size(); ++i) {
    std::string name;
    for (const std::string& key : keys) {
      const auto value = flats[i].find(key);
      if (value == flats[i].end()) continue;
      const std::string part =
          part_of(key, value->second, uses[key.substr(key.rfind('.') + 1)] > 1);
      if (!part.empty()) name += (name.empty() ? "" : "-") + part;
    }
    name = name.substr(0, kLongestName);
    while (!name.empty() && !isalnum(static_cast<unsigned char>(name.back()))) name.pop_back();
    cells[i].folder = (name.empty() ? "run" : name) + "-" + cells[i].identity.substr(0, 8);
  }
}

std::optional<fs::path> find_cell_folder(const fs::path& study_folder, const Cell& cell) {
  std::error_code error;
  if (fs::is_directory(study_folder / cell.folder, error)) return study_folder / cell.folder;
  const std::string ending = "-" + cell.identity.substr(0, 8);
  // The first by name, whatever order the file system lists.
  for (const std::string& path : list_folder(study_folder.string()))
    if (path.ends_with(ending) && fs::is_directory(path, error)) return path;
  return std::nullopt;
}

}  // namespace longshot
