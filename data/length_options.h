// Which lengths a model is trained on: `[train] lengths = { min = 1, max = 40, draw = "batch" }`.
//
//   draw = "batch"     one length a batch, uniform in min .. max: no padding (Ruoss et al. 2023)
//   draw = "sequence"  a length for each sequence; rows padded to the longest
//   draw = "fixed"     always `length`
//   curriculum = "linear"   the longest length grows from min at step 0 to max at curriculum_steps
//
// Data that has lengths of its own (jsonl) is drawn as it is distributed within min .. max.
#pragma once

#include <cstdint>
#include <string>

#include "core/config.h"

namespace longshot {

class Task;

struct LengthOptions {
  int64_t min = 1;
  int64_t max = 40;
  std::string draw = "batch";
  int64_t length = 0;
  std::string curriculum = "none";
  int64_t curriculum_steps = 0;
  bool operator==(const LengthOptions&) const = default;

  void fields(FieldVisitor& visit) {
    visit.field("min", min, "shortest training length", at_least(1));
    visit.field("max", max, "longest training length", at_least(1));
    visit.field("draw", draw,
                "one length a batch (no padding), one a sequence (padded), or always "
                "`length`",
                one_of({"batch", "sequence", "fixed"}));
    visit.field("length", length, "the length for draw = \"fixed\"; 0: max", at_least(0));
    visit.field("curriculum", curriculum, "linear: the longest length grows from min to max",
                one_of({"none", "linear"}));
    visit.field("curriculum_steps", curriculum_steps,
                "steps until the curriculum reaches max; 0: half of the training", at_least(0));
  }

  // With curriculum_steps filled in for a run of so many steps. Throws UsageError for what
  // contradicts itself, and for lengths that the task cannot make.
  LengthOptions resolve(int64_t train_steps, const Task& task) const;

  // The shortest and the longest training length; draw = "fixed" makes them equal.
  int64_t low() const { return draw == "fixed" ? high() : min; }
  int64_t high() const { return draw == "fixed" && length > 0 ? length : max; }
  // Only the length, of those that training can draw, whose batches are the largest: for reserving
  // memory. Data that has lengths of its own need not have the longest one allowed.
  LengthOptions longest_only(const Task& task) const;
  // The longest one at an optimizer step.
  int64_t high_at(uint64_t step) const;
};

}  // namespace longshot
