// Length lists: numbers and ranges to a sorted list.
#include "train/evaluate_options.h"

#include <algorithm>
#include <fmt/core.h>

namespace longshot {

namespace {

constexpr int64_t kMostLengths = 100000;
constexpr int64_t kLongest = 1000000000;  // far past any memory, and sums cannot overflow

struct LengthRange {
  int64_t from = 0, to = 0, step = 1;
  void fields(FieldVisitor& visit) {
    visit.field("from", from, "first length", between(1, kLongest));
    visit.field("to", to, "last length", between(1, kLongest));
    visit.field("step", step, "distance between lengths", between(1, kLongest));
  }
};

}  // namespace

std::vector<int64_t> expand_lengths(const ConfigValue& lengths) {
  const auto fail = [](const ConfigValue& value, const std::string& message) {
    throw UsageError(fmt::format("{}: evaluate.lengths {}, got {}", value.where().to_string(),
                                 message, value.to_toml()));
  };
  if (!lengths.is_array()) fail(lengths, "must be a list of lengths and { from, to, step }");
  std::vector<int64_t> result;
  for (const ConfigValue& item : lengths.as_array()) {
    if (const std::optional<int64_t> length = item.as_whole()) {
      if (*length < 1 || *length > kLongest)
        fail(item, fmt::format("must be from 1 to {}", kLongest));
      result.push_back(*length);
    } else if (item.is_table()) {
      LengthRange range;
      for (const char* key : {"from", "to"})
        if (!item.as_table().contains(key)) fail(item, fmt::format("needs \"{}\" in a range", key));
      read_options(item.as_table(), ReadContext{"evaluate.lengths", {}, {}}, range);
      if (range.to < range.from) fail(item, "must have from <= to");
      if ((range.to - range.from) / range.step >= kMostLengths)
        fail(item, fmt::format("holds more than {} lengths", kMostLengths));
      for (int64_t length = range.from; length <= range.to; length += range.step)
        result.push_back(length);
    } else {
      fail(item, "holds lengths and { from, to, step }");
    }
  }
  std::sort(result.begin(), result.end());
  result.erase(std::unique(result.begin(), result.end()), result.end());
  return result;
}

}  // namespace longshot
