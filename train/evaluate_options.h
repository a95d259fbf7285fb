// [evaluate]: at which lengths a model is measured, and with how much.
#pragma once

#include <string>
#include <vector>

#include "core/config.h"

namespace longshot {

struct EvaluateOptions {
  ConfigValue lengths = ConfigValue::array({});
  int64_t samples = 512;
  int64_t batch = 64;
  int64_t memory_mb = 1024;
  int64_t in_range_samples = 512;
  bool by_position = false;
  std::string window = "segments";
  int64_t stride = 0;

  void fields(FieldVisitor& visit) {
    visit.field("lengths", lengths, "lengths to measure at, besides the training lengths",
                "list of lengths and { from, to, step }");
    visit.field("samples", samples,
                "sequences a length; of data that holds more, so many spread evenly over it",
                at_least(1));
    visit.field("batch", batch,
                "sequences at once, as far as memory_mb allows; results do not "
                "depend on it",
                at_least(1));
    visit.field("memory_mb", memory_mb, "limit on an evaluation batch's memory", at_least(1));
    visit.field("in_range_samples", in_range_samples,
                "sequences drawn as in training, to measure in range", at_least(1));
    visit.field("by_position", by_position, "also report accuracy and loss at each position");
    visit.field("window", window,
                "text: separate segments, a window that slides by `stride`, or both in turn",
                one_of({"segments", "sliding", "both"}));
    visit.field("stride", stride, "text: tokens a sliding window moves; 0: half a window",
                at_least(0));
  }
};

// The lengths in ascending order, each once: [50, { from = 100, to = 300, step = 100 }] gives
// 50, 100, 200, 300. `to` is included when the steps meet it; `step` defaults to 1. Throws
// UsageError at the place of the mistake.
std::vector<int64_t> expand_lengths(const ConfigValue& lengths);

}  // namespace longshot
