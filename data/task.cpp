#include "data/task.h"

#include <algorithm>

#include "core/error.h"
#include "data/task_record.h"

namespace longshot {

const char* name_of(Split split) {
  switch (split) {
    case Split::train:
      return "train";
    case Split::validation:
      return "validation";
    case Split::test:
      return "test";
  }
  return "?";
}

const char* name_of(Output output) {
  switch (output) {
    case Output::placeholders:
      return "placeholders";
    case Output::per_token:
      return "per_token";
    case Output::last_token:
      return "last_token";
    case Output::first_token:
      return "first_token";
    case Output::mean:
      return "mean";
  }
  return "?";
}

int64_t Task::model_length(int64_t length) const {
  const int64_t input = input_length(length);
  return spec().output == Output::placeholders ? input + output_length(length) : input;
}

int64_t Task::draw_length(RandomSequence& random, int64_t low, int64_t high) const {
  return random.between(low, high);
}

std::vector<LengthShare> Task::in_range(Split, int64_t low, int64_t high, int64_t samples) const {
  LONGSHOT_CHECK(low <= high && samples >= 0, "in-range plan: lengths {} to {}, {} samples", low,
                 high, samples);
  // Sample i of S gets length low + floor((2 i + 1) K / (2 S)): the uniform distribution's
  // quantiles at the middles of S equal pieces.
  const int64_t range = high - low + 1;
  // So length low + k gets the i from ceil((2 k S - K) / (2 K)) up to the next length's.
  __extension__ typedef __int128 Wide;  // the products of two large numbers
  const Wide many = samples, lengths = range;
  const auto first_of = [&](int64_t k) {
    const Wide above = 2 * Wide(k) * many - lengths;
    return above <= 0 ? int64_t(0) : int64_t((above + 2 * lengths - 1) / (2 * lengths));
  };
  std::vector<LengthShare> plan;
  if (samples == 0) return plan;
  for (int64_t i = 0; i < samples;) {
    const int64_t k = int64_t((2 * Wide(i) + 1) * lengths / (2 * many));
    const int64_t next = k + 1 < range ? std::min(first_of(k + 1), samples) : samples;
    plan.push_back({low + k, next - i});
    i = next;
  }
  return plan;
}

RandomSequence example_random(const ExampleKey& key) {
  LONGSHOT_CHECK(key.length >= 0 && key.length <= kLongestGenerated,
                 "example: length {} is outside 0 to {}", key.length, kLongestGenerated);
  // RandomKey has 24 bits for the stream and 32 for the step. Two for the split and 22 for the
  // length keep streams of one seed apart for certain; an index beyond 32 bits moves the seed.
  const uint32_t stream = uint32_t(key.split) << 22 | uint32_t(key.length);
  const uint64_t seed = key.seed + (key.index >> 32) * 0x9E3779B97F4A7C15ull;
  return RandomSequence({seed, RandomPurpose::data, stream, uint32_t(key.index)});
}

TaskRecord Task::record() const {
  TaskRecord record;
  record.spec = spec();
  return record;
}

std::unique_ptr<Task> make_task(const std::string& type, const ConfigTable& table,
                                const TaskRecord* record) {
  const Registry<Task>& registry = Registry<Task>::instance();
  SourceLocation where = table.where();
  if (const ConfigValue* value = table.find("type")) where = value->where();
  const auto& entry = registry.get(type, "task", where);
  ReadContext context;
  context.section = "task";
  context.keys_known_elsewhere = registry.foreign_keys(type, "task");
  context.ignore = {"type"};
  return entry.create(table, context, record);
}

}  // namespace longshot
