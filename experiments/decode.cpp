#include "experiments/decode.h"

#include "core/error.h"
#include "core/log.h"
#include "core/machine.h"
#include "core/ops.h"

namespace longshot {
PromptLayout lay_out(const Task& task, std::span<const int32_t> prompt, bool raw) {
  const TaskSpec spec = task.spec();
  const int64_t given = int64_t(prompt.size());
  PromptLayout layout;
  layout.tokens.assign(prompt.begin(), prompt.end());
  const bool pooled = spec.output == Output::first_token || spec.output == Output::mean;
  if (raw) {
    layout.outputs = pooled ? 1 : given;
    return layout;
  }
  const std::pair<int64_t, const char*> own[] = {
      {spec.begin_token, "begin"},
      {spec.separator_token, "separator"},
      {spec.end_token, "end"},
      {spec.placeholder_token, "placeholder"},
      {spec.answers() ? spec.padding_token : -1, "padding"}};
  for (const int32_t token : prompt)
    for (const auto& [id, name] : own)
      if (token == id)
        throw UsageError(
            fmt::format("token id {} is the task's own {} token, which is put there where it "
                        "belongs; --raw takes the sequence as the model's whole input",
                        token, name));
  if (spec.begin_token >= 0) layout.tokens.insert(layout.tokens.begin(), int32_t(spec.begin_token));
  if (spec.answers()) {
    layout.tokens.push_back(int32_t(spec.separator_token));
    layout.most = task.answer_tokens(given);
    return layout;
  }
  layout.outputs = task.answer_tokens(given);
  if (spec.output == Output::placeholders) {
    layout.begin = int64_t(layout.tokens.size());
    layout.tokens.insert(layout.tokens.end(), size_t(layout.outputs),
                         int32_t(spec.placeholder_token));
  } else if (!pooled) {
    layout.begin = int64_t(layout.tokens.size()) - layout.outputs;
  }
  return layout;
}

Tensor Decoder::logits(std::span<const int32_t> tokens, int64_t begin, int64_t outputs,
                       uint64_t sample) {
  const int64_t length = int64_t(tokens.size()), most = encoder_.most_tokens();
  if (most > 0 && length > most)
    throw UsageError(fmt::format(
        "{} tokens, with what the task adds, are more than this model's capacity of {} (encoding "
        "{}, positions {})",
        length, most, encoder_.encoding_config().find("type")->as_string(),
        encoder_.positions_config().find("type")->as_string()));
  // The estimate is twice what was measured.
  const double need = double(encoder_.evaluation_bytes_per_sequence(length)) / 2;
  if (const MemoryLimit limit = memory_limit(); need > limit.bytes)
    throw Error(fmt::format("{} tokens need about {:.1f} GB of memory, and {} is {:.1f}", length,
                            need / 1e9, limit.reason, limit.bytes / 1e9));
  // Attention alone: query by key, weights by value.
  const ModelOptions& model = encoder_.options();
  const double operations =
      4 * double(model.layers) * double(model.dim) * double(length) * double(length);
  if (operations > 1e14 && !long_told_) {
    long_told_ = true;
    log::warn("{} tokens take about {:.0e} floating-point operations: minutes to hours", length,
              operations);
  }
  EncoderInput input;
  input.batch = 1;
  input.length = length;
  input.tokens = tokens;
  input.output_begin = begin;
  input.outputs = outputs;
  input.seed = seed_;
  input.first_sample = int64_t(sample);
  try {
    return encoder_.forward(encoder_.prepare(input));
  } catch (const std::bad_alloc&) {
    throw Error(fmt::format("out of memory: {} tokens need about {:.1f} GB", length, need / 1e9));
  }
}

Predictions Decoder::read(std::span<const int32_t> tokens, int64_t begin, int64_t outputs,
                          uint64_t sample) {
  Context& context = encoder_.context();
  const StepScope step(context);
  const NoRecordingScope no_recording(context);
  context.set_step_state({.seed = seed_});
  const Tensor result = logits(tokens, begin, outputs, sample);
  return {ops::argmax(result).to_host<int32_t>(), result.to_host<float>()};
}

Predictions Decoder::write(std::vector<int32_t> tokens, int64_t most, int64_t end,
                           uint64_t sample) {
  Predictions all;
  while (int64_t(all.classes.size()) < most) {
    const Predictions next = read(tokens, int64_t(tokens.size()) - 1, 1, sample);
    all.classes.push_back(next.classes[0]);
    all.logits.insert(all.logits.end(), next.logits.begin(), next.logits.end());
    if (next.classes[0] == end) break;
    tokens.push_back(next.classes[0]);
  }
  return all;
}

double Decoder::loss(std::span<const int32_t> tokens, uint64_t sample) {
  Context& context = encoder_.context();
  const StepScope step(context);
  const NoRecordingScope no_recording(context);
  context.set_step_state({.seed = seed_});
  const int64_t predictions = int64_t(tokens.size()) - 1;
  const Tensor result = logits(tokens.first(size_t(predictions)), 0, predictions, sample);
  const Tensor targets = context.from_host(tokens.subspan(1), {predictions});
  double sum = 0;
  for (const double each :
       ops::cross_entropy(result.reshape({predictions, result.size(-1)}), targets)
           .row_loss.to_doubles())
    sum += each;
  return sum / double(predictions);
}

Predictions Decoder::answer(const Task& task, const PromptLayout& layout, uint64_t sample) {
  if (layout.outputs > 0) return read(layout.tokens, layout.begin, layout.outputs, sample);
  return write(layout.tokens, layout.most, task.spec().end_token, sample);
}

}  // namespace longshot
