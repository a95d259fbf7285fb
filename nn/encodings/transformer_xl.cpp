// transformer_xl: content and position scored apart (Dai et al. 2019), here for both directions:
//   logit_ij = [(q_i + u) . k_j + (q_i + v) . W R(p_i - p_j)] / sqrt(head width)
//   R(d) = [sin(d f_t) .. | cos(d f_t) ..], f_t = base^(-2t / width): all sines, then all cosines
// Sign: R takes query minus key, positive for keys before the query. u, v (heads, head width) and W
// (heads * head width, width), without bias, are per layer; width is dim, rounded up to even.
//
// W R goes to the attention as relative keys (core/ops.h). Positions that step alike (or drawn
// distances) need 2T - 1 rows of it; others that the batch shares have a row for each pair in
// training, while those are few. For the rest the angle sum sin(a - b), cos(a - b) turns the score
// into a product of W^T (q + v), rotated by the query's angles, with each key's own sines and
// cosines; no table over distances is needed.
#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <vector>

#include "core/context.h"
#include "core/ops.h"
#include "nn/angle_rows.h"
#include "nn/relative.h"

namespace longshot {
namespace {

constexpr const char* kName = "transformer_xl";

struct TransformerXlOptions {
  double base = 10000;
  int64_t clamp = 0;
  double deviation = 0.02;
  void fields(FieldVisitor& visit) {
    visit.field("base", base, "of the sinusoid of distances", above(0));
    visit.field("clamp", clamp, "distances beyond it count as this; 0: not clamped", at_least(0));
    visit.field("deviation", deviation, "standard deviation of the initial u and v", at_least(0));
  }
};

class TransformerXl final : public PositionalEncoding {
 public:
  TransformerXl(const TransformerXlOptions& options, const EncodingModel& model,
                const ModuleScope& scope)
      : clamp_(options.clamp),
        heads_(model.heads),
        head_dim_(model.head_dim),
        width_(model.dim + model.dim % 2),
        scale_(1 / std::sqrt(double(model.head_dim))) {
    std::vector<double> frequencies;
    for (int64_t t = 0; t < width_ / 2; ++t)
      frequencies.push_back(std::pow(options.base, -2.0 * double(t) / double(width_)));
    waves_ = AngleRows(frequencies);
    for (int64_t layer = 0; layer < model.layers; ++layer) {
      const ModuleScope at = scope.sub(fmt::format("layer.{}", layer));
      const Initializer small = Initializer::normal(options.deviation);
      layers_.push_back(
          {at.declare("content_bias", {heads_, head_dim_}, small, false),
           at.declare("position_bias", {heads_, head_dim_}, small, false),
           at.declare("position.weight", {heads_ * head_dim_, width_},
                      Initializer::truncated_normal(1 / std::sqrt(double(width_))), true)});
    }
  }

  EncodingTraits traits() const override {
    EncodingTraits traits;
    traits.query_key = true;
    traits.logits = true;
    traits.relative = true;
    traits.fractional = clamp_ == 0;
    traits.beyond = clamp_ > 0
                        ? fmt::format("runs; distances beyond {} count as {}", clamp_, clamp_)
                        : "runs; the sinusoid of distances never seen in training";
    traits.free_options = {"clamp"};
    return traits;
  }

  void prepare(const SequenceContext& context) override {
    distances_ = distances_of_layers(context);
    prepared_.clear();
    for (const Distances& distances : distances_) prepared_.push_back(prepare(context, distances));
  }

  // (q + u) . k is the attention's own product, of a query that has u added.
  std::pair<Tensor, Tensor> on_query_key(const Tensor& query, const Tensor& key,
                                         const SequenceContext&, int layer) override {
    return {ops::add(query, each_row(layers_[size_t(layer)].content_bias, query.size(2))), key};
  }

