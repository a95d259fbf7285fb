// Backward of attention, with the softmax recomputed block by block from log_sum_exp L:
//   P_ij = exp(s_ij - L_i),  M = dropout multipliers,  O = (M P) V
//   dV_j = sum_i M_ij P_ij dO_i
//   dP_ij = M_ij (dO_i . V_j)
//   dS_ij = P_ij (dP_ij - delta_i),  delta_i = sum_j P_ij dP_ij = dO_i . O_i
//   dQ_i = f_i sum_j dS_ij K_j,  dK_j = sum_i dS_ij f_i q_i,  f_i = scale * row_scale_i
//   dbias(i, j) = dS_ij
//   relative keys, w_i = g_i (q_i + relative_bias), g_i = relative_scale row_scale_i:  dw_i = sum_j
//   dS_ij r_ij, dr_ij = dS_ij w_i, dq_i += g_i dw_i, drelative_bias = sum_i g_i dw_i
// A row with no allowed key has L = -inf; it is given L = +inf here, so that P = 0 and with it
// every gradient of that row.
#include <optional>

#include "core/cpu/attention.h"
#include "core/cpu/attention_block.h"
#include "core/cpu/attention_relative_gradient.h"
#include "core/parallel.h"

namespace longshot::cpu {
namespace {

// What one (batch, head) of the backward pass writes to.
template <class T>
struct Gradients {
  T* query = nullptr;  // (T, D) of this batch and head, or null
  T* key = nullptr;    // (S, D), already holding what is to be added to
  T* value = nullptr;
  T* table = nullptr;  // this piece's own (2 reach - 1)
  T* dense = nullptr;  // the whole array
  T* pairs =
      nullptr;  // (S, vector width) sums of dV and dK in pairs, used instead of key and value
  T* distances = nullptr;                // this piece's own sums of relative keys by distance
  PairGradient<T>* pair_sums = nullptr;  // or by pair
  T* relative_bias = nullptr;            // this piece's own (D)
  bool accumulate_query = false;
};

// (rows, head_dim) at `in` to rows padded to whole vectors; rows from `rows` to `lanes` are 0.
template <class T>
void pad_rows(const T* in, int64_t ld, int64_t rows, int64_t lanes, int64_t dim, int64_t padded,
              T* out) {
  for (int64_t i = 0; i < lanes; ++i)
    for (int64_t d = 0; d < dim; d += Vec<T>::kWidth)
      (i < rows ? Vec<T>::load_partial(in + i * ld + d, dim - d) : Vec<T>::zero())
          .store(out + i * padded + d);
}

// Narrow heads (2 D <= vector width): dV and dK side by side, element for element, in one product,
// because one alone would leave half of every vector empty. A pair (P_ij, dS_ij) is broadcast
// against the pairs (dO_i0, f_i q_i0), (dO_i1, f_i q_i1), ...:
//   sum[j] = (dV_j0, dK_j0, dV_j1, dK_j1, ...) += sum_i (P_ij, dS_ij, P_ij, ...) rows[i]
template <class T>
LONGSHOT_INLINE Vec<T> broadcast_pair(const T* pair) {
  if constexpr (sizeof(T) == 4) {
    typedef int64_t Pairs __attribute__((vector_size(kVectorBytes)));
    int64_t both;
    std::memcpy(&both, pair, sizeof both);
    return from_bits<T>(reinterpret_cast<typename Vec<T>::Int>(Pairs{} + both));
  } else {
    Vec<T> r;
    for (int i = 0; i < Vec<T>::kWidth; ++i) r.v[i] = pair[i % 2];
    return r;
  }
}
template <class T, int kRows>
void multiply_pairs(int64_t lanes, const T* pairs, const T* rows, T* sum) {
  constexpr int64_t kWidth = Vec<T>::kWidth;
  Vec<T> total[kRows];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) total[r] = Vec<T>::load(sum + r * kWidth);
  for (int64_t i = 0; i < lanes; ++i) {
    const Vec<T> row = Vec<T>::load(rows + i * kWidth);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r)
      total[r] = fma(broadcast_pair(pairs + 2 * (r * lanes + i)), row, total[r]);
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) total[r].store(sum + r * kWidth);
}
template <class T>
void add_key_value_pairs(int64_t keys, int64_t lanes, const T* pairs, const T* rows, T* sum) {
  constexpr int kRows = 10;
  int64_t j = 0;
  for (; j + kRows <= keys; j += kRows)
    multiply_pairs<T, kRows>(lanes, pairs + 2 * j * lanes, rows, sum + j * Vec<T>::kWidth);
  for (; j < keys; ++j)
    multiply_pairs<T, 1>(lanes, pairs + 2 * j * lanes, rows, sum + j * Vec<T>::kWidth);
}

