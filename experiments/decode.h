// A trained model, one sequence at a time: what `predict` does with a line. There is no cache: each
// token that is written runs the whole sequence anew.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/task.h"
#include "nn/encoder.h"

namespace longshot {

// A sequence as the model takes it, and where its predictions are read.
struct PromptLayout {
  std::vector<int32_t> tokens;
  int64_t begin = 0, outputs = 0;  // positions of `tokens`; outputs 0: the model writes its answer
  int64_t most = 0;                // tokens that the answer may have
};
// What the task puts around a prompt: BEGIN or CLS, placeholders, SEPARATOR. `raw`: nothing; the
// prompt is the model's whole input. Throws UsageError for ids in the prompt that are the task's
// own.
PromptLayout lay_out(const Task& task, std::span<const int32_t> prompt, bool raw = false);

struct Predictions {
  std::vector<int32_t> classes;  // the most probable one of each
  std::vector<float> logits;     // (predictions, classes)
};

class Decoder {
 public:
  // `output_classes` logits a prediction; `seed` is the one of draws of positions.
  Decoder(Encoder& encoder, uint64_t seed) : encoder_(encoder), seed_(seed) {}

  // UsageError for a sequence longer than the model reaches. Error, before anything is computed,
  // for one that needs more memory than the machine has. `sample` is the index that draws of
  // positions go by, as in an evaluation.
  Predictions read(std::span<const int32_t> tokens, int64_t begin, int64_t outputs,
                   uint64_t sample);
  // Greedy decoding: the most probable next token, again and again, until `end` (included) or
  // `most`.
  Predictions write(std::vector<int32_t> tokens, int64_t most, int64_t end, uint64_t sample);
  // Mean cross-entropy of each token but the first, given those before it.
  double loss(std::span<const int32_t> tokens, uint64_t sample);

  // `task`'s predictions for a prompt: read(), or write() up to the end token or the answer's
  // length.
  Predictions answer(const Task& task, const PromptLayout& layout, uint64_t sample);

 private:
  Tensor logits(std::span<const int32_t> tokens, int64_t begin, int64_t outputs, uint64_t sample);
  Encoder& encoder_;
  uint64_t seed_;
  bool long_told_ = false;  // that a line takes long
};

}  // namespace longshot
