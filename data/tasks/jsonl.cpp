// jsonl: the user's own sequences from JSON-lines files (data/sequence_file.h).
//
//   target = "per_token"     one class a token of the input
//            "per_sequence"  one class, read from the mean over the sequence (pool = "mean"), at
//                            its first token (pool = "first"; of no use to a causal model) or at
//                            its last one (pool = "last")
//            "placeholders"  as many placeholder tokens as there are targets follow the input
//
// An example's length is its number of input tokens. Batches of one length are drawn from the
// examples that have it, lengths as often as they occur; mixed lengths are padded. Ids beyond
// the largest one of the input: padding, then the placeholder. Chance: one of the classes.
//
// For evaluation alone, with what was recorded when a run started (data/task_record.h), only `test`
// is read, and the validation lines where they are there; vocabulary, classes, alphabet and the
// distribution of training lengths are the recorded ones.
#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "core/error.h"
#include "core/files.h"
#include "data/alphabet.h"
#include "data/mapped_file.h"
#include "data/sequence_file.h"
#include "data/task_record.h"

namespace longshot {
namespace {

struct JsonlOptions {
  std::string train, valid, test;
  double valid_fraction = 0.1;
  std::string target = "per_token";
  std::string strings = "byte";
  std::string pool = "mean";
  int64_t vocabulary = 0;
  int64_t classes = 0;
  bool causal = false;
  void fields(FieldVisitor& visit) {
    visit.field("train", train, "JSON-lines file to train on", file_path());
    visit.field("valid", valid, "file to validate on", file_path());
    visit.field("test", test, "file to test on", file_path());
    visit.field("valid_fraction", valid_fraction,
                "share of train's last lines for validation, without a valid file",
                from_to_below(0, 1));
    visit.field("target", target, "what the targets belong to",
                one_of({"per_token", "per_sequence", "placeholders"}));
    visit.field("strings", strings, "how strings become ids", one_of({"byte", "character"}));
    visit.field("pool", pool, "where a per_sequence answer is read",
                one_of({"mean", "first", "last"}));
    visit.field("vocabulary", vocabulary, "input ids, special ones apart; 0: as the files need",
                between(0, double(kLargestId + 1)));
    visit.field("classes", classes, "target classes; 0: as the files need",
                between(0, double(kLargestId + 1)));
    visit.field("causal", causal, "targets are later inputs: refuse a model that is not causal");
  }
};

class Jsonl : public Task {
 public:
  Jsonl(const JsonlOptions& options, const TaskRecord* record) : options_(options) {
    if (options.test.empty() || (options.train.empty() && record == nullptr))
      throw UsageError(fmt::format("task jsonl: {} is missing; it needs train and test files",
                                   options.train.empty() ? "train" : "test"));
    if (record != nullptr) {
      sets_.resize(2);
      if (std::optional<SequenceSet> validation = validation_if_there()) sets_[1] = *validation;
      sets_.push_back(load(options.test));
      take_over(*record);
    } else {
      sets_.push_back(load(options.train));
      sets_.push_back(options.valid.empty() ? split_off(sets_[0]) : load(options.valid));
      sets_.push_back(load(options.test));
      check_strings(sets_[0].string_input, sets_[0].string_target, sets_[0].file);
      measure();
    }
    for (size_t split = 0; split < sets_.size(); ++split)
      for (size_t i = 0; i < sets_[split].records.size(); ++i)
        by_length_[split][int64_t(sets_[split].records[i].input_size)].push_back(i);
    if (record != nullptr) return;
    std::set<int32_t> seen;
    for (const SequenceRecord& each : sets_[0].records)
      for (const int32_t id : sets_[0].input(each)) seen.insert(id);
    record_.seen.assign(seen.begin(), seen.end());
    for (const auto& [length, records] : by_length_[0])
      record_.train_lengths[length] = int64_t(records.size());
    record_.from_options = false;
  }

  TaskSpec spec() const override { return record_.spec; }
  TaskRecord record() const override { return record_; }

  int64_t output_length(int64_t length) const override {
    switch (record_.spec.output) {
      case Output::per_token:
        return length;
      case Output::placeholders:
        return record_.outputs(length);
      default:
        return 1;
    }
  }

  int64_t count(Split split, int64_t length, int64_t) const override {
    if (split == Split::train) return kUnlimited;
    const auto found = by_length_[size_t(split)].find(length);
    return found == by_length_[size_t(split)].end() ? 0 : int64_t(found->second.size());
  }