  LogitBias on_logits(const Tensor& query, const Tensor&, const SequenceContext& context, int layer,
                      int64_t query_begin) override {
    const Layer& parameters = layers_[size_t(layer)];
    const Distances& distances = of_layer(distances_, layer);
    const Prepared& prepared = of_layer(prepared_, layer);
    const int64_t rows = query.size(2);
    // query holds q + u.
    const Tensor change = ops::sub(parameters.position_bias, parameters.content_bias);
    LogitBias bias;
    if (prepared.shared) {
      const Tensor projected =
          ops::linear_heads(prepared.table, parameters.weight, Tensor(), 1, heads_)[0];
      bias.relative = {relative_key_rows(projected, heads_, distances, query_begin, rows), change,
                       scale_};
      return bias;
    }
    bias.dense_of_query = true;
    const Tensor with_v = ops::add(query, each_row(change, rows));
    if (!prepared.table.defined()) {
      bias.dense = by_rotation(with_v, parameters, prepared, query_begin);
      return bias;
    }
    // (1 or B, H, distances, D)
    const Tensor rows_of_r =
        ops::linear_heads(prepared.table, parameters.weight, Tensor(), 1, heads_)[0];
    const Tensor scores = scores_by_distance(with_v, rows_of_r);
    if (distances.pattern() == Distances::Pattern::toeplitz) {
      bias.dense = ops::relative_shift(scores, context.length, query_begin);
    } else {
      const Tensor index = prepared.index.defined() && rows == context.length
                               ? prepared.index
                               : clamped_index(*context.context, distances, query_begin, rows);
      bias.dense = ops::gather(scores, index);
    }
    return bias;
  }

 private:
  struct Layer {
    Parameter content_bias, position_bias, weight;  // u, v, W
  };
  // Either a table of R by distance or by pair for the whole batch; or one by distance (and, unless
  // it is toeplitz, which row each pair takes); or the angles of queries and sinusoids of keys.
  struct Prepared {
    bool shared = false;
    Tensor table;         // (1 or B, distances or T * T, width)
    Tensor index;         // (T, T) or (B, T, T) i32
    Tensor cosine, sine;  // (1 or B, T, width / 2)
    Tensor key_code;      // (1 or B, T, width): [-sin | cos]
  };

  Prepared prepare(const SequenceContext& context, const Distances& distances) {
    Prepared result;
    Context& memory = *context.context;
    const int64_t length = distances.length();
    const bool toeplitz = distances.pattern() == Distances::Pattern::toeplitz;
    result.shared = distances.has_relative_keys(width_) && (toeplitz || context.training);
    if (result.shared && !toeplitz) {
      const std::vector<double> pairs =
          over_pairs<double>(distances, 0, length, [](double distance) { return distance; });
      result.table = table(memory, pairs, 1);
    } else if (toeplitz) {
      result.table = table(memory, distances.columns(), distances.batches());
    } else if (clamp_ > 0) {
      std::vector<double> columns;
      for (int64_t distance = -clamp_; distance <= clamp_; ++distance)
        columns.push_back(double(distance));
      result.table = table(memory, columns, 1);
      if (context.training) result.index = clamped_index(memory, distances, 0, distances.length());
    } else {
      const int64_t half = width_ / 2, count = int64_t(distances.values().size());
      std::vector<double> cosine(size_t(count * half)), sine(cosine.size());
      std::vector<double> code(2 * cosine.size());
      for (int64_t row = 0; row < count; ++row) {
        waves_.write(distances.values()[size_t(row)], cosine.data() + row * half,
                     sine.data() + row * half);
        for (int64_t t = 0; t < half; ++t) {
          code[size_t(row * width_ + t)] = -sine[size_t(row * half + t)];
          code[size_t(row * width_ + half + t)] = cosine[size_t(row * half + t)];
        }
      }
      const int64_t batches = distances.batches();
      result.cosine = memory.from_doubles(cosine, {batches, length, half});
      result.sine = memory.from_doubles(sine, {batches, length, half});
      result.key_code = memory.from_doubles(code, {batches, length, width_});
    }
    return result;
  }

