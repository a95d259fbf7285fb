// Encoder: tokens -> embedding -> stack of blocks -> head. Bidirectional, or causal by a mask.
//
//   x = scale * E[token]                                    scale 1 or sqrt(dim)
//   x = dropout(encoding.on_embeddings(x))
//   post-norm block:  x = norm(x + dropout(attention(x)));  x = norm(x + dropout(ffn(x)))
//   pre-norm block:   x = x + dropout(attention(norm(x)));  x = x + dropout(ffn(norm(x))); one norm
//   at the end logits = head(x at the positions asked for)
//
// Vaswani et al. 2017; pre-norm after Xiong et al. 2020.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/config.h"
#include "core/context.h"
#include "core/tensor.h"
#include "nn/encoder_input.h"
#include "nn/model_options.h"
#include "nn/parameter_store.h"
#include "nn/position_sampler.h"
#include "nn/positional_encoding.h"
#include "nn/sequence_context.h"

namespace longshot {

class EncoderBlock;
class Linear;
class Norm;

// What the task asks of the model.
struct EncoderInterface {
  int64_t input_vocabulary = 0;
  int64_t output_classes = 0;
  bool mean_pool = false;  // one prediction a sequence, from the mean over its real tokens
  int64_t train_length =
      0;  // longest model input met in training, placeholders included; 0: unknown
};

class Encoder {
 public:
  // `encoding` and `positions` are the config tables [encoding] and [positions] with their `type`.
  // Declares all parameters and places them with `seed`. Mistakes throw UsageError with their
  // place.
  Encoder(Context& context, const ModelOptions& options, const ConfigTable& encoding,
          const ConfigTable& positions, const EncoderInterface& interface, uint64_t seed);
  ~Encoder();

  Context& context() const { return context_; }
  ParameterStore& parameters() { return store_; }
  const ParameterStore& parameters() const { return store_; }
  const ModelOptions& options() const { return options_; }
  const EncoderInterface& interface() const { return interface_; }
  PositionalEncoding& encoding() { return *encoding_; }
  const PositionSampler& positions() const { return *positions_; }
  // Everything needed to build this model again, for a checkpoint's metadata: resolved, with
  // `type`.
  const ConfigTable& encoding_config() const { return encoding_config_; }
  const ConfigTable& positions_config() const { return positions_config_; }

  // Host work and uploads for a batch; call inside a StepScope, before forward().
  PreparedInput prepare(const EncoderInput& input);
  // Hidden states after the last block (and final norm): (B, T, dim).
  Tensor hidden(const PreparedInput& input);
  // (B, outputs, classes), or (B, 1, classes) when mean_pool.
  Tensor forward(const PreparedInput& input);

  // In evaluation, a token's output depends on how many tokens follow it (even in a causal model).
  bool by_length() const;
  // The longest sequence that can be evaluated; 0: no limit.
  int64_t most_tokens() const;

  // Bytes of step memory that evaluating one sequence of this length needs, an upper estimate by
  // which the evaluator sizes its batches.
  int64_t evaluation_bytes_per_sequence(int64_t length) const;

 private:
  void check_fit() const;
  bool table_at(int64_t length) const;
  void check_input(const EncoderInput& input) const;
  void draw_positions(const EncoderInput& input, SequenceContext& sequence) const;
  void prepare_row_scale(PreparedInput& prepared) const;
  void prepare_masks(PreparedInput& prepared) const;
  void prepare_pooling(PreparedInput& prepared) const;

  Context& context_;
  ModelOptions options_;
  EncoderInterface interface_;
  ConfigTable encoding_config_, positions_config_;
  ParameterStore store_;
  std::unique_ptr<PositionSampler> positions_;
  std::unique_ptr<PositionalEncoding> encoding_;
  Parameter embedding_, tied_bias_;
  std::vector<std::unique_ptr<EncoderBlock>> blocks_;
  std::unique_ptr<Norm> final_norm_;  // pre-norm only
  std::unique_ptr<Linear> head_;      // unless tied
};

}  // namespace longshot
