#include "experiments/data_notes.h"

#include <algorithm>
#include <fmt/core.h>

#include "train/evaluator.h"

namespace longshot {
namespace {

// "2, 4 to 6, 9"
std::string in_words(const std::vector<int64_t>& lengths) {
  std::string text;
  for (size_t i = 0; i < lengths.size();) {
    size_t last = i;
    while (last + 1 < lengths.size() && lengths[last + 1] == lengths[last] + 1) ++last;
    if (!text.empty()) text += ", ";
    text += last == i ? fmt::format("{}", lengths[i])
                      : fmt::format("{} to {}", lengths[i], lengths[last]);
    i = last + 1;
  }
  return text.empty() ? "none" : text;
}

}  // namespace

std::vector<std::string> data_notes(const RunConfig& config, const Task& task) {
  std::vector<std::string> notes;
  const std::vector<int64_t> trained = task.lengths(Split::train);
  if (trained.empty()) return notes;  // a task that makes every length
  const LengthOptions lengths = config.train.lengths.resolve(config.train.steps, task);
  const int64_t low = lengths.low(), high = lengths.high();
  std::vector<int64_t> present;
  for (const int64_t length : trained)
    if (length >= low && length <= high) present.push_back(length);
  const bool whole_default = config.train.lengths == LengthOptions();
  if (int64_t(present.size()) < high - low + 1 && !whole_default)
    notes.push_back(fmt::format("train.lengths is {} to {}; the training lines have lengths {}",
                                low, high, in_words(present)));
  std::vector<int64_t> missing;
  for (const int64_t length : config.evaluate_lengths())
    if (task.count(Split::test, length) == 0) missing.push_back(length);
  if (!missing.empty())
    notes.push_back(
        fmt::format("evaluate.lengths: the test lines have none of length {} (they have {})",
                    in_words(missing), in_words(task.lengths(Split::test))));
  const int64_t samples = config.evaluate.in_range_samples;
  const double test = coverage_of(task, Split::test, low, high, samples);
  const double validation = coverage_of(task, Split::validation, low, high, samples);
  const bool validation_decides = config.train.patience > 0 || config.train.keep == "best";
  if (validation_decides && validation < kEnoughCoverage)
    notes.push_back(fmt::format(
        "the validation lines hold the lengths of only {:.1f} % of the training sequences, and "
        "they "
        "decide on {}; give a valid file with all lengths, or shuffle the training file",
        100 * validation, config.train.patience > 0 ? "train.patience" : "train.keep"));
  if (test >= kEnoughCoverage) return notes;
  if (std::max(test, validation) <= 0)
    notes.push_back(
        "no in-range data: neither the test lines nor the validation lines have a training length, "
        "so no verdict will be given; add such lines to the test file");
  else if (validation > test)
    notes.push_back(
        fmt::format("the test lines hold the lengths of {:.1f} % of the training sequences: in "
                    "range is measured "
                    "on the validation lines ({:.1f} %){}",
                    100 * test, 100 * validation,
                    validation < kEnoughCoverage ? ", which is too little for a verdict" : ""));
  else
    notes.push_back(
        fmt::format("the test lines hold the lengths of only {:.1f} % of the training sequences: "
                    "too little for "
                    "a verdict; add lines of the other training lengths to the test file",
                    100 * test));
  return notes;
}

}  // namespace longshot