  std::vector<int64_t> lengths(Split split) const override {
    std::vector<int64_t> result;
    if (split == Split::train) {
      for (const auto& [length, count] : record_.train_lengths) result.push_back(length);
      return result;
    }
    for (const auto& [length, records] : by_length_[size_t(split)]) result.push_back(length);
    return result;
  }

  int64_t draw_length(RandomSequence& random, int64_t low, int64_t high) const override {
    const int64_t total = examples_between(low, high);
    if (total == 0)
      throw UsageError(fmt::format("{}: no sequence has {} to {} input tokens (train.lengths)",
                                   options_.train, low, high));
    return length_of(low, int64_t(random.below(uint64_t(total))));
  }

  // Evenly through the training examples in order of length, for whichever split.
  std::vector<LengthShare> in_range(Split, int64_t low, int64_t high,
                                    int64_t samples) const override {
    const int64_t total = examples_between(low, high);
    std::vector<LengthShare> plan;
    for (int64_t i = 0; i < samples && total > 0; ++i) {
      const int64_t length = length_of(low, (2 * i + 1) * total / (2 * samples));
      if (plan.empty() || plan.back().length != length) plan.push_back({length, 0});
      ++plan.back().samples;
    }
    return plan;
  }

  void example(const ExampleKey& key, Example& out) const override {
    out.clear();
    const auto found = by_length_[size_t(key.split)].find(key.length);
    LONGSHOT_CHECK(found != by_length_[size_t(key.split)].end(),
                   "{}: no sequence has {} input tokens", sets_[size_t(key.split)].file,
                   key.length);
    const std::vector<size_t>& records = found->second;
    size_t index = size_t(key.index);
    if (key.split == Split::train) {
      RandomSequence random = example_random(key);
      index = size_t(random.below(records.size()));
    }
    LONGSHOT_CHECK(index < records.size(), "{}: example {} of {} with {} input tokens",
                   sets_[size_t(key.split)].file, index, records.size(), key.length);
    const SequenceSet& set = sets_[size_t(key.split)];
    const SequenceRecord& record = set.records[records[index]];
    const auto input = set.input(record), target = set.target(record);
    out.input.assign(input.begin(), input.end());
    for (const int32_t wanted : target) out.predict(wanted);
  }

