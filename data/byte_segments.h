// Language modelling on bytes: segments of a text, for causal and for masked models. Tasks "text"
// and "synthetic_text" differ only in where their bytes come from.
//
// causal   input byte p .. p + L - 1, target byte p + 1 .. p + L: every position predicts the next
// masked   about `mask_fraction` of the bytes are shown as the mask token 256; targets are those
//
// Training takes segments from uniformly drawn places. Evaluation cuts the text into windows of L
// bytes whose ends are `stride` apart and scores each prediction exactly once:
//
//   window i ends at prediction E_i = min(L + i * stride, P), begins at E_i - L, and scores
//   E_(i-1) .. E_i - 1 (window 0: all of it);  P = predictions the text holds
//
// stride = 0 or L is non-overlapping segments (the last one slides back so that no window is
// short); a smaller stride gives every prediction but the first L at least L - stride bytes of
// context (Press et al. 2022, "train short, test long"). The sum of losses over all windows over
// their target count is the loss; exp of it the perplexity a byte; over ln 2 the bits per byte.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "data/task.h"

namespace longshot {

struct SegmentOptions {
  std::string objective = "causal";
  double mask_fraction = 0.15;
  int64_t evaluate_bytes = 0;
  void fields(FieldVisitor& visit);
};

// A text cut by position: train first, then validation, then test.
struct SplitBytes {
  std::span<const uint8_t> train, validation, test;
};
// Fractions of the whole; train gets what is left.
SplitBytes split_by_position(std::span<const uint8_t> text, double valid_fraction,
                             double test_fraction);

class ByteSegments : public Task {
 public:
  static constexpr int64_t kSpecialToken = 256;  // mask; also pads

  TaskSpec spec() const override;
  TaskRecord record() const override;
  int64_t output_length(int64_t length) const override { return length; }
  // The longest segment that train and test (and validation, if any) can fill.
  int64_t max_length() const override;
  int64_t count(Split split, int64_t length, int64_t stride) const override;
  void example(const ExampleKey& key, Example& out) const override;

 protected:
  explicit ByteSegments(const SegmentOptions& options);
  // The bytes must live as long as the task. `name` says in messages whose they are. Throws
  // UsageError when train or test hold no segment at all; validation may be empty. With a record,
  // train may be, too: evaluation alone.
  void set_bytes(const SplitBytes& bytes, const std::string& name,
                 const TaskRecord* record = nullptr);

 private:
  std::span<const uint8_t> bytes(Split split) const;
  int64_t predictions(Split split) const;

  SegmentOptions options_;
  bool causal_;
  std::string name_;
  SplitBytes bytes_;
  bool evaluation_only_ = false;
};

}  // namespace longshot