  // Column c holds key minus query; R is of query minus key.
  Tensor table(Context& memory, const std::vector<double>& columns, int64_t batches) {
    const int64_t half = width_ / 2, count = int64_t(columns.size());
    const double limit = clamp_ > 0 ? double(clamp_) : HUGE_VAL;
    std::vector<double> rows(size_t(count * width_)), cosine(static_cast<size_t>(half));
    for (int64_t c = 0; c < count; ++c) {
      double* row = rows.data() + c * width_;
      waves_.write(std::clamp(-columns[size_t(c)], -limit, limit), cosine.data(), row);
      std::copy(cosine.begin(), cosine.end(), row + half);
    }
    return memory.from_doubles(rows, {batches, count / batches, width_}, Lifetime::step,
                               "sinusoid of distances");
  }

  Tensor clamped_index(Context& memory, const Distances& distances, int64_t begin,
                       int64_t rows) const {
    const double limit = double(clamp_);
    return upload_pairs(memory, distances, rows,
                        over_pairs<int32_t>(distances, begin, rows, [limit](double distance) {
                          return int32_t(std::clamp(distance, -limit, limit) + limit);
                        }));
  }

  // (H, D) to (H, rows, D), to be added to each sequence.
  static Tensor each_row(const Tensor& x, int64_t rows) {
    return ops::transpose(ops::repeat_rows(x, rows), 0, 1);
  }

  // x (B, H, rows, D) times each head's matrix (H, N, D), transposed, to (H, B, rows, N): one
  // product a head for the whole batch.
  static Tensor times_head_matrix(const Tensor& x, const Tensor& matrix, bool transpose,
                                  double alpha) {
    const int64_t batch = x.size(0), heads = x.size(1), rows = x.size(2);
    const Tensor by_head = ops::reshape(ops::transpose(x, 0, 1), {heads, batch * rows, x.size(3)});
    const Tensor product = ops::matmul(by_head, matrix, {false, transpose, alpha});
    return ops::reshape(product, {heads, batch, rows, product.size(2)});
  }

  // x (B, H, rows, D), rows_of_r (1 or B, H, N, D) to (B, H, rows, N).
  Tensor scores_by_distance(const Tensor& x, const Tensor& rows_of_r) const {
    if (rows_of_r.size(0) == x.size(0)) return ops::matmul(x, rows_of_r, {false, true, scale_});
    const Tensor matrix = ops::reshape(rows_of_r, {heads_, rows_of_r.size(2), head_dim_});
    return ops::transpose(times_head_matrix(x, matrix, true, scale_), 0, 1);
  }

  // With z = W^T (q + v) = [z_s | z_c] and angles a of the query, b of the key,
  //   z . R = sum_t z_s sin(a - b) + z_c cos(a - b)
  //         = sum_t -(z_s cos a - z_c sin a) sin b + (z_c cos a + z_s sin a) cos b,
  // the brackets being z rotated by a.
  Tensor by_rotation(const Tensor& with_v, const Layer& parameters, const Prepared& prepared,
                     int64_t query_begin) const {
    const int64_t batch = with_v.size(0), rows = with_v.size(2), length = prepared.key_code.size(1);
    const Tensor weight = ops::reshape(parameters.weight, {heads_, head_dim_, width_});
    const Tensor z = ops::transpose(times_head_matrix(with_v, weight, false, scale_), 0, 1);
    const auto block = [&](const Tensor& x) {
      return rows == length ? x : ops::slice(x, 1, query_begin, query_begin + rows);
    };
    const Tensor turned =
        ops::rotate(z, block(prepared.cosine), block(prepared.sine), {width_, true});
    const Tensor& code = prepared.key_code;
    if (code.size(0) == 1)
      return ops::matmul(turned, ops::reshape(code, {length, width_}), {false, true, 1.0});
    const Tensor merged = ops::reshape(turned, {batch, heads_ * rows, width_});
    return ops::reshape(ops::matmul(merged, code, {false, true, 1.0}),
                        {batch, heads_, rows, length});
  }

  int64_t clamp_, heads_, head_dim_, width_;
  double scale_;
  AngleRows waves_;
  std::vector<Layer> layers_;
  std::vector<Distances> distances_;
  std::vector<Prepared> prepared_;  // by drawn positions
};

const RegisterType<PositionalEncoding, TransformerXl, TransformerXlOptions> kRegister{
    kName, "content and position scored apart by a sinusoid of distance (Dai et al. 2019)"};

}  // namespace
}  // namespace longshot