template <class T, int kVectors>
void backward_block(const AttentionBackwardArgs& args, const RelativeTable<T>& relative, int64_t b,
                    int64_t h, int64_t first, int64_t rows, const Gradients<T>& g) {
  using Block = QueryBlock<T, kVectors>;
  constexpr int64_t kWidth = Block::kWidth, kLanes = Block::kLanes;
  const AttentionArgs& forward = args.forward;
  const AttentionShape& shape = forward.shape;
  const int64_t dim = shape.head_dim, padded = (dim + kWidth - 1) / kWidth * kWidth;
  ScratchScope scratch;
  Block block(forward, b, h, first, rows, relative, scratch);
  const int64_t key_end = block.key_end();

  // Output and its gradient are (B, T, H, D): rows a head apart.
  const int64_t ld = shape.heads * dim;
  const int64_t offset = ((b * shape.queries + first) * shape.heads + h) * dim;
  const T* out = static_cast<const T*>(forward.out) + offset;
  const T* dout = static_cast<const T*>(args.dout) + offset;
  T* dout_t = scratch.allocate<T>(dim * kLanes);
  T* out_t = scratch.allocate<T>(dim * kLanes);
  transpose_block(dout, ld, rows, dim, dout_t, kLanes);
  transpose_block(out, ld, rows, dim, out_t, kLanes);
  const T* query =
      static_cast<const T*>(forward.query) + ((b * shape.heads + h) * shape.queries + first) * dim;
  T* dout_rows = nullptr;  // (lanes, padded), lanes without a query are 0
  T* query_rows = nullptr;
  T* pair_rows = nullptr;
  T* pairs = nullptr;
  if (g.pairs != nullptr) {
    pair_rows = scratch.allocate<T>(kLanes * kWidth);
    pairs = scratch.allocate<T>(2 * kKeyBlock * kLanes);
    for (int64_t i = 0; i < rows; ++i)
      interleave_low(Vec<T>::load_partial(dout + i * ld, dim),
                     Vec<T>::load_partial(query + i * dim, dim) * Vec<T>(block.factor()[i]))
          .store(pair_rows + i * kWidth);
    std::fill_n(pair_rows + rows * kWidth, (kLanes - rows) * kWidth, T(0));
  } else {
    dout_rows = scratch.allocate<T>(kLanes * padded);
    query_rows = scratch.allocate<T>(kLanes * padded);
    pad_rows(dout, ld, rows, kLanes, dim, padded, dout_rows);
    pad_rows(query, dim, rows, kLanes, dim, padded, query_rows);
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t d = 0; d < padded; d += kWidth) {
        T* at = query_rows + i * padded + d;
        (Vec<T>::load(at) * Vec<T>(block.factor()[i])).store(at);
      }
  }

  Vec<T> delta[kVectors], log_sum[kVectors];
  const T* log_sum_exp =
      static_cast<const T*>(forward.log_sum_exp) + (b * shape.heads + h) * shape.queries + first;
  alignas(64) T lanes[kLanes];
  for (int64_t i = 0; i < kLanes; ++i)
    lanes[i] =
        i < rows && log_sum_exp[i] != kMinusInfinity<T> ? log_sum_exp[i] : -kMinusInfinity<T>;
  for (int v = 0; v < kVectors; ++v) {
    log_sum[v] = Vec<T>::load(lanes + v * kWidth);
    delta[v] = Vec<T>::zero();
    for (int64_t d = 0; d < dim; ++d) {
      const int64_t at = d * kLanes + v * kWidth;
      delta[v] = fma(Vec<T>::load(dout_t + at), Vec<T>::load(out_t + at), delta[v]);
    }
  }

  T* p = scratch.allocate<T>(kKeyBlock * kLanes);
  T* ds = scratch.allocate<T>(kKeyBlock * kLanes);
  T* keep = block.drops() ? scratch.allocate<T>(kKeyBlock * kLanes) : nullptr;
  T* dquery_t = out_t;  // its values are not needed any more
  if (key_end == 0) std::fill_n(dquery_t, dim * kLanes, T(0));
  T* drelative_t = nullptr;  // dw, (head_dim, lanes)
  if (relative.used() && (g.query != nullptr || g.relative_bias != nullptr)) {
    drelative_t = scratch.allocate<T>(dim * kLanes);
    std::fill_n(drelative_t, dim * kLanes, T(0));
  }
  T* relative_rows = nullptr;
  std::optional<DistanceGradient<T>> distances;
  if (g.distances != nullptr) {
    distances.emplace(kLanes, std::min(kKeyBlock, key_end), scratch);
    relative_rows = scratch.allocate<T>(kLanes * padded);
    for (int64_t i = 0; i < kLanes; i += kWidth)
      for (int64_t d = 0; d < dim; d += kWidth)
        transpose_tile(block.relative_query() + d * kLanes + i, kLanes, std::min(kWidth, dim - d),
                       kWidth, relative_rows + i * padded + d, padded);
  }

  for (int64_t j0 = 0; j0 < key_end; j0 += kKeyBlock) {
    const int64_t j1 = std::min(key_end, j0 + kKeyBlock), keys = j1 - j0;
    const T* key = block.key() + j0 * dim;
    block.scores(j0, j1, p);
    small_product<T>(keys, kLanes, dim, block.value() + j0 * dim, dim, false, dout_t, kLanes, ds,
                     kLanes, T(1), false);
    if (keep != nullptr) block.multipliers(j0, j1, keep);
    // P M and dS, side by side for pairs.
    const auto put = [&](int64_t at, Vec<T> probability, Vec<T> gradient) {
      gradient.store(ds + at);
      if (pairs == nullptr) {
        probability.store(p + at);
      } else {
        interleave_low(probability, gradient).store(pairs + 2 * at);
        interleave_high(probability, gradient).store(pairs + 2 * at + kWidth);
      }
    };
    for (int64_t j = 0; j < keys; ++j)
      for (int v = 0; v < kVectors; ++v) {
        const int64_t at = j * kLanes + v * kWidth;
        const Vec<T> probability = exp_bounded(Vec<T>::load(p + at) - log_sum[v]);
        const Vec<T> dp = Vec<T>::load(ds + at);
        if (keep == nullptr) {
          put(at, probability, probability * (dp - delta[v]));
        } else {
          const Vec<T> multiplier = Vec<T>::load(keep + at);
          put(at, probability * multiplier, probability * fma(dp, multiplier, -delta[v]));
        }
      }
    if (pairs != nullptr) {
      add_key_value_pairs(keys, kLanes, pairs, pair_rows, g.pairs + j0 * kWidth);
    } else if (g.value != nullptr)
      small_product<T>(keys, dim, kLanes, p, kLanes, false, dout_rows, padded, g.value + j0 * dim,
                       dim, T(1), true);
    if (g.key != nullptr && g.pairs == nullptr)
      small_product<T>(keys, dim, kLanes, ds, kLanes, false, query_rows, padded, g.key + j0 * dim,
                       dim, T(1), true);
    if (g.query != nullptr)
      small_product<T>(dim, kLanes, keys, key, dim, true, ds, kLanes, dquery_t, kLanes, T(1),
                       j0 > 0);
    if (distances) distances->turn(keys, ds);
    if (drelative_t != nullptr)
      add_relative_query_gradient(relative, block.relative_key(), dim, j0, j1, ds, kLanes,
                                  drelative_t);
    if (distances)
      distances->multiply(relative, forward, first, j0, relative_rows, padded, g.distances);
    if (g.pair_sums != nullptr) g.pair_sums->add(first, j0, j1, ds, block.relative_query(), kLanes);
    if (g.table != nullptr) block.add_table_gradient(j0, j1, ds, g.table);
    if (g.dense != nullptr) block.add_dense_gradient(j0, j1, ds, g.dense);
  }

  if (g.relative_bias != nullptr)
    for (int64_t d = 0; d < dim; ++d) {
      Vec<T> sum = Vec<T>::zero();
      for (int64_t i = 0; i < kLanes; i += kWidth)
        sum = fma(Vec<T>::load(drelative_t + d * kLanes + i),
                  Vec<T>::load(block.relative_factor() + i), sum);
      g.relative_bias[d] += horizontal_sum(sum);
    }
  if (g.query == nullptr) return;
  for (int64_t d = 0; d < dim; ++d)
    for (int64_t i = 0; i < kLanes; i += kWidth) {
      T* at = dquery_t + d * kLanes + i;
      Vec<T> value = Vec<T>::load(at) * Vec<T>::load(block.factor() + i);
      if (drelative_t != nullptr)
        value = fma(Vec<T>::load(block.relative_factor() + i),
                    Vec<T>::load(drelative_t + d * kLanes + i), value);
      value.store(at);
    }
  transpose_back(dquery_t, kLanes, rows, dim, g.query + first * dim, dim, g.accumulate_query);
}

