// training_state.safetensors: parameters, both moments and the best parameters, each by the
// parameter's name and shape, with what training remembers beside them as JSON in the metadata.
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "core/log.h"
#include "train/checkpoint.h"
#include "train/stored_tensors.h"

namespace longshot {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFormat = "longshot training state";
constexpr int64_t kNewest = 2;
constexpr const char* kWayOut = "run again with --retry-failed to train it from the beginning";

// A flat buffer of the store, and the folder of its tensors' names in the file.
struct Buffer {
  std::string folder;     // "parameters/"
  const char* flat_name;  // format 1: the whole buffer as one array
  const Tensor* tensor;
};

std::vector<Buffer> buffers_of(const ParameterStore& store, const Tensor& best) {
  std::vector<Buffer> buffers = {{"parameters/", "parameters", &store.parameters()},
                                 {"first_moments/", "first_moments", &store.first_moments()},
                                 {"second_moments/", "second_moments", &store.second_moments()}};
  if (best.defined()) buffers.push_back({"best/", "best_parameters", &best});
  return buffers;
}

// Losses are finite but where a run diverged; JSON has null for what is not.
double number(const Json& json) {
  return json.is_null() ? std::nan("") : double(json);
}

Json to_json(const TrainingProgress& progress, const UpdateState& update) {
  return {{"step", progress.step},
          {"best_loss", progress.best_loss},
          {"best_step", progress.best_step},
          {"patience_loss", progress.patience_loss},
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
          {"updates", progress.updates},
          {"updated_step", progress.updated_step},
          {"adam_step", update.adam_step},
          {"skipped_steps", update.skipped_steps}};
}

TrainingProgress progress_from(const Json& state, int64_t format, UpdateState& update) {
  TrainingProgress progress;
  progress.step = state.at("step");
  progress.best_loss = number(state.at("best_loss"));
  progress.best_step = state.at("best_step");
  progress.evaluations_since_best = state.at("evaluations_since_best");
  progress.metrics_bytes = state.at("metrics_bytes");
  progress.timing_bytes = state.at("timing_bytes");
  for (const Json& loss : state.at("pending_losses"))
    progress.pending_losses.push_back(number(loss));
  progress.pending_tokens = state.at("pending_tokens");
  progress.tokens = state.at("tokens");
  progress.last_loss = number(state.at("last_loss"));
  progress.seconds = state.at("seconds");
  progress.evaluation_due = state.at("evaluation_due");
  progress.stopped_early = state.at("stopped_early");
  progress.finished = state.at("finished");
  progress.diverged = state.at("diverged");
  update.adam_step = state.at("adam_step");
  update.skipped_steps = state.at("skipped_steps");
  // Format 1 had one loss for both, and did not look for updates that are skipped for ever.
  progress.patience_loss = format == 1 ? progress.best_loss : number(state.at("patience_loss"));
  progress.updates = format == 1 ? int64_t(update.adam_step) : int64_t(state.at("updates"));
  progress.updated_step = format == 1 ? progress.step : int64_t(state.at("updated_step"));
  return progress;
}

// What the buffer is to hold, alignment gaps as they are now.
std::vector<std::byte> values_of(const SafetensorsFile& file, const Buffer& buffer,
                                 const ParameterStore& store, int64_t format) {
  const DType type = buffer.tensor->dtype();
  const auto check_type = [&](const SafetensorsEntry& entry) {
    if (entry.dtype != safetensors_type(type))
      throw UsageError(fmt::format("{}: tensor \"{}\" holds {}, this run computes in {}",
                                   file.path(), entry.name, entry.dtype, safetensors_type(type)));
  };
  std::vector<std::byte> values = bytes_of(*buffer.tensor);
  const auto put = [&](const SafetensorsEntry& entry, int64_t offset) {
    check_type(entry);
    const auto bytes = file.bytes(entry);
    if (!bytes.empty())
      std::memcpy(values.data() + offset * size_of(type), bytes.data(), bytes.size());
  };
  if (format == 1) {
    put(wanted_entry(file, buffer.flat_name, Shape{store.elements()}), 0);
    return values;
  }
  for (const Parameter::Entry& entry : store.entries())
    put(wanted_entry(file, buffer.folder + entry.name, entry.shape), entry.offset);
  return values;
}

bool holds_best(const SafetensorsFile& file, int64_t format) {
  if (format == 1) return file.find("best_parameters") != nullptr;
  for (const SafetensorsEntry& entry : file.entries())
    if (entry.name.starts_with("best/")) return true;
  return false;
}

void check_none_left_over(const SafetensorsFile& file, const std::vector<Buffer>& buffers,
                          const ParameterStore& store) {
  for (const SafetensorsEntry& entry : file.entries()) {
    bool known = false;
    for (const Buffer& buffer : buffers)
      known = known || (entry.name.starts_with(buffer.folder) &&
                        store.find(entry.name.substr(buffer.folder.size())) != nullptr);
    if (!known)
      throw UsageError(fmt::format("{}: tensor \"{}\" does not belong to this run's model",
                                   file.path(), entry.name));
  }
}

}  // namespace

