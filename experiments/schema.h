// What a run is made of: every section of a config, read, checked and written from field lists.
//
//   load_config (experiments/load.h)   files and command line to one table of what was written
//   resolve                            that table to a RunConfig: checked, defaults included
//   to_toml                            a RunConfig to text that resolves to the same run
//
// [task], [encoding] and [positions] hold a `type` and that type's own options, which only the
// registered type knows. Schema is the list of those types; Schema::installed() takes them from the
// registries, and tests bring their own.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/config.h"
#include "core/registry.h"
#include "nn/model_options.h"
#include "train/evaluate_options.h"
#include "train/train_options.h"

namespace longshot {

struct TopOptions {
  std::string name;
  int64_t seed = 1;
  void fields(FieldVisitor& visit) {
    visit.field("name", name,
                "study name, a folder below the output folder; \"\": the config "
                "file's name");
    visit.field("seed", seed, "of all random draws", at_least(0));
  }
};

struct DeviceOptions {
  std::string type = "auto";
  bool tf32 = false;
  bool capture = true;
  void fields(FieldVisitor& visit) {
    visit.field("type", type, "auto (CUDA when there is a device), cpu, cuda or cuda:N");
    visit.field("tf32", tf32, "matrix products on CUDA in TF32: faster, 10 bits of mantissa");
    visit.field("capture", capture, "CUDA: record the training step once and replay it");
  }
};

// A section chosen by type. `options` holds every option of that type, defaults included, without
// the type itself; values that were written keep their place.
struct TypedSection {
  std::string type;
  ConfigTable options;
  SourceLocation where;           // of the type
  ConfigTable with_type() const;  // one table, `type` first: what make_task and Encoder take
};

struct RunConfig {
  std::string name;
  int64_t seed = 1;
  DeviceOptions device;
  TypedSection task, encoding, positions;
  ModelOptions model;
  TrainOptions train;
  EvaluateOptions evaluate;
  ConfigTable
      written;  // what was written, for places in messages: place_of(written, "train", "lr")
  std::vector<int64_t> evaluate_lengths() const { return expand_lengths(evaluate.lengths); }
};

// ---- the types that a section can have ---------------------------------------------------------

struct SectionType {
  std::string name, summary;
  std::vector<FieldInfo> (*describe)();
  ConfigTable (*resolve)(const ConfigTable&, const ReadContext&);
};

struct SectionTypes {
  std::string section;       // "encoding"
  std::string what;          // in messages: "encoding", "position sampler"
  std::string default_type;  // "": must be given
  std::vector<SectionType> types;
  const SectionType* find(std::string_view name) const;
};

template <class Interface>
SectionTypes section_types(std::string section, std::string what, std::string default_type) {
  SectionTypes result{std::move(section), std::move(what), std::move(default_type), {}};
  for (const auto& entry : Registry<Interface>::instance().entries())
    result.types.push_back({entry.name, entry.summary, entry.describe, entry.resolve});
  return result;
}

class Schema {
 public:
  Schema(SectionTypes task, SectionTypes encoding, SectionTypes positions);
  static const Schema& installed();

  const SectionTypes& task() const { return task_; }
  const SectionTypes& encoding() const { return encoding_; }
  const SectionTypes& positions() const { return positions_; }
  // The typed section of that name, or null.
  const SectionTypes* typed(std::string_view section) const;
  // Field lists of the other sections: "" (top level), device, model, train, evaluate.
  static const std::vector<std::pair<std::string, std::vector<FieldInfo>>>& plain();
  // (key, where it belongs) for every key that is not one of this section (and of this type).
  std::vector<std::pair<std::string, std::string>> keys_elsewhere(std::string_view section,
                                                                  std::string_view type = "") const;

 private:
  SectionTypes task_, encoding_, positions_;
};

// ---- reading and writing -----------------------------------------------------------------------

// Reads and checks everything in a table as load_config makes it ("sweep" is left alone). Mistakes
// throw UsageError with place, key and what would be right. No file is opened.
RunConfig resolve(const ConfigTable& table, const Schema& schema = Schema::installed());

// Files that the run will read (task.corpus, train.init_from, ...) exist and can be read. Separate,
// because an old run's config must stay readable when its data is gone.
void check_files(const RunConfig& config, const Schema& schema = Schema::installed());

// Every key with its value: the config saved beside a result.
ConfigTable to_table(const RunConfig& config);
std::string to_toml(const RunConfig& config);

// Where `section.key` was written: the key's place, else its section's, else "defaults".
SourceLocation place_of(const ConfigTable& table, std::string_view section, std::string_view key);

}  // namespace longshot