template <class T>
void backward_matrix(const AttentionBackwardArgs& args, const RelativeTable<T>& relative, int64_t b,
                     int64_t h, T* table, T* distances, PairGradient<T>* pair_sums,
                     T* relative_bias) {
  const AttentionShape& shape = args.forward.shape;
  const int64_t matrix = b * shape.heads + h;
  const int64_t q_size = shape.queries * shape.head_dim, k_size = shape.keys * shape.head_dim;
  const auto part = [&](void* all, int64_t size) {
    return all == nullptr ? nullptr : static_cast<T*>(all) + matrix * size;
  };
  ScratchScope scratch;
  constexpr int64_t kWidth = Vec<T>::kWidth;
  const int64_t dim = shape.head_dim;
  const bool paired =
      sizeof(T) == 4 && 2 * dim <= kWidth && args.dkey != nullptr && args.dvalue != nullptr;
  const Gradients<T> g{part(args.dquery, q_size),
                       part(args.dkey, k_size),
                       part(args.dvalue, k_size),
                       table,
                       static_cast<T*>(args.dbias_dense),
                       paired ? scratch.allocate<T>(shape.keys * kWidth) : nullptr,
                       distances,
                       pair_sums,
                       relative_bias,
                       args.accumulate_dquery};
  if (paired) {
    std::fill_n(g.pairs, shape.keys * kWidth, T(0));
  } else {
    if (g.key != nullptr && !args.accumulate_dkey) std::fill_n(g.key, k_size, T(0));
    if (g.value != nullptr && !args.accumulate_dvalue) std::fill_n(g.value, k_size, T(0));
  }
  for (int64_t i = 0; i < query_blocks<T>(shape.queries); ++i)
    with_query_block<T>(shape.queries, i, [&](auto vectors, int64_t first, int64_t rows) {
      backward_block<T, decltype(vectors)::value>(args, relative, b, h, first, rows, g);
    });
  if (!paired) return;
  const auto put = [&](Vec<T> sum, T* at, bool accumulate) {
    if (accumulate) sum += Vec<T>::load_partial(at, dim);
    sum.store_partial(at, dim);
  };
  for (int64_t j = 0; j < shape.keys; ++j) {
    const Vec<T> pairs = Vec<T>::load(g.pairs + j * kWidth);
    put(even_lanes(pairs, pairs), g.value + j * dim, args.accumulate_dvalue);
    put(odd_lanes(pairs, pairs), g.key + j * dim, args.accumulate_dkey);
  }
}

