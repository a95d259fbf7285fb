#include "core/cpu/attention.h"

#include "core/cpu/attention_block.h"
#include "core/parallel.h"

namespace longshot::cpu {
namespace {

template <class T, int kVectors>
void forward_block(const AttentionArgs& args, const RelativeTable<T>& relative, int64_t b,
                   int64_t h, int64_t first, int64_t rows) {
  using Block = QueryBlock<T, kVectors>;
  constexpr int64_t kWidth = Block::kWidth, kLanes = Block::kLanes;
  const AttentionShape& shape = args.shape;
  const int64_t dim = shape.head_dim;
  ScratchScope scratch;
  Block block(args, b, h, first, rows, relative, scratch);
  const int64_t key_end = block.key_end();
  T* s = scratch.allocate<T>(kKeyBlock * kLanes);
  T* keep = block.drops() ? scratch.allocate<T>(kKeyBlock * kLanes) : nullptr;
  T* out_t = scratch.allocate<T>(dim * kLanes);  // (head_dim, lanes), not yet divided by the sum
  if (key_end == 0) std::fill_n(out_t, dim * kLanes, T(0));

  Vec<T> maximum[kVectors], sum[kVectors];
  for (int v = 0; v < kVectors; ++v)
    maximum[v] = Vec<T>(kMinusInfinity<T>), sum[v] = Vec<T>::zero();

  for (int64_t j0 = 0; j0 < key_end; j0 += kKeyBlock) {
    const int64_t j1 = std::min(key_end, j0 + kKeyBlock), keys = j1 - j0;
    block.scores(j0, j1, s);

    Vec<T> top[kVectors], shift[kVectors], part[kVectors];
    for (int v = 0; v < kVectors; ++v) top[v] = maximum[v];
    for (int64_t j = 0; j < keys; ++j)
      for (int v = 0; v < kVectors; ++v)
        top[v] = max(Vec<T>::load(s + j * kLanes + v * kWidth), top[v]);
    for (int v = 0; v < kVectors; ++v) {
      // Nothing allowed so far: any finite shift keeps exp(-inf - shift) = 0.
      shift[v] = select<T>(top[v] == Vec<T>(kMinusInfinity<T>), Vec<T>::zero(), top[v]);
      part[v] = Vec<T>::zero();
    }
    for (int64_t j = 0; j < keys; ++j)
      for (int v = 0; v < kVectors; ++v) {
        T* at = s + j * kLanes + v * kWidth;
        const Vec<T> p = exp_bounded(Vec<T>::load(at) - shift[v]);
        part[v] += p;
        p.store(at);
      }
    if (keep != nullptr) {
      block.multipliers(j0, j1, keep);
      for (int64_t x = 0; x < keys * kLanes; x += kWidth)
        (Vec<T>::load(s + x) * Vec<T>::load(keep + x)).store(s + x);
    }
    if (j0 == 0) {
      for (int v = 0; v < kVectors; ++v) sum[v] = part[v];
    } else {
      Vec<T> decay[kVectors];
      for (int v = 0; v < kVectors; ++v) {
        decay[v] = exp_bounded(maximum[v] - shift[v]);
        sum[v] = fma(sum[v], decay[v], part[v]);
      }
      for (int64_t d = 0; d < dim; ++d)
        for (int v = 0; v < kVectors; ++v) {
          T* at = out_t + d * kLanes + v * kWidth;
          (Vec<T>::load(at) * decay[v]).store(at);
        }
    }
    for (int v = 0; v < kVectors; ++v) maximum[v] = top[v];
    small_product<T>(dim, kLanes, keys, block.value() + j0 * dim, dim, true, s, kLanes, out_t,
                     kLanes, T(1), j0 > 0);
  }

  const int64_t matrix = b * shape.heads + h;
  for (int v = 0; v < kVectors; ++v) {
    const auto empty = sum[v] == Vec<T>::zero();
    const Vec<T> inverse = select<T>(empty, Vec<T>::zero(), Vec<T>(T(1)) / sum[v]);
    for (int64_t d = 0; d < dim; ++d) {
      T* at = out_t + d * kLanes + v * kWidth;
      (Vec<T>::load(at) * inverse).store(at);
    }
    if (args.log_sum_exp != nullptr) {
      const Vec<T> total = select<T>(empty, Vec<T>(kMinusInfinity<T>), maximum[v] + log(sum[v]));
      T* out = static_cast<T*>(args.log_sum_exp) + matrix * shape.queries + first + v * kWidth;
      if (rows > v * kWidth) total.store_partial(out, rows - v * kWidth);
    }
  }
  T* out = static_cast<T*>(args.out) + ((b * shape.queries + first) * shape.heads + h) * dim;
  transpose_back(out_t, kLanes, rows, dim, out, shape.heads * dim, false);
}

template <class T>
void forward(const AttentionArgs& args) {
  const AttentionShape& shape = args.shape;
  const int64_t blocks = query_blocks<T>(shape.queries);
  const bool threaded = shape.batch * shape.heads * shape.queries * shape.keys > 4096;
  ScratchScope scratch;
  const RelativeTable<T> relative(args, scratch);
  parallel_for(
      shape.batch * shape.heads * blocks,
      [&](int64_t piece) {
        const int64_t matrix = piece / blocks;
        with_query_block<T>(
            shape.queries, piece % blocks, [&](auto vectors, int64_t first, int64_t rows) {
              forward_block<T, decltype(vectors)::value>(args, relative, matrix / shape.heads,
                                                         matrix % shape.heads, first, rows);
            });
      },
      threaded);
}

void check_positions(const AttentionArgs& args) {
  const AttentionShape& s = args.shape;
  const auto check = [&](int64_t low, int64_t high) {
    LONGSHOT_CHECK(low > -args.reach && (high < args.reach || args.causal),
                   "attention: relative positions {} to {} leave the bias table of reach {}", low,
                   high, args.reach);
  };
  LONGSHOT_CHECK((args.position_q == nullptr) == (args.position_k == nullptr),
                 "attention: positions of queries and of keys must be given together");
  if (args.position_q == nullptr)
    return check(-(args.query_offset + s.queries - 1), s.keys - 1 - args.query_offset);
  LONGSHOT_CHECK(args.position_batches == 1 || args.position_batches == s.batch,
                 "attention: {} rows of positions for a batch of {}", args.position_batches,
                 s.batch);
  for (int64_t b = 0; b < args.position_batches; ++b) {
    const auto q =
        std::minmax_element(args.position_q + b * s.queries, args.position_q + (b + 1) * s.queries);
    const auto k =
        std::minmax_element(args.position_k + b * s.keys, args.position_k + (b + 1) * s.keys);
    check(int64_t(*k.first) - *q.second, int64_t(*k.second) - *q.first);
  }
}

}  // namespace

void check_attention(const AttentionArgs& args) {
  const AttentionShape& s = args.shape;
  LONGSHOT_CHECK(
      s.batch >= 0 && s.heads >= 0 && s.queries >= 0 && s.keys >= 0 && s.head_dim >= 0,
      "attention: negative extent in batch {}, heads {}, queries {}, keys {}, head_dim {}", s.batch,
      s.heads, s.queries, s.keys, s.head_dim);
  LONGSHOT_CHECK(args.dtype == DType::f32 || args.dtype == DType::f64,
                 "attention: {} is not f32 or f64", name_of(args.dtype));
  if (s.batch * s.heads * s.queries == 0) return;
  LONGSHOT_CHECK(
      s.head_dim == 0 || (args.query != nullptr && args.out != nullptr &&
                          (s.keys == 0 || (args.key != nullptr && args.value != nullptr))),
      "attention: query, key, value or out is null");
  LONGSHOT_CHECK(args.dropout.p >= 0 && args.dropout.p < 1,
                 "attention: dropout {} is not in [0, 1)", args.dropout.p);
  LONGSHOT_CHECK(args.dropout.p == 0 || args.dropout.state != nullptr,
                 "attention: dropout without a step state");
  LONGSHOT_CHECK(
      args.row_scale == nullptr || args.row_scale_batches == 1 || args.row_scale_batches == s.batch,
      "attention: {} rows of row_scale for a batch of {}", args.row_scale_batches, s.batch);
  LONGSHOT_CHECK(
      args.bias_dense == nullptr || args.dense_batches == 1 || args.dense_batches == s.batch,
      "attention: dense bias with {} matrices for a batch of {}", args.dense_batches, s.batch);
  if (args.relative_key != nullptr) {
    LONGSHOT_CHECK(args.relative_heads == 1 || args.relative_heads == s.heads,
                   "attention: relative keys of {} heads, not of 1 or {}", args.relative_heads,
                   s.heads);
    LONGSHOT_CHECK(
        args.relative_reach == 0 ||
            (args.query_offset >= 0 && args.query_offset + s.queries <= args.relative_reach &&
             s.keys - args.query_offset <= args.relative_reach),
        "attention: relative keys reach distances below {}, too few for query rows {} "
        "to {} and {} keys",
        args.relative_reach, args.query_offset, args.query_offset + s.queries - 1, s.keys);
  }
  if (args.bias_table != nullptr && s.keys > 0) {
    LONGSHOT_CHECK(args.reach >= 1, "attention: bias table with reach {}", args.reach);
    check_positions(args);
  }
}

void attention(const AttentionArgs& args) {
  check_attention(args);
  if (args.dtype == DType::f32)
    forward<float>(args);
  else
    forward<double>(args);
}

}  // namespace longshot::cpu
