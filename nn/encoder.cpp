// Building an encoder from config words, and running it. Preparing a batch is in
// encoder_prepare.cpp.
#include "nn/encoder.h"

#include <algorithm>
#include <cmath>

#include "core/ops.h"
#include "nn/block.h"
#include "nn/dropout.h"
#include "nn/relative.h"

namespace longshot {

namespace {

// The table with every option written out and `type` in front, for a checkpoint's metadata.
template <class Interface>
ConfigTable resolve(const ConfigTable& table, const char* what, ReadContext& read,
                    const typename Registry<Interface>::Entry*& entry) {
  const Registry<Interface>& registry = Registry<Interface>::instance();
  const ConfigValue* type = table.find("type");
  if (type == nullptr)
    throw UsageError(fmt::format("{}: {} needs a type", table.where().to_string(), what));
  entry = &registry.get(type->as_string(), what, type->where());
  read.keys_known_elsewhere = registry.foreign_keys(entry->name, what);
  read.ignore = {"type"};
  ConfigTable resolved(table.where());
  resolved.set("type", *type);
  const ConfigTable options = entry->resolve(table, read);
  for (const auto& [key, value] : options.entries()) resolved.set(key, value);
  return resolved;
}

std::string place_of(const ConfigTable& table) {
  const ConfigValue* type = table.find("type");
  return fmt::format("{} {}", type->where().to_string(), type->to_toml());
}

void check_options(const ModelOptions& options, const EncoderInterface& interface) {
  if (options.dim % options.heads != 0)
    throw UsageError(
        fmt::format("[model]: heads = {} must divide dim = {}", options.heads, options.dim));
  LONGSHOT_CHECK(interface.input_vocabulary >= 1 && interface.output_classes >= 1,
                 "encoder: {} input tokens and {} output classes; both must be at least 1",
                 interface.input_vocabulary, interface.output_classes);
  if (options.tied_head && interface.output_classes > interface.input_vocabulary)
    throw UsageError(fmt::format(
        "[model]: tied_head = true needs a row of the embedding for every output class, "
        "but the task has {} classes and {} input tokens",
        interface.output_classes, interface.input_vocabulary));
}

}  // namespace

Encoder::Encoder(Context& context, const ModelOptions& options, const ConfigTable& encoding,
                 const ConfigTable& positions, const EncoderInterface& interface, uint64_t seed)
    : context_(context), options_(options), interface_(interface), store_(context) {
  check_options(options, interface);

  ReadContext read_positions{"positions", {}, {}}, read_encoding{"encoding", {}, {}};
  const Registry<PositionSampler>::Entry* sampler_entry = nullptr;
  const Registry<PositionalEncoding>::Entry* encoding_entry = nullptr;
  positions_config_ =
      resolve<PositionSampler>(positions, "position sampler", read_positions, sampler_entry);
  encoding_config_ =
      resolve<PositionalEncoding>(encoding, "encoding", read_encoding, encoding_entry);
  positions_ = sampler_entry->create(positions, read_positions);

  const ModuleScope root(store_);
  // A linear map of a one-hot vector, so its initial deviation does not depend on the vocabulary:
  // 0.02 (Haiku's default for embeddings), times embedding_scale where that is on.
  embedding_ = root.sub("embedding")
                   .declare("weight", {interface.input_vocabulary, options.dim},
                            Initializer::truncated_normal(0.02), true);
  EncodingModel model;
  model.dim = options.dim;
  model.heads = options.heads;
  model.head_dim = options.dim / options.heads;
  model.layers = options.layers;
  model.causal = options.causal;
  model.train_length = interface.train_length;
  model.position_limit = positions_->position_limit();
  encoding_ = encoding_entry->create(encoding, read_encoding, model, root.sub("encoding"));

  const bool pre_norm = options.norm == "pre";
  for (int64_t layer = 0; layer < options.layers; ++layer)
    blocks_.push_back(std::make_unique<EncoderBlock>(root.sub(fmt::format("block.{}", layer)),
                                                     options, int(layer)));
  if (pre_norm) final_norm_ = std::make_unique<Norm>(root.sub("final_norm"), options);
  if (!options.tied_head)
    head_ = std::make_unique<Linear>(root.sub("head"), options.dim, interface.output_classes,
                                     options.head_bias);
  else if (options.head_bias)
    tied_bias_ =
        root.sub("head").declare("bias", {interface.output_classes}, Initializer::zeros(), false);
  check_fit();
  store_.place(seed);
}

Encoder::~Encoder() = default;

// What no batch could ever satisfy is refused when the model is built.
void Encoder::check_fit() const {
  const EncodingTraits traits = encoding_->traits();
  const std::string encoding = place_of(encoding_config_), sampler = place_of(positions_config_);
  if (traits.causal_only && !options_.causal)
    throw UsageError(
        fmt::format("{}: this encoding needs a causal model ([model] causal = true); it has no "
                    "meaning for keys ahead of the query",
                    encoding));
  const ConfigValue* beyond = encoding_config_.find("beyond");
  const bool strict = beyond == nullptr || !beyond->is_string() || beyond->as_string() == "error";
  if (strict && traits.capacity > 0 && positions_->position_limit() > traits.capacity)
    throw UsageError(
        fmt::format("{}: this encoding has {} positions, but {} gives positions up to {}; raise "
                    "the encoding's capacity or lower the sampler's limit",
                    encoding, traits.capacity, sampler, positions_->position_limit() - 1));
  const int64_t capacity = positions_->capacity();
  if (capacity > 0 && interface_.train_length > capacity)
    throw UsageError(fmt::format(
        "{}: training has sequences of {} tokens, but this sampler has only {} positions", sampler,
        interface_.train_length, capacity));
}

Tensor Encoder::hidden(const PreparedInput& input) {
  const SequenceContext& sequence = input.sequence;
  const double scale = options_.embedding_scale ? std::sqrt(double(options_.dim)) : 1.0;
  Tensor x = ops::embedding(input.tokens, embedding_, scale);
  x = encoding_->on_embeddings(x, sequence);
  const DropoutSpec dropout = dropout_at(context_, options_.dropout, sequence.training, -1,
                                         DropoutPlace::embeddings, sequence.length * options_.dim);
  if (dropout.p > 0) x = ops::dropout(x, dropout);

  const bool pre_norm = final_norm_ != nullptr;
  Stream stream;
  stream.normed = !pre_norm         ? x
                  : blocks_.empty() ? (*final_norm_)(x)
                                    : blocks_.front()->first_norm()(x);
  stream.sum = std::move(x);
  for (size_t i = 0; i < blocks_.size(); ++i) {
    const Norm* next = i + 1 < blocks_.size() ? &blocks_[i + 1]->first_norm() : final_norm_.get();
    stream = (*blocks_[i])(stream, input, *encoding_, next);
  }
  return stream.normed;
}

Tensor Encoder::forward(const PreparedInput& input) {
  Tensor x = hidden(input);
  const int64_t batch = input.sequence.batch, length = input.sequence.length;
  if (interface_.mean_pool) {
    x = ops::matmul(ops::reshape(input.pool_weight, {batch, 1, length}), x);
  } else if (input.outputs > 0 && input.outputs < length) {
    x = ops::slice(x, 1, input.output_begin, input.output_begin + input.outputs);
  }
  if (head_ != nullptr) return (*head_)(x);
  const Tensor& table = embedding_;
  const int64_t classes = interface_.output_classes;
  const Tensor weight = table.size(0) == classes ? table : ops::slice(table, 0, 0, classes);
  return ops::linear(x, weight, tied_bias_.declared() ? tied_bias_.tensor() : Tensor());
}

// Whether the positions of an evaluation at this length let a table over distances serve.
bool Encoder::table_at(int64_t length) const {
  if (positions_->capacity() > 0 && length > positions_->capacity()) return false;  // refused later
  return Distances::always_a_table(positions_->draw({.batch = 1, .length = length}));
}

bool Encoder::by_length() const {
  const EncodingTraits traits = encoding_->traits();
  const bool positions_matter = traits.embeddings || traits.query_key || traits.logits;
  return !options_.causal || traits.by_length || (positions_matter && positions_->by_length());
}

int64_t Encoder::most_tokens() const {
  const ConfigValue* beyond = encoding_config_.find("beyond");
  const bool strict = beyond == nullptr || !beyond->is_string() || beyond->as_string() == "error";
  // A sampler with a limit of its own was held against the encoding's capacity in check_fit().
  const int64_t encoding =
      strict && positions_->position_limit() == 0 ? encoding_->traits().capacity : 0;
  const int64_t sampler = positions_->capacity();
  return encoding > 0 && sampler > 0 ? std::min(encoding, sampler) : std::max(encoding, sampler);
}

int64_t Encoder::evaluation_bytes_per_sequence(int64_t length) const {
  // Widest moment of a block: the residual stream, query, key and value before and after rotation,
  // and what an encoding makes for every position or distance; or the feed-forward's hidden layer.
  // Measured peaks are about half of this sum.
  const int64_t width = size_of(context_.dtype());
  const int64_t per_token =
      10 * options_.dim + options_.ffn + 2 * interface_.output_classes + 8 * options_.heads;
  int64_t bytes = length * per_token * width;
  const EncodingTraits traits = encoding_->traits();
  if (traits.logits) {
    const int64_t row = MultiHeadAttention::dense_row_bytes(
        1, options_.heads, options_.dim / options_.heads, length, context_.dtype());
    // The bias and the terms it is summed from (measured: at most 3 times the bias, and once more
    // where log_n_scaling multiplies it), unless a table over distances does; and tables over all
    // distances between given positions, before and after their gather (none is made for a larger
    // limit).
    const int64_t reach = std::min<int64_t>(positions_->position_limit(), 16384);
    if (!traits.distance_table || !table_at(length))
      bytes += 5 * std::min(length * row, std::max(row, MultiHeadAttention::kDenseBytes));
    bytes += 6 * options_.heads * reach * width;
  }
  return bytes + 4096;
}

}  // namespace longshot