// dtable[h] = sum over b of the partial tables, b in order.
template <class T>
void sum_tables(const AttentionBackwardArgs& args, const T* partial) {
  const AttentionShape& shape = args.forward.shape;
  const int64_t size = 2 * args.forward.reach - 1;
  T* table = static_cast<T*>(args.dbias_table);
  for (int64_t x = 0; x < shape.heads * size; x += Vec<T>::kWidth) {
    const int64_t valid = shape.heads * size - x;
    Vec<T> sum =
        args.accumulate_dbias_table ? Vec<T>::load_partial(table + x, valid) : Vec<T>::zero();
    for (int64_t b = 0; b < shape.batch; ++b)
      sum += Vec<T>::load_partial(partial + b * shape.heads * size + x, valid);
    sum.store_partial(table + x, valid);
  }
}

template <class T>
void backward(const AttentionBackwardArgs& args) {
  const AttentionShape& shape = args.forward.shape;
  const int64_t matrices = shape.batch * shape.heads;
  const int64_t table_size = args.forward.bias_table == nullptr ? 0 : 2 * args.forward.reach - 1;
  const bool has_table = args.dbias_table != nullptr && args.forward.bias_table != nullptr;
  const bool has_dense = args.dbias_dense != nullptr && args.forward.bias_dense != nullptr;
  if (has_dense && !args.accumulate_dbias_dense)
    std::fill_n(static_cast<T*>(args.dbias_dense),
                args.forward.dense_batches * shape.heads * shape.queries * shape.keys, T(0));
  ScratchScope scratch;
  const RelativeTable<T> relative(args.forward, scratch);
  const bool has_relative = args.drelative_key != nullptr && relative.used();
  const bool has_relative_bias = args.drelative_bias != nullptr && relative.used();
  if (!relative.used() && args.forward.relative_key != nullptr) {  // no keys: nothing to sum
    const AttentionArgs& f = args.forward;
    const int64_t rows = f.relative_reach > 0 ? 2 * f.relative_reach - 1 : 0;
    if (args.drelative_key != nullptr && !args.accumulate_drelative_key)
      std::fill_n(static_cast<T*>(args.drelative_key), f.relative_heads * rows * shape.head_dim,
                  T(0));
    if (args.drelative_bias != nullptr && !args.accumulate_drelative_bias)
      std::fill_n(static_cast<T*>(args.drelative_bias), shape.heads * shape.head_dim, T(0));
  }
  const RelativeParts relative_cut = relative_parts(args.forward);
  const int64_t chunks = relative_cut.chunks, relative_size = relative.gradient_size();
  T* tables = has_table ? scratch.allocate<T>(matrices * table_size) : nullptr;
  T* relative_keys =
      has_relative ? scratch.allocate<T>(shape.heads * chunks * relative_size) : nullptr;
  T* relative_biases = has_relative_bias ? scratch.allocate<T>(matrices * shape.head_dim) : nullptr;
  const auto matrix = [&](int64_t b, int64_t h, T* distances, PairGradient<T>* pair_sums) {
    const int64_t index = b * shape.heads + h;
    T* table = has_table ? tables + index * table_size : nullptr;
    if (table != nullptr) std::fill_n(table, table_size, T(0));
    T* bias = has_relative_bias ? relative_biases + index * shape.head_dim : nullptr;
    if (bias != nullptr) std::fill_n(bias, shape.head_dim, T(0));
    backward_matrix<T>(args, relative, b, h, table, distances, pair_sums, bias);
  };
  const bool threaded = matrices * shape.queries * shape.keys > 4096;
  const bool shared_dense = has_dense && args.forward.dense_batches == 1;
  const auto batch_of = [&](int64_t chunk) { return shape.batch * chunk / chunks; };
  if (has_relative && relative_cut.all_heads && !shared_dense) {
    parallel_for(
        chunks,
        [&](int64_t chunk) {
          const auto sums = [&](int64_t h) {
            return relative_keys + (h * chunks + chunk) * relative_size;
          };
          for (int64_t h = 0; h < shape.heads; ++h) std::fill_n(sums(h), relative_size, T(0));
          for (int64_t b = batch_of(chunk); b < batch_of(chunk + 1); ++b)
            for (int64_t h = 0; h < shape.heads; ++h) matrix(b, h, sums(h), nullptr);
        },
        threaded);
  } else if (shared_dense || has_relative) {
    // A batch adds to one gradient: a piece is a head and a part of the batch, in order. A dense
    // gradient is added to in place, so there a piece is all of the batch.
    const int64_t parts = shared_dense ? 1 : chunks;
    parallel_for(
        shape.heads * parts,
        [&](int64_t piece) {
          const int64_t h = piece / parts, part = piece % parts;
          for (int64_t chunk = part * chunks / parts; chunk < (part + 1) * chunks / parts;
               ++chunk) {
            ScratchScope own;
            T* sums = nullptr;
            std::optional<PairGradient<T>> pair_sums;
            if (has_relative) {
              sums = relative_keys + (h * chunks + chunk) * relative_size;
              std::fill_n(sums, relative_size, T(0));
              if (relative.pairs()) pair_sums.emplace(relative, args.forward, sums, own);
            }
            for (int64_t b = batch_of(chunk); b < batch_of(chunk + 1); ++b)
              matrix(b, h, pair_sums ? nullptr : sums, pair_sums ? &*pair_sums : nullptr);
            if (pair_sums) pair_sums->flush();
          }
        },
        threaded);
  } else {
    parallel_for(
        matrices,
        [&](int64_t piece) { matrix(piece / shape.heads, piece % shape.heads, nullptr, nullptr); },
        threaded);
  }
  if (has_table) sum_tables(args, tables);
  if (has_relative) sum_relative_keys(args, relative, chunks, relative_keys);
  if (has_relative_bias) sum_relative_bias(args, relative_biases);
}

}  // namespace

void attention_backward(const AttentionBackwardArgs& args) {
  check_attention(args.forward);
  const AttentionShape& s = args.forward.shape;
  if (s.batch * s.heads * s.queries * s.head_dim > 0)
    LONGSHOT_CHECK(args.dout != nullptr && args.forward.log_sum_exp != nullptr,
                   "attention backward: dout or log_sum_exp is null");
  if (args.forward.dtype == DType::f32)
    backward<float>(args);
  else
    backward<double>(args);
}

}  // namespace longshot::cpu