void save_training_state(const std::string& path, const ParameterStore& store,
                         const Optimizer& optimizer, const TrainingProgress& progress,
                         const std::string& identity) {
  const std::vector<Buffer> buffers = buffers_of(store, optimizer.best());
  std::vector<std::vector<std::byte>> storage;
  storage.reserve(buffers.size());
  std::vector<SafetensorsTensor> tensors;
  for (const Buffer& buffer : buffers) {
    storage.push_back(bytes_of(*buffer.tensor));
    const DType type = buffer.tensor->dtype();
    const std::span<const std::byte> bytes = storage.back();
    for (const Parameter::Entry& entry : store.entries())
      tensors.push_back({buffer.folder + entry.name, safetensors_type(type), extents(entry.shape),
                         bytes.subspan(size_t(entry.offset * size_of(type)),
                                       size_t(entry.shape.elements() * size_of(type)))});
  }
  write_proven(path, std::move(tensors),
               {{"format", fmt::format("{} {}", kFormat, kNewest)},
                {"longshot_version", LONGSHOT_VERSION},
                {"identity", identity},
                {"state", to_json(progress, optimizer.state()).dump()}});
}

TrainingProgress load_training_state(const std::string& path, ParameterStore& store,
                                     Optimizer& optimizer, const std::string& identity) {
  const SafetensorsFile file = SafetensorsFile::open(path);
  const int64_t format = format_of(file, kFormat, kNewest);
  const auto& metadata = file.metadata();
  const auto found = metadata.find("identity");
  if (format == 0 || found == metadata.end() || metadata.count("state") == 0)
    throw UsageError(fmt::format("{}: not a training state", path));
  if (format >= 2 && metadata.count("sha256") == 0)
    throw UsageError(fmt::format("{}: the SHA-256 of its contents is gone; {}", path, kWayOut));
  check_contents(file, kWayOut);
  if (found->second != identity) {
    throw UsageError(fmt::format("{}: belongs to another run (identity {}, this run is {})", path,
                                 found->second, identity));
  }
  TrainingProgress progress;
  UpdateState update;
  try {
    progress = progress_from(Json::parse(metadata.at("state")), format, update);
  } catch (const Json::exception& error) {
    throw UsageError(fmt::format("{}: its training state cannot be read ({})", path, error.what()));
  }
  if (progress.step < 0 || progress.metrics_bytes < 0 || progress.timing_bytes < 0)
    throw UsageError(fmt::format("{}: its training state makes no sense (step {}, {} and {} bytes)",
                                 path, progress.step, progress.metrics_bytes,
                                 progress.timing_bytes));
  // Format 1 held flat arrays without names, in the order of declarations. That order has not
  // changed since; a version that changes it can no longer read format 1.
  if (format == 1)
    log::info("{}: format 1, without names: read in the order of declarations, which is the same",
              path);

  if (holds_best(file, format)) optimizer.save_best();
  const std::vector<Buffer> buffers = buffers_of(store, optimizer.best());
  if (format >= 2) check_none_left_over(file, buffers, store);
  // All of it is read and checked before the first byte is copied.
  std::vector<std::vector<std::byte>> values;
  for (const Buffer& buffer : buffers) values.push_back(values_of(file, buffer, store, format));
  for (size_t i = 0; i < buffers.size(); ++i)
    if (!values[i].empty())
      store.context().backend().copy_to_device(buffers[i].tensor->data(), values[i].data(),
                                               values[i].size());
  optimizer.set_state(update);
  return progress;
}

}  // namespace longshot
