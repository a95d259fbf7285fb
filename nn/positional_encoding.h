// PositionalEncoding: how a model is told the order of its tokens, as a pluggable layer.
//
// Three hooks, each with a default that does nothing:
//   on_embeddings   changes the input once: sinusoidal, learned, one-hot, scalar, binary
//   on_query_key    changes query and key in every layer: rotary
//   on_logits       adds to the attention logits in every layer: ALiBi, T5, Shaw, Transformer-XL
// and prepare(), called first for every batch: host work goes there (tables for the positions at
// hand, uploads to the device), so that the hooks hold nothing but operations and a step can be
// captured and replayed.
//
// What is shared by all encodings stays outside: embedding scale, dropout, masks, 1 / sqrt(head
// width). One file adds one: nn/encodings/<name>.cpp with options, class and a RegisterType line.
// No other code knows its name.
#pragma once

#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/ops.h"
#include "core/registry.h"
#include "core/tensor.h"
#include "nn/parameter_store.h"
#include "nn/sequence_context.h"

namespace longshot {

// The model around an encoding, given to its constructor together with the place to declare
// parameters.
struct EncodingModel {
  int64_t dim = 0, heads = 0, head_dim = 0, layers = 0;
  bool causal = false;
  int64_t train_length = 0;    // longest model input met in training; 0: unknown
  int64_t position_limit = 0;  // of the sampler: positions given are below it; 0: below the length
};

struct EncodingTraits {
  bool embeddings = false, query_key = false, logits = false;  // which hooks do something
  bool relative = false;     // outputs do not change when all positions shift by a constant
  bool causal_only = false;  // refused in a bidirectional model
  // In evaluation, what a token is told depends on how many tokens follow it: a prefix alone and
  // the same prefix in a longer sequence differ, even in a causal model.
  bool by_length = false;
  bool fractional = false;  // positions other than whole numbers are meaningful
  // The logit bias depends on head and distance alone, so that one table over distances is handed
  // out wherever the positions allow it (Distances::has_table) and no dense bias.
  bool distance_table = false;
  int64_t capacity = 0;  // positions it can represent: 0 .. capacity - 1; 0: unbounded
  std::string beyond;    // what happens past the training length, in words, for `longshot list`
  // Options that may differ from those a checkpoint was trained with (rope scaling, `beyond`): they
  // do not change what the parameters mean.
  std::vector<std::string> free_options;
};

// What on_logits returns; every tensor may be undefined.
struct LogitBias {
  // bias[h, i, j] = table[h, R - 1 + p_j - p_i] with the position tensors, or j - i when those are
  // undefined (i the row's index in the whole sequence). table (H, 2R - 1), positions i32:
  // position_q (1 or B, query rows), position_k (1 or B, T).
  Tensor table, position_q, position_k;
  Tensor dense;  // (1 or B, H, query rows, T)
  // dense is a product of the query, (B, H, query rows, T) (Shaw, Transformer-XL): what multiplies
  // the query's row multiplies it too. Else it is a term of its own (ALiBi, T5) and does not scale.
  bool dense_of_query = false;
  // Products of the query too: rows of distances, or of pairs (1 or H, query rows, T, D).
  ops::RelativeKeys relative;
  Tensor row_scale;  // (1 or B, query rows): multiplies q . k / sqrt(head width)
  // Relative values (Shaw): value j gets row value_index[i, j] of relative_values (N, head_dim)
  // added; value_index (query rows, T) or (B, query rows, T) i32. The attention is composed then.
  Tensor relative_values, value_index;
};

class PositionalEncoding {
 public:
  using Arguments = std::tuple<const EncodingModel&, const ModuleScope&>;
  virtual ~PositionalEncoding() = default;
  virtual EncodingTraits traits() const = 0;

  // Throws Error naming encoding, length and capacity when positions are beyond what a bounded
  // encoding can represent and no other behaviour was chosen.
  virtual void prepare(const SequenceContext&) {}
  // x (B, T, dim), already scaled; returns the same shape.
  virtual Tensor on_embeddings(const Tensor& x, const SequenceContext&) { return x; }
  // query, key (B, H, T, head_dim)
  virtual std::pair<Tensor, Tensor> on_query_key(const Tensor& query, const Tensor& key,
                                                 const SequenceContext&, int /*layer*/) {
    return {query, key};
  }
  // query (B, H, rows, head_dim): rows [query_begin, query_begin + rows) of the sequence; key
  // (B, H, T, head_dim); both after on_query_key. Blocks of rows keep long evaluation in bounded
  // memory.
  virtual LogitBias on_logits(const Tensor& /*query*/, const Tensor& /*key*/,
                              const SequenceContext&, int /*layer*/, int64_t /*query_begin*/) {
    return {};
  }
};

}  // namespace longshot