 private:
  SequenceSet load(const std::string& path) const {
    const MappedFile file(path);
    const auto bytes = file.bytes();
    const TargetShape shape = options_.target == "per_token"      ? TargetShape::per_token
                              : options_.target == "per_sequence" ? TargetShape::single
                                                                  : TargetShape::any;
    return parse_sequences({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path, shape,
                           options_.strings == "character");
  }

  // The last lines of `train`, moved into a set of their own (which shares no ids: they are
  // copied).
  SequenceSet split_off(SequenceSet& train) const {
    const size_t moved = size_t(double(train.records.size()) * options_.valid_fraction);
    SequenceSet valid = train;
    valid.records.erase(valid.records.begin(), valid.records.end() - int64_t(moved));
    train.records.resize(train.records.size() - moved);
    return valid;
  }

  // For evaluation: in range is measured on the validation lines where the test lines lack training
  // lengths. Nothing where they are gone.
  std::optional<SequenceSet> validation_if_there() const {
    const std::string& path = options_.valid.empty() ? options_.train : options_.valid;
    if (path.empty() || !file_exists(path)) return std::nullopt;
    SequenceSet set = load(path);
    if (!options_.valid.empty()) return set;
    return split_off(set);
  }

  // Strings where the others have strings, ids where they have ids.
  void check_strings(bool input, bool target, const std::string& others) const {
    for (const SequenceSet& set : sets_)
      for (const SequenceRecord& record : set.records)
        if (set.string_input != input || set.string_target != target)
          set.fail(record,
                   fmt::format("strings here and ids in {}, or the other way round", others));
  }

  // Ids within the vocabulary, targets within the classes, and how many targets there are.
  void check_ids(int64_t vocabulary, int64_t classes) {
    for (const SequenceSet& set : sets_)
      for (const SequenceRecord& record : set.records) {
        for (const int32_t id : set.input(record))
          if (id >= vocabulary)
            set.fail(record, fmt::format("input id {}, but vocabulary = {}", id, vocabulary));
        for (const int32_t id : set.target(record))
          if (id >= classes)
            set.fail(record, fmt::format("target {}, but classes = {}", id, classes));
        record_.outputs.add(int64_t(record.input_size), int64_t(record.target_size));
      }
  }

  // Vocabulary, classes and alphabet over all three sets.
  void measure() {
    const bool characters =
        options_.strings == "character" && (sets_[0].string_input || sets_[0].string_target);
    std::vector<int32_t> alphabet;
    if (characters) alphabet = map_characters(sets_);
    int64_t vocabulary = options_.vocabulary, classes = options_.classes;
    if (vocabulary == 0 && sets_[0].string_input)
      vocabulary = characters ? int64_t(alphabet.size()) : 256;
    if (classes == 0 && sets_[0].string_target)
      classes = characters ? int64_t(alphabet.size()) : 256;
    int64_t largest_input = 0, largest_target = 0;
    for (const SequenceSet& set : sets_)
      for (const SequenceRecord& record : set.records) {
        for (const int32_t id : set.input(record))
          largest_input = std::max<int64_t>(largest_input, id);
        for (const int32_t id : set.target(record))
          largest_target = std::max<int64_t>(largest_target, id);
      }
    if (vocabulary == 0) vocabulary = largest_input + 1;
    if (classes == 0) classes = std::max<int64_t>(2, largest_target + 1);
    check_ids(vocabulary, classes);

    TaskSpec& spec = record_.spec;
    const bool placeholders = options_.target == "placeholders";
    spec.padding_token = vocabulary;
    spec.placeholder_token = placeholders ? vocabulary + 1 : -1;
    spec.input_vocabulary = vocabulary + (placeholders ? 2 : 1);
    spec.output_classes = classes;
    spec.output = placeholders                     ? Output::placeholders
                  : options_.target == "per_token" ? Output::per_token
                  : options_.pool == "mean"        ? Output::mean
                  : options_.pool == "last"        ? Output::last_token
                                                   : Output::first_token;
    spec.causal = options_.causal;
    spec.fixed_samples = true;
    spec.chance = 1.0 / double(classes);
    spec.chance_reason = fmt::format("one of {} classes guessed", classes);
    const auto symbols = [&](std::string& bytes, std::vector<int32_t>& points) {
      if (!characters)
        for (int byte = 0; byte < 256; ++byte) bytes.push_back(char(byte));
      else if (alphabet.empty() || alphabet.back() < 128)
        bytes.assign(alphabet.begin(), alphabet.end());
      else
        points = alphabet;
    };
    if (sets_[0].string_input) symbols(spec.input_symbols, spec.input_points);
    if (sets_[0].string_target) symbols(spec.output_symbols, spec.output_points);
  }

  // Test and validation lines, by what was recorded.
  void take_over(const TaskRecord& record) {
    record_ = record;
    const TaskSpec& spec = record_.spec;
    const Alphabet inputs(spec.input_symbols, spec.input_points),
        outputs(spec.output_symbols, spec.output_points);
    check_strings(!inputs.empty(), !outputs.empty(), "the training data");
    for (SequenceSet& set : sets_)
      for (const SequenceRecord& each : set.records) {
        if (options_.strings != "character") break;
        const auto map = [&](bool strings, const Alphabet& alphabet, size_t begin, size_t size) {
          for (size_t i = begin; strings && i < begin + size; ++i) {
            const std::string character = to_utf8(set.ids[i]);
            const std::optional<int32_t> id = alphabet.find(character);
            if (!id)
              set.fail(each, fmt::format("{} is not among the characters that the model knows ({})",
                                         character, alphabet.listed()));
            set.ids[i] = *id;
          }
        };
        map(set.string_input, inputs, each.input_begin, each.input_size);
        map(set.string_target, outputs, each.target_begin, each.target_size);
      }
    const int64_t special = spec.placeholder_token >= 0 ? 2 : 1;
    check_ids(spec.input_vocabulary - special, spec.output_classes);
  }

  // Of the training split.
  int64_t examples_between(int64_t low, int64_t high) const {
    int64_t total = 0;
    for (const auto& [length, count] : record_.train_lengths)
      if (length >= low && length <= high) total += count;
    return total;
  }

  // The length of training example `index` among those of at least `low` tokens, in order of
  // length.
  int64_t length_of(int64_t low, int64_t index) const {
    int64_t last = 0;
    for (const auto& [length, count] : record_.train_lengths) {
      if (length < low) continue;
      last = length;
      if (index < count) break;
      index -= count;
    }
    return last;
  }

  JsonlOptions options_;
  std::vector<SequenceSet> sets_;                        // by split
  std::map<int64_t, std::vector<size_t>> by_length_[3];  // input tokens -> records, by split
  TaskRecord record_;
};

const RegisterType<Task, Jsonl, JsonlOptions> kRegister{
    "jsonl", "your own sequences, one JSON object a line with input and target"};

}  // namespace
}  // namespace longshot
