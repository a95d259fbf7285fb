// Checks across modules, each pointing to the line that has to change.
#include "experiments/check_run.h"

#include <fmt/core.h>

#include "core/machine.h"
#include "experiments/data_notes.h"
#include "experiments/idle_keys.h"
#include "experiments/memory_need.h"
#include "nn/parameter_store.h"

namespace longshot {

namespace {

[[noreturn]] void fail(const SourceLocation& where, const std::string& message) {
  throw UsageError(where.to_string() + ": " + message);
}

// Mistakes found by a module that does not know where its options were written.
template <class Build>
auto located(const SourceLocation& where, Build build) {
  try {
    return build();
  } catch (const UsageError& error) {
    const std::string place = where.file + ":";
    if (std::string_view(error.what()).starts_with(place)) throw;
    fail(where, error.what());
  }
}

SourceLocation place(const RunConfig& config, const char* section, const char* key) {
  return place_of(config.written, section, key);
}

// The place of this length in the list, as far as it was written as such.
SourceLocation place_of_length(const RunConfig& config, int64_t length) {
  for (const ConfigValue& item : config.evaluate.lengths.as_array()) {
    if (item.as_whole() == length) return item.where();
  }
  return place(config, "evaluate", "lengths");
}

template <class Interface>
const typename Registry<Interface>::Entry& entry_of(const TypedSection& section, const char* what) {
  return Registry<Interface>::instance().get(section.type, what, section.where);
}

}  // namespace

void check_task(const RunConfig& config, const Task& task) {
  // Lengths of generated examples, as far as their random numbers reach (example_random).
  const int64_t most =
      task.max_length() == Task::kUnlimited ? kLongestGenerated : task.max_length();
  if (task.max_length() == Task::kUnlimited && config.train.lengths.high() > most)
    fail(place(config, "train", "lengths"),
         fmt::format("train.lengths goes to {}, and task {} makes lengths up to {}",
                     config.train.lengths.high(), config.task.type, most));
  const LengthOptions lengths = located(place(config, "train", "lengths"), [&] {
    return config.train.lengths.resolve(config.train.steps, task);
  });
  if (task.spec().causal && !config.model.causal && config.train.steps > 0)
    fail(config.task.where,
         fmt::format("task {} predicts its own next token: it needs model.causal = true",
                     config.task.type));
  for (const int64_t length : config.evaluate_lengths())
    if (length < task.min_length() || length > most)
      fail(place_of_length(config, length),
           fmt::format("evaluate.lengths has {}, and task {} makes lengths from {} to {}", length,
                       config.task.type, task.min_length(), most));
}

namespace {

// What training gives its longest sequence: a sampler may move it far past its own length.
void check_training_reach(const RunConfig& config, const Task& task, const EncodingTraits& traits,
                          const PositionSampler& sampler, bool strict) {
  const int64_t length = config.train.lengths.longest_only(task).high();
  const int64_t tokens = task.model_length(length);
  if (sampler.capacity() > 0 && tokens > sampler.capacity())
    fail(place(config, "train", "lengths"),
         fmt::format("train.lengths goes to {}: {} tokens with what the task adds, and positions "
                     "{} has only {}",
                     length, tokens, config.positions.type, sampler.capacity()));
  if (!strict || traits.capacity == 0) return;
  const int64_t limit = sampler.draw({.batch = 1, .length = tokens, .training = true}).limit;
  if (limit > traits.capacity)
    fail(config.positions.where,
         fmt::format("positions {} gives training sequences of {} tokens positions up to {}, and "
                     "encoding {} has capacity {}; raise encoding.capacity, choose what happens "
                     "beyond it with encoding.beyond, or change what positions {} reaches",
                     config.positions.type, tokens, limit - 1, config.encoding.type,
                     traits.capacity, config.positions.type));
}

}  // namespace

void check_reach(const RunConfig& config, const Task& task, const EncodingTraits& traits,
                 const PositionSampler& sampler) {
  const ConfigValue* beyond = config.encoding.options.find("beyond");
  const bool strict = beyond == nullptr || !beyond->is_string() || beyond->as_string() == "error";
  for (const int64_t length : config.evaluate_lengths()) {
    const int64_t tokens = task.model_length(length);
    if (sampler.capacity() > 0 && tokens > sampler.capacity())
      fail(place_of_length(config, length),
           fmt::format("evaluate.lengths has {}: {} tokens with what the task adds, and positions "
                       "{} has only {}",
                       length, tokens, config.positions.type, sampler.capacity()));
    // A sampler with a limit of its own is held against the capacity where the model is built.
    if (strict && traits.capacity > 0 && sampler.position_limit() == 0 && tokens > traits.capacity)
      fail(place_of_length(config, length),
           fmt::format(
               "evaluate.lengths has {}: {} tokens with what the task adds, and encoding {} has "
               "capacity {}{}",
               length, tokens, config.encoding.type, traits.capacity,
               beyond == nullptr ? ""
                                 : "; raise encoding.capacity, or choose what happens beyond it "
                                   "with encoding.beyond"));
  }
  if (config.train.steps > 0) check_training_reach(config, task, traits, sampler, strict);
}

std::vector<std::string> check_run(const RunConfig& config, Context& context, const Task* given) {
  std::unique_ptr<Task> made;
  if (given == nullptr)
    made = located(config.task.where,
                   [&] { return make_task(config.task.type, config.task.with_type()); });
  const Task* task = given != nullptr ? given : made.get();
  check_task(config, *task);
  check_idle_keys(config, task->spec());

  const ReadContext read_positions{"positions", {}, {"type"}},
      read_encoding{"encoding", {}, {"type"}};
  const std::unique_ptr<PositionSampler> sampler = located(config.positions.where, [&] {
    return entry_of<PositionSampler>(config.positions, "position sampler")
        .create(config.positions.with_type(), read_positions);
  });
  EncodingModel model;
  model.dim = config.model.dim;
  model.heads = config.model.heads;
  model.head_dim = config.model.dim / config.model.heads;
  model.layers = config.model.layers;
  model.causal = config.model.causal;
  model.train_length = task->model_length(config.train.lengths.high());
  model.position_limit = sampler->position_limit();
  // Once without the encoding, which some numbers keep from being built.
  const MemoryLimit limit = memory_limit();
  check_memory(config, least_memory(config, *task, 0, sampler->samples_per_draw()), limit);
  ParameterStore store(context);
  const std::unique_ptr<PositionalEncoding> encoding = located(config.encoding.where, [&] {
    return entry_of<PositionalEncoding>(config.encoding, "encoding")
        .create(config.encoding.with_type(), read_encoding, model, ModuleScope(store, "encoding"));
  });
  const EncodingTraits traits = encoding->traits();
  if (traits.causal_only && !config.model.causal)
    fail(config.encoding.where,
         fmt::format("encoding {} has no meaning for keys ahead of the query: "
                     "it needs model.causal = true",
                     config.encoding.type));
  double trained = 0;
  for (const Parameter::Entry& entry : store.entries()) {
    double numbers = 1;
    for (int axis = 0; axis < entry.shape.rank(); ++axis) numbers *= double(entry.shape[axis]);
    trained += numbers;
  }
  check_memory(config, least_memory(config, *task, trained, sampler->samples_per_draw()), limit);
  check_reach(config, *task, traits, *sampler);
  return data_notes(config, *task);
}

}  // namespace longshot
