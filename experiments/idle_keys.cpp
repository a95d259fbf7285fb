#include "experiments/idle_keys.h"

#include <algorithm>
#include <fmt/core.h>

namespace longshot {
namespace {

// A key of a typed section that is read only where another key has (or has not) a value.
struct Reader {
  const char *section, *key, *other;
  const char* value;  // TOML text; begins with "!": any value but this
  const char* sentence;
};

constexpr Reader kReaders[] = {
    {"task", "mask_fraction", "objective", "\"masked\"", "is for objective = \"masked\""},
    {"task", "valid_fraction", "valid", "\"\"", "is not used beside a file to validate on"},
    {"task", "valid_fraction", "valid_file", "\"\"", "is not used beside a file to validate on"},
    {"task", "test_fraction", "train_file", "\"\"", "is for task.corpus: train_file is used whole"},
    {"task", "pool", "target", "\"per_sequence\"", "is for target = \"per_sequence\""},
    {"positions", "draw_every", "evaluate", "\"drawn\"", "is for evaluate = \"drawn\""},
};

std::string located(const SourceLocation& where, const std::string& message) {
  return where.to_string() + ": " + message;
}

const std::string* default_of(const std::vector<FieldInfo>& fields, const std::string& key) {
  const auto found = std::find_if(fields.begin(), fields.end(),
                                  [&](const FieldInfo& field) { return field.key == key; });
  return found == fields.end() ? nullptr : &found->default_value;
}

void add_typed(const TypedSection& section, const SectionTypes& types,
               std::vector<std::string>& notes) {
  const SectionType* type = types.find(section.type);
  if (type == nullptr) return;
  const std::vector<FieldInfo> fields = type->describe();
  for (const Reader& reader : kReaders) {
    if (types.section != reader.section) continue;
    const ConfigValue *value = section.options.find(reader.key),
                      *other = section.options.find(reader.other);
    const std::string* initial = default_of(fields, reader.key);
    if (value == nullptr || other == nullptr || initial == nullptr || value->to_toml() == *initial)
      continue;
    if (other->to_toml() != reader.value)
      notes.push_back(located(value->where().file.empty() ? section.where : value->where(),
                              fmt::format("{}.{} = {} has no effect: it {}", types.section,
                                          reader.key, value->to_toml(), reader.sentence)));
  }
}

void add_training(const RunConfig& config, std::vector<std::string>& notes) {
  const TrainOptions& train = config.train;
  const auto note = [&](const char* key, const std::string& message) {
    notes.push_back(located(place_of(config.written, "train", key), message));
  };
  if (train.warmup >= train.steps)
    note("warmup", fmt::format("train.warmup = {} is not over after the {} steps of this run: the "
                               "rate is still rising at its end",
                               train.warmup, train.steps));
  if (train.final_lr_fraction > 0 && train.schedule != "cosine" && train.schedule != "linear")
    note("final_lr_fraction",
         fmt::format("train.final_lr_fraction = {} has no effect: it is for schedule = \"cosine\" "
                     "and \"linear\", and schedule is \"{}\"",
                     train.final_lr_fraction, train.schedule));
  if (train.min_delta > 0 && train.patience == 0)
    note("min_delta",
         fmt::format("train.min_delta = {} has no effect: it is for patience, which is 0",
                     train.min_delta));
  // The first evaluation is the best so far; after `patience` more the run can stop.
  const int64_t evaluations =
      train.evaluate_every == 0 ? 0 : (train.steps - 1) / train.evaluate_every;
  if (train.patience > 0 && evaluations <= train.patience)
    note("patience",
         fmt::format("train.patience = {} has no effect: there are {} evaluations before the last "
                     "of {} steps (evaluate_every = {})",
                     train.patience, evaluations, train.steps, train.evaluate_every));
  if (train.keep == "best" && (train.evaluate_every == 0 || train.evaluate_every >= train.steps))
    note("keep", fmt::format("train.keep = \"best\" has no effect: with evaluate_every = {} the "
                             "only evaluation of {} steps is at the end",
                             train.evaluate_every, train.steps));
  const LengthOptions& lengths = train.lengths;
  if (lengths.curriculum_steps > train.steps)
    note("lengths",
         fmt::format("train.lengths.curriculum_steps = {} is beyond the {} steps of this run: its "
                     "longest lengths are never trained on",
                     lengths.curriculum_steps, train.steps));
  if (lengths.draw == "fixed" && lengths.min > 1 && lengths.min != lengths.high())
    note("lengths", fmt::format("train.lengths.min = {} has no effect: with draw = \"fixed\" every "
                                "length is {}",
                                lengths.min, lengths.high()));
}

}  // namespace

void check_idle_keys(const RunConfig& config, const TaskSpec& spec) {
  const TrainOptions& train = config.train;
  if (train.steps > 0 && train.patience > 0 && train.evaluate_every == 0)
    throw UsageError(
        located(place_of(config.written, "train", "patience"),
                fmt::format("train.patience = {} counts evaluations during training, and "
                            "train.evaluate_every = 0 makes none: set evaluate_every, or patience "
                            "= 0",
                            train.patience)));
  if (config.evaluate.window != "segments" && !spec.windowed)
    throw UsageError(located(
        place_of(config.written, "evaluate", "window"),
        fmt::format("evaluate.window = \"{}\" is for one long text, and the samples of task {} are "
                    "sequences of their own: leave it at \"segments\"",
                    config.evaluate.window, config.task.type)));
}

std::vector<std::string> idle_keys(const RunConfig& config) {
  std::vector<std::string> notes;
  const Schema& schema = Schema::installed();
  add_typed(config.task, schema.task(), notes);
  add_typed(config.positions, schema.positions(), notes);
  if (config.train.steps > 0) add_training(config, notes);
  return notes;
}

}  // namespace longshot
