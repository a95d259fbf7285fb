#include "train/checkpoint.h"

#include <algorithm>
#include <set>

#include "core/config_toml.h"
#include "core/log.h"
#include "train/sha256.h"
#include "train/stored_tensors.h"

namespace longshot {
namespace {

constexpr const char* kFormat = "longshot checkpoint";
constexpr int64_t kNewest = 1;

SafetensorsFile open_checkpoint(const std::string& path) {
  SafetensorsFile file = SafetensorsFile::open(path);
  format_of(file, kFormat, kNewest);
  check_contents(file, "take the file from where it was copied, or run again with --retry-failed");
  return file;
}

std::map<std::string, std::string> model_metadata(const Encoder& encoder) {
  ConfigTable model;
  write_options(model, encoder.options());
  const EncoderInterface& interface = encoder.interface();
  return {{"format", fmt::format("{} {}", kFormat, kNewest)},
          {"longshot_version", LONGSHOT_VERSION},
          {"model", model.to_toml()},
          {"encoding", encoder.encoding_config().to_toml()},
          {"positions", encoder.positions_config().to_toml()},
          {"input_vocabulary", std::to_string(interface.input_vocabulary)},
          {"output_classes", std::to_string(interface.output_classes)},
          {"mean_pool", interface.mean_pool ? "true" : "false"},
          {"train_length", std::to_string(interface.train_length)}};
}

// Options of the model that change what given parameters compute and not their shapes. (Dropout,
// causal and log_n_scaling may differ: they are what one goes on training, or tests, under.)
void check_model(const SafetensorsFile& file, const Encoder& encoder) {
  const auto found = file.metadata().find("model");
  if (found == file.metadata().end()) return;  // not ours: names and shapes decide
  const ConfigTable saved = parse_toml(found->second, file.path() + " (metadata)");
  ConfigTable wanted;
  write_options(wanted, encoder.options());
  for (const char* key :
       {"heads", "norm", "norm_type", "epsilon", "activation", "embedding_scale"}) {
    const ConfigValue *before = saved.find(key), *now = wanted.find(key);
    if (before == nullptr || now == nullptr || *before == *now) continue;
    throw UsageError(
        fmt::format("{}: its parameters were trained with model.{} = {}, this model has {}",
                    file.path(), key, before->to_toml(), now->to_toml()));
  }
}

// A table read back from metadata must mean what the model at hand means, free options aside.
void check_encoding(const SafetensorsFile& file, Encoder& encoder) {
  const auto found = file.metadata().find("encoding");
  if (found == file.metadata().end()) return;  // not ours: names and shapes decide
  const ConfigTable saved = parse_toml(found->second, file.path() + " (metadata)");
  const ConfigTable& wanted = encoder.encoding_config();
  const std::vector<std::string> free = encoder.encoding().traits().free_options;
  for (const auto& [key, value] : wanted.entries()) {
    if (std::find(free.begin(), free.end(), key) != free.end()) continue;
    const ConfigValue* before = saved.find(key);
    if (before == nullptr || *before == value) continue;
    throw UsageError(fmt::format(
        "{}: its parameters were trained with encoding option {} = {}, this model has {} = {}",
        file.path(), key, before->to_toml(), key, value.to_toml()));
  }
}

// Once a file: which types are converted, and how.
void say_conversions(const SafetensorsFile& file, DType type) {
  std::set<std::string> types;
  for (const SafetensorsEntry& entry : file.entries())
    if (entry.dtype != safetensors_type(type)) types.insert(entry.dtype);
  for (const std::string& each : types)
    log::info("{}: its {} numbers are converted to {}{}", file.path(), each, safetensors_type(type),
              each == "F64" ? ", each rounded to the nearest" : ", which changes none of them");
}

}  // namespace

bool checkpoint_is_whole(const std::string& path) {
  try {
    open_checkpoint(path);
    return true;
  } catch (const UsageError&) {
    return false;
  }
}

void save_parameters(const std::string& path, const Encoder& encoder) {
  std::vector<std::vector<std::byte>> storage;
  std::vector<SafetensorsTensor> tensors;
  for (const Parameter::Entry& entry : encoder.parameters().entries()) {
    storage.push_back(bytes_of(entry.tensor));
    tensors.push_back(
        {entry.name, safetensors_type(entry.tensor.dtype()), extents(entry.shape), storage.back()});
  }
  write_proven(path, std::move(tensors), model_metadata(encoder));
}

void load_parameters(const std::string& path, Encoder& encoder) {
  const SafetensorsFile file = open_checkpoint(path);
  check_model(file, encoder);
  check_encoding(file, encoder);
  // Everything is checked before the first byte is copied, so a refused file changes nothing.
  for (const SafetensorsEntry& entry : file.entries()) {
    if (encoder.parameters().find(entry.name) == nullptr)
      throw UsageError(
          fmt::format("{}: tensor \"{}\" does not belong to this model", path, entry.name));
  }
  std::vector<std::vector<std::byte>> values;
  for (const Parameter::Entry& entry : encoder.parameters().entries())
    values.push_back(
        bytes_as(file, wanted_entry(file, entry.name, entry.shape), entry.tensor.dtype()));
  say_conversions(file, encoder.context().dtype());
  auto value = values.begin();
  for (const Parameter::Entry& entry : encoder.parameters().entries()) {
    if (!value->empty())
      entry.tensor.context().backend().copy_to_device(entry.tensor.data(), value->data(),
                                                      value->size());
    ++value;
  }
}

CheckpointModel read_checkpoint_model(const std::string& path) {
  const SafetensorsFile file = open_checkpoint(path);
  const auto text = [&](const char* key) -> const std::string& {
    const auto found = file.metadata().find(key);
    if (found == file.metadata().end())
      throw UsageError(fmt::format(
          "{}: the metadata say nothing of \"{}\"; not a checkpoint of ours", path, key));
    return found->second;
  };
  const auto number = [&](const char* key) {
    try {
      return int64_t(std::stoll(text(key)));
    } catch (const std::logic_error&) {
      throw UsageError(fmt::format("{}: metadata \"{}\" is not a number", path, key));
    }
  };
  const std::string place = path + " (metadata)";
  CheckpointModel result;
  result.model = parse_toml(text("model"), place);
  result.encoding = parse_toml(text("encoding"), place);
  result.positions = parse_toml(text("positions"), place);
  result.interface.input_vocabulary = number("input_vocabulary");
  result.interface.output_classes = number("output_classes");
  result.interface.mean_pool = text("mean_pool") == "true";
  result.interface.train_length = number("train_length");
  return result;
}

std::string parameters_sha256(const Encoder& encoder) {
  std::vector<const Parameter::Entry*> sorted;
  for (const Parameter::Entry& entry : encoder.parameters().entries()) sorted.push_back(&entry);
  std::sort(sorted.begin(), sorted.end(), [](auto* a, auto* b) { return a->name < b->name; });
  Sha256 hash;
  for (const Parameter::Entry* entry : sorted) hash.add(bytes_of(entry->tensor));
  return hash.hex();
}

}  // namespace longshot
