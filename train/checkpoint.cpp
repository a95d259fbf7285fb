#include "train/checkpoint.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "core/config_toml.h"
#include "core/files.h"
#include "train/safetensors.h"
#include "train/sha256.h"

namespace longshot {
namespace {

using Json = nlohmann::ordered_json;

const char* safetensors_type(DType type) {
  return type == DType::f64 ? "F64" : "F32";
}

std::vector<int64_t> extents(const Shape& shape) {
  std::vector<int64_t> result;
  for (int i = 0; i < shape.rank(); ++i) result.push_back(shape[i]);
  return result;
}

std::vector<std::byte> bytes_of(const Tensor& tensor) {
  std::vector<std::byte> bytes(static_cast<size_t>(tensor.elements() * size_of(tensor.dtype())));
  if (!bytes.empty())
    tensor.context().backend().copy_to_host(bytes.data(), tensor.data(), bytes.size());
  return bytes;
}

std::map<std::string, std::string> model_metadata(const Encoder& encoder) {
  ConfigTable model;
  write_options(model, encoder.options());
  const EncoderInterface& interface = encoder.interface();
  return {{"format", "longshot checkpoint 1"},
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

void copy_into(const SafetensorsFile& file, const std::string& name, const Tensor& target,
               const Shape& shape) {
  const SafetensorsEntry* entry = file.find(name);
  if (entry == nullptr)
    throw UsageError(fmt::format("{}: tensor \"{}\" is missing", file.path(), name));
  if (entry->shape != extents(shape)) {
    std::string got;
    for (int64_t extent : entry->shape) got += (got.empty() ? "" : ", ") + std::to_string(extent);
    throw UsageError(fmt::format("{}: tensor \"{}\" has shape ({}), this model needs {}",
                                 file.path(), name, got, shape.to_string()));
  }
  if (entry->dtype != safetensors_type(target.dtype())) {
    throw UsageError(fmt::format("{}: tensor \"{}\" holds {}, this model needs {}", file.path(),
                                 name, entry->dtype, safetensors_type(target.dtype())));
  }
  const auto bytes = file.bytes(*entry);
  if (!bytes.empty())
    target.context().backend().copy_to_device(target.data(), bytes.data(), bytes.size());
}

}  // namespace

void save_parameters(const std::string& path, const Encoder& encoder) {
  std::vector<std::vector<std::byte>> storage;
  std::vector<SafetensorsTensor> tensors;
  for (const Parameter::Entry& entry : encoder.parameters().entries()) {
    storage.push_back(bytes_of(entry.tensor));
    tensors.push_back(
        {entry.name, safetensors_type(entry.tensor.dtype()), extents(entry.shape), storage.back()});
  }
  write_safetensors(path, std::move(tensors), model_metadata(encoder));
}

void load_parameters(const std::string& path, Encoder& encoder) {
  const SafetensorsFile file = SafetensorsFile::open(path);
  check_model(file, encoder);
  check_encoding(file, encoder);
  // Everything is checked before the first byte is copied, so a refused file changes nothing.
  for (const SafetensorsEntry& entry : file.entries()) {
    if (encoder.parameters().find(entry.name) == nullptr)
      throw UsageError(
          fmt::format("{}: tensor \"{}\" does not belong to this model", path, entry.name));
  }
  for (int pass = 0; pass < 2; ++pass) {
    for (const Parameter::Entry& entry : encoder.parameters().entries()) {
      const SafetensorsEntry* found = file.find(entry.name);
      if (pass == 0 && found != nullptr && found->shape == extents(entry.shape) &&
          found->dtype == safetensors_type(entry.tensor.dtype())) {
        continue;
      }
      copy_into(file, entry.name, entry.tensor, entry.shape);
    }
  }
}

CheckpointModel read_checkpoint_model(const std::string& path) {
  const SafetensorsFile file = SafetensorsFile::open(path);
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

void save_training_state(const std::string& path, const Encoder& encoder,
                         const Optimizer& optimizer, const TrainingProgress& progress,
                         const std::string& identity) {
  const ParameterStore& store = encoder.parameters();
  std::vector<std::vector<std::byte>> storage;
  std::vector<SafetensorsTensor> tensors;
  const auto add = [&](const char* name, const Tensor& tensor) {
    storage.push_back(bytes_of(tensor));
    tensors.push_back(
        {name, safetensors_type(tensor.dtype()), {tensor.elements()}, storage.back()});
  };
  storage.reserve(4);
  add("parameters", store.parameters());
  add("first_moments", store.first_moments());
  add("second_moments", store.second_moments());
  if (optimizer.best().defined()) add("best_parameters", optimizer.best());

  const UpdateState update = optimizer.state();
  const Json state = {{"step", progress.step},
                      {"best_loss", progress.best_loss},
                      {"best_step", progress.best_step},
                      {"evaluations_since_best", progress.evaluations_since_best},
                      {"metrics_bytes", progress.metrics_bytes},
                      {"timing_bytes", progress.timing_bytes},
                      {"pending_losses", progress.pending_losses},
                      {"pending_tokens", progress.pending_tokens},
                      {"tokens", progress.tokens},
                      {"last_loss", progress.last_loss},
                      {"seconds", progress.seconds},
                      {"evaluation_due", progress.evaluation_due},
                      {"stopped_early", progress.stopped_early},
                      {"finished", progress.finished},
                      {"diverged", progress.diverged},
                      {"adam_step", update.adam_step},
                      {"skipped_steps", update.skipped_steps}};
  write_safetensors(
      path, std::move(tensors),
      {{"format", "longshot training state 1"}, {"identity", identity}, {"state", state.dump()}});
}

TrainingProgress load_training_state(const std::string& path, Encoder& encoder,
                                     Optimizer& optimizer, const std::string& identity) {
  const SafetensorsFile file = SafetensorsFile::open(path);
  const auto& metadata = file.metadata();
  const auto found = metadata.find("identity");
  if (found == metadata.end() || metadata.count("state") == 0)
    throw UsageError(fmt::format("{}: not a training state", path));
  if (found->second != identity) {
    throw UsageError(fmt::format("{}: belongs to another run (identity {}, this run is {})", path,
                                 found->second, identity));
  }
  TrainingProgress progress;
  UpdateState update;
  try {
    const Json state = Json::parse(metadata.at("state"));
    progress.step = state.at("step");
    progress.best_loss = state.at("best_loss").is_null() ? 0.0 : double(state.at("best_loss"));
    progress.best_step = state.at("best_step");
    progress.evaluations_since_best = state.at("evaluations_since_best");
    progress.metrics_bytes = state.at("metrics_bytes");
    progress.timing_bytes = state.at("timing_bytes");
    progress.pending_losses = state.at("pending_losses").get<std::vector<double>>();
    progress.pending_tokens = state.at("pending_tokens");
    progress.tokens = state.at("tokens");
    if (!state.at("last_loss").is_null()) progress.last_loss = state.at("last_loss");
    progress.seconds = state.at("seconds");
    progress.evaluation_due = state.at("evaluation_due");
    progress.stopped_early = state.at("stopped_early");
    progress.finished = state.at("finished");
    progress.diverged = state.at("diverged");
    update.adam_step = state.at("adam_step");
    update.skipped_steps = state.at("skipped_steps");
  } catch (const Json::exception& error) {
    throw UsageError(fmt::format("{}: its training state cannot be read ({})", path, error.what()));
  }
  if (progress.step < 0 || progress.metrics_bytes < 0 || progress.timing_bytes < 0)
    throw UsageError(fmt::format("{}: its training state makes no sense (step {}, {} and {} bytes)",
                                 path, progress.step, progress.metrics_bytes,
                                 progress.timing_bytes));
  const ParameterStore& store = encoder.parameters();
  const Shape flat{store.elements()};
  copy_into(file, "parameters", store.parameters(), flat);
  copy_into(file, "first_moments", store.first_moments(), flat);
  copy_into(file, "second_moments", store.second_moments(), flat);
  if (file.find("best_parameters") != nullptr) {
    optimizer.save_best();
    copy_into(file, "best_parameters", optimizer.best(), flat);
  }
  optimizer.set_state(update);
  return progress;
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
