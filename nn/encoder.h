// Encoder: tokens -> embedding -> stack of blocks -> head. Bidirectional, or causal by a mask.
//
//   x = scale * E[token]                                    scale 1 or sqrt(dim)
//   x = dropout(encoding.on_embeddings(x))
//   post-norm block:  x = norm(x + dropout(attention(x)));  x = norm(x + dropout(ffn(x)))
//   pre-norm block:   x = x + dropout(attention(norm(x)));  x = x + dropout(ffn(norm(x))); one norm at the end
//   logits = head(x at the positions asked for)
//
// Vaswani et al. 2017; pre-norm after Xiong et al. 2020.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/config.h"
#include "core/context.h"
#include "core/tensor.h"
#include "nn/model_options.h"
#include "nn/parameter_store.h"
#include "nn/position_sampler.h"
#include "nn/positional_encoding.h"
#include "nn/sequence_context.h"

namespace longshot {

// What the task asks of the model.
struct EncoderInterface {
  int64_t input_vocabulary = 0;
  int64_t output_classes = 0;
  bool mean_pool = false;    // one prediction a sequence, from the mean over its real tokens
  int64_t train_length = 0;  // longest model input met in training, placeholders included; 0: unknown
};

// One batch in host memory. Spans are only read during prepare().
struct EncoderInput {
  int64_t batch = 0, length = 0;
  std::span<const int32_t> tokens;   // (batch, length)
  std::span<const int32_t> lengths;  // (batch): real tokens of each row; empty: all `length`
  bool left_padded = false;          // padding stands before the tokens instead of after
  int64_t output_begin = 0;          // predictions at positions [begin, begin + outputs) of every row
  int64_t outputs = 0;               // 0: every position; ignored when mean_pool
  bool training = false;
  uint64_t seed = 0;
  uint32_t step = 0;
  int64_t first_sample = 0;          // see PositionRequest
};

// A batch on the device: everything forward() needs. Lives within one StepScope.
struct PreparedInput {
  SequenceContext sequence;
  Tensor tokens;                          // (batch, length) i32
  int64_t output_begin = 0, outputs = 0;  // outputs 0: every position
  Tensor row_scale;                       // (1 or batch, length): ln n, when log_n_scaling
  Tensor pool_weight;                     // (batch, length): 1 / real length, 0 on padding, when mean_pool
};

class Encoder {
 public:
  // `encoding` and `positions` are the config tables [encoding] and [positions] with their `type`. Declares
  // all parameters and places them with `seed`. Mistakes throw UsageError with their place.
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
  // Everything needed to build this model again, for a checkpoint's metadata: resolved, with `type`.
  const ConfigTable& encoding_config() const { return encoding_config_; }
  const ConfigTable& positions_config() const { return positions_config_; }

  // Host work and uploads for a batch; call inside a StepScope, before forward().
  PreparedInput prepare(const EncoderInput& input);
  // Hidden states after the last block (and final norm): (B, T, dim).
  Tensor hidden(const PreparedInput& input);
  // (B, outputs, classes), or (B, 1, classes) when mean_pool.
  Tensor forward(const PreparedInput& input);

  // Bytes of step memory that evaluating one sequence of this length needs, an upper estimate by which
  // the evaluator sizes its batches.
  int64_t evaluation_bytes_per_sequence(int64_t length) const;

 private:
  class Block;
  Context& context_;
  ModelOptions options_;
  EncoderInterface interface_;
  ConfigTable encoding_config_, positions_config_;
  ParameterStore store_;
  std::unique_ptr<PositionSampler> positions_;
  std::unique_ptr<PositionalEncoding> encoding_;
  std::vector<std::unique_ptr<Block>> blocks_;
  Parameter embedding_, final_gain_, final_bias_, head_weight_, head_bias_;
};

}  // namespace longshot
