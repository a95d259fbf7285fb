#include "data/length_options.h"

#include <algorithm>

#include "core/error.h"
#include "data/task.h"

namespace longshot {

LengthOptions LengthOptions::resolve(int64_t train_steps, const Task& task) const {
  if (draw != "fixed" && min > max)
    throw UsageError(fmt::format("train.lengths: min = {} is greater than max = {}", min, max));
  if (draw != "fixed" && length != 0)
    throw UsageError(
        fmt::format("train.lengths: length = {} needs draw = \"fixed\", got \"{}\"", length, draw));
  if (curriculum == "none" && curriculum_steps != 0)
    throw UsageError(fmt::format(
        "train.lengths: curriculum_steps = {} needs curriculum = \"linear\"", curriculum_steps));
  if (curriculum != "none" && draw == "fixed")
    throw UsageError("train.lengths: a curriculum has no meaning with draw = \"fixed\"");
  if (low() < task.min_length() || high() > task.max_length())
    throw UsageError(fmt::format("train.lengths: {} to {}, but this task makes lengths {} to {}",
                                 low(), high(), task.min_length(), task.max_length()));
  LengthOptions resolved = *this;
  if (curriculum == "linear" && curriculum_steps == 0)
    resolved.curriculum_steps = std::max<int64_t>(1, train_steps / 2);
  return resolved;
}

LengthOptions LengthOptions::longest_only(const Task& task) const {
  LengthOptions result = *this;
  result.draw = "fixed";
  result.length = 0;
  result.curriculum = "none";
  for (const int64_t each : task.lengths(Split::train)) {
    if (each < low() || each > high()) continue;
    if (result.length == 0 || task.model_length(each) >= task.model_length(result.length))
      result.length = each;
  }
  if (result.length == 0) result.length = high();
  return result;
}

int64_t LengthOptions::high_at(uint64_t step) const {
  if (curriculum == "none") return high();
  LONGSHOT_CHECK(curriculum_steps >= 1, "train.lengths: the curriculum is not resolved");
  if (step >= uint64_t(curriculum_steps)) return high();
  // In whole numbers: (max - min) * step stays below 2^63 for any run that can be afforded.
  return min + (max - min) * int64_t(step) / curriculum_steps;
}

}  // namespace longshot
