// A block of queries of one (batch, head): up to four vectors of them, everything transposed so
// that a vector lies along the queries. Shared by the forward and the backward pass.
//
// Scores come out as (keys, lanes): logit^T[j][i] = (scale row_scale_i q_i) . k_j + bias(i, j),
// -inf where not allowed. Lanes beyond the last query hold finite values that nobody reads.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/backend.h"
#include "core/cpu/attention_relative.h"
#include "core/cpu/random_simd.h"
#include "core/cpu/scratch.h"
#include "core/cpu/tile.h"

namespace longshot::cpu {

inline constexpr int64_t kKeyBlock = 128;

template <class T>
constexpr T kMinusInfinity = -std::numeric_limits<T>::infinity();

// Whether a row fills half a vector: two of them are then moved together.
template <class T>
constexpr bool is_narrow(int64_t columns) {
  return sizeof(T) == 4 && 2 * columns == Vec<T>::kWidth;
}

// rows x columns at `in` to out[column][row], out's rows `lanes` long (whole vectors, 0 filled).
template <class T>
void transpose_block(const T* in, int64_t ld, int64_t rows, int64_t columns, T* out,
                     int64_t lanes) {
  constexpr int64_t kWidth = Vec<T>::kWidth;
  if constexpr (sizeof(T) == 4)
    if (is_narrow<T>(columns)) {
      for (int64_t r = 0; r < lanes; r += kWidth) {
        Vec<T> a[kWidth / 2];
        const auto row = [&](int64_t i) { return i < rows ? load_half(in + i * ld) : HalfVec{}; };
#pragma GCC unroll 8
        for (int64_t i = 0; i < kWidth / 2; ++i)
          a[i] = join_halves(row(r + 2 * i), row(r + 2 * i + 1));
        transpose_narrow(a);
#pragma GCC unroll 8
        for (int64_t c = 0; c < kWidth / 2; ++c) a[c].store(out + c * lanes + r);
      }
      return;
    }
  for (int64_t r = 0; r < lanes; r += kWidth)
    for (int64_t c = 0; c < columns; c += kWidth)
      transpose_tile(in + r * ld + c, ld, std::clamp<int64_t>(rows - r, 0, kWidth),
                     std::min(kWidth, columns - c), out + c * lanes + r, lanes);
}

// The way back: in[column][row] to rows x columns at `out`, written or added to.
template <class T>
void transpose_back(const T* in, int64_t lanes, int64_t rows, int64_t columns, T* out, int64_t ld,
                    bool accumulate) {
  constexpr int64_t kWidth = Vec<T>::kWidth;
  if constexpr (sizeof(T) == 4)
    if (is_narrow<T>(columns)) {
      const auto put = [&](int64_t i, HalfVec row) {
        T* at = out + i * ld;
        if (i < rows) store_half(accumulate ? load_half(at) + row : row, at);
      };
      for (int64_t r = 0; r < rows; r += kWidth) {
        Vec<T> a[kWidth / 2];
#pragma GCC unroll 8
        for (int64_t c = 0; c < kWidth / 2; ++c) a[c] = Vec<T>::load(in + c * lanes + r);
        transpose(a);
#pragma GCC unroll 8
        for (int64_t i = 0; i < kWidth / 2; ++i) {
          put(r + 2 * i, lower_half(a[i]));
          put(r + 2 * i + 1, upper_half(a[i]));
        }
      }
      return;
    }
  alignas(64) T tile[kWidth * kWidth];
  for (int64_t r = 0; r < rows; r += kWidth)
    for (int64_t c = 0; c < columns; c += kWidth) {
      const int64_t width = std::min(kWidth, columns - c);
      transpose_tile(in + c * lanes + r, lanes, width, kWidth, tile, kWidth);
      for (int64_t i = 0; i < std::min(kWidth, rows - r); ++i) {
        T* at = out + (r + i) * ld + c;
        Vec<T> value = Vec<T>::load(tile + i * kWidth);
        if (accumulate) value += Vec<T>::load_partial(at, width);
        value.store_partial(at, width);
      }
    }
}

// The multipliers of dropout for keys [j0, j1): keep[j - j0][lane] is 0 or 1 / (1 - p).
template <class T>
void dropout_multipliers(const DropoutSpec& spec, uint64_t first_element, int64_t row_elements,
                         int64_t lanes, int64_t keys, T* keep) {
  const StepState& state = *spec.state;
  const RandomKey key{state.seed, RandomPurpose::dropout, spec.stream, state.step};
  const T scale = T(1) / (T(1) - T(spec.p));
  const uint64_t first =
      first_element + uint64_t(state.sample_offset) * uint64_t(spec.elements_per_sample);
  if constexpr (sizeof(T) == 8) {
    for (int64_t j = 0; j < keys; ++j)
      for (int64_t i = 0; i < lanes; ++i)
        keep[j * lanes + i] =
            to_unit_float(random_word(key, first + uint64_t(i * row_elements + j))) >= spec.p
                ? scale
                : 0;
  } else {
    // A number is at least p when its 24 bits are at least p 2^24: whole words are compared.
    const VecU32 least = VecU32{} + uint32_t(std::ceil(double(spec.p) * 16777216.0) * 256.0);
    for (int64_t lane = 0; lane < lanes; lane += kLanesU32) {
      // One Philox block is four neighbouring keys of a query. Where rows are not a multiple of 4
      // long, queries begin at different words of a block: `phase`.
      const auto element = [&](int i) { return first + uint64_t((lane + i) * row_elements); };
      // Every other lane in the lower halves of 64 bits.
      VecU64 even = VecU64{} + element(0), odd = VecU64{} + element(1);
      for (int i = 1; i < kLanesU32 / 2; ++i)
        even[i] += uint64_t(2 * i * row_elements), odd[i] += uint64_t(2 * i * row_elements);
      const auto both = [](VecU64 a, VecU64 b) {
        return reinterpret_cast<VecU32>((a & 0xffffffffu) | (b << 32));
      };
      const VecU32 low = both(even >> 2, odd >> 2), high = both(even >> 34, odd >> 34),
                   phase = both(even & 3, odd & 3);
      const bool aligned = ((first | uint64_t(row_elements)) & 3) == 0;
      const auto block_at = [&](uint32_t g) {
        const VecU32 sum = low + g;
        return random_blocks(key, sum, high - reinterpret_cast<VecU32>(sum < low));
      };
      const auto put = [&](int64_t j, VecU32 word) {
        const auto kept = reinterpret_cast<Vec<float>::Int>(word >= least);
        select<float>(kept, Vec<float>(scale), Vec<float>::zero()).store(keep + j * lanes + lane);
      };
      PhiloxLanes current = block_at(0);
      for (int64_t j = 0; j < keys; j += 4) {
        const int64_t count = std::min<int64_t>(4, keys - j);
        if (aligned) {
          if (j > 0) current = block_at(uint32_t(j / 4));
          for (int64_t u = 0; u < count; ++u) put(j + u, current.value[u]);
          continue;
        }
        const PhiloxLanes next = block_at(uint32_t(j / 4 + 1));
        VecU32 word[8];
        for (int u = 0; u < 4; ++u) word[u] = current.value[u], word[u + 4] = next.value[u];
        for (int64_t u = 0; u < count; ++u) {
          VecU32 w = word[u];
          for (uint32_t p = 1; p < 4; ++p) w = phase == p ? word[u + p] : w;
          put(j + u, w);
        }
        current = next;
      }
    }
  }
}

template <class T, int kVectors>
class QueryBlock {
 public:
  static constexpr int64_t kWidth = Vec<T>::kWidth;
  static constexpr int64_t kLanes = kVectors * kWidth;

  QueryBlock(const AttentionArgs& args, int64_t b, int64_t h, int64_t first, int64_t rows,
             const RelativeTable<T>& relative, ScratchScope& scratch)
      : args_(args), s_(args.shape), relative_(relative), b_(b), h_(h), first_(first), rows_(rows) {
    const int64_t matrix = b * s_.heads + h;
    query_ = static_cast<const T*>(args.query) + (matrix * s_.queries + first) * s_.head_dim;
    key_ = static_cast<const T*>(args.key) + matrix * s_.keys * s_.head_dim;
    value_ = static_cast<const T*>(args.value) + matrix * s_.keys * s_.head_dim;
    if (args.key_mask != nullptr) mask_ = args.key_mask + b * s_.keys;
    query_t_ = scratch.allocate<T>(s_.head_dim * kLanes);
    transpose_block(query_, s_.head_dim, rows, s_.head_dim, query_t_, kLanes);
    for (int64_t i = 0; i < kLanes; ++i) factor_[i] = T(args.scale);
    if (relative.used()) std::fill_n(relative_factor_, kLanes, T(args.relative_scale));
    if (args.row_scale != nullptr) {
      const T* scale = static_cast<const T*>(args.row_scale) +
                       (args.row_scale_batches == 1 ? 0 : b * s_.queries) + first;
      for (int64_t i = 0; i < rows; ++i) {
        factor_[i] = T(args.scale) * scale[i];
        relative_factor_[i] = T(args.relative_scale) * scale[i];
      }
    }
    if (relative.used()) prepare_relative(scratch);
    for (int64_t d = 0; d < s_.head_dim; ++d)
      for (int64_t i = 0; i < kLanes; i += kWidth) {
        T* at = query_t_ + d * kLanes + i;
        (Vec<T>::load(at) * Vec<T>::load(factor_ + i)).store(at);
      }
    if (args.bias_table != nullptr) prepare_table(scratch);
    if (args.bias_dense != nullptr) bias_ = scratch.allocate<T>((kKeyBlock + kWidth) * kLanes);
  }

  const T* key() const { return key_; }
  const T* value() const { return value_; }
  const T* factor() const { return factor_; }         // scale * row_scale, (kLanes)
  const T* scaled_query() const { return query_t_; }  // (head_dim, kLanes)
  int64_t first() const { return first_; }
  int64_t rows() const { return rows_; }
  int64_t element() const {  // of the (B, H, T, S) probabilities: this block's first
    return ((b_ * s_.heads + h_) * s_.queries + first_) * s_.keys;
  }
  // Keys beyond this one are not allowed for any query of the block.
  int64_t key_end() const {
    return args_.causal ? std::clamp<int64_t>(args_.query_offset + first_ + rows_, 0, s_.keys)
                        : s_.keys;
  }
  bool drops() const {
    return args_.dropout.p > 0 && args_.dropout.state != nullptr &&
           args_.dropout.state->training != 0;
  }
  void multipliers(int64_t j0, int64_t j1, T* keep) const {
    dropout_multipliers(args_.dropout, uint64_t(element() + j0), s_.keys, kLanes, j1 - j0, keep);
  }

  // Logits of keys [j0, j1), at most kKeyBlock of them, to s[j - j0][lane].
  void scores(int64_t j0, int64_t j1, T* s) {
    small_product<T>(j1 - j0, kLanes, s_.head_dim, key_ + j0 * s_.head_dim, s_.head_dim, false,
                     query_t_, kLanes, s, kLanes, T(1), false);
    if (relative_.used())
      add_relative_scores(relative_, relative_key_, s_.head_dim, j0, j1, relative_query_t_, kLanes,
                          s);
    if (args_.bias_table != nullptr) add_table(j0, j1, s);
    if (args_.bias_dense != nullptr) add_dense(j0, j1, s);
    if (mask_ != nullptr)
      for (int64_t j = j0; j < j1; ++j)
        if (mask_[j] == 0) std::fill_n(s + (j - j0) * kLanes, kLanes, kMinusInfinity<T>);
    // Query i sees key j when j <= offset + i.
    const int64_t offset = args_.query_offset + first_;
    if (args_.causal)
      for (int64_t j = std::max(j0, offset + 1); j < j1; ++j)
        std::fill_n(s + (j - j0) * kLanes, std::min(j - offset, kLanes), kMinusInfinity<T>);
  }

  // Adds gradients of the logits to those of the biases. `table` is this piece's partial table.
  void add_table_gradient(int64_t j0, int64_t j1, const T* ds, T* table);
  void add_dense_gradient(int64_t j0, int64_t j1, const T* ds, T* dense);

  const T* relative_query() const { return relative_query_t_; }  // w, (head_dim, kLanes)
  const T* relative_factor() const { return relative_factor_; }  // relative_scale * row_scale
  const T* relative_key() const { return relative_key_; }        // as RelativeTable::at

 private:
  // w = relative_factor (q + relative_bias), from the query as it still is.
  void prepare_relative(ScratchScope& scratch) {
    relative_query_t_ = scratch.allocate<T>(s_.head_dim * kLanes);
    relative_key_ = relative_.at(h_, first_);
    const T* bias = args_.relative_bias == nullptr
                        ? nullptr
                        : static_cast<const T*>(args_.relative_bias) + h_ * s_.head_dim;
    for (int64_t d = 0; d < s_.head_dim; ++d) {
      const Vec<T> added(bias == nullptr ? T(0) : bias[d]);
      for (int64_t i = 0; i < kLanes; i += kWidth)
        ((Vec<T>::load(query_t_ + d * kLanes + i) + added) * Vec<T>::load(relative_factor_ + i))
            .store(relative_query_t_ + d * kLanes + i);
    }
  }
  void prepare_table(ScratchScope& scratch) {
    table_ = static_cast<const T*>(args_.bias_table) + h_ * (2 * args_.reach - 1);
    contiguous_ = true;
    base_ = args_.reach - 1 - args_.query_offset - first_;
    if (args_.position_q != nullptr) {
      const int64_t batch = args_.position_batches == 1 ? 0 : b_;
      position_k_ = args_.position_k + batch * s_.keys;
      const int32_t* q = args_.position_q + batch * s_.queries + first_;
      for (int64_t i = 0; i < kLanes; ++i) position_q_[i] = q[std::min(i, rows_ - 1)];
      for (int64_t i = 1; i < rows_; ++i) contiguous_ = contiguous_ && q[i] == q[0] + i;
      for (int64_t j = 1; j < s_.keys; ++j)
        contiguous_ = contiguous_ && position_k_[j] == position_k_[0] + j;
      base_ = args_.reach - 1 + position_k_[0] - q[0];
    }
    if (contiguous_) slice_ = scratch.allocate<T>(kKeyBlock + kLanes + kWidth);
  }
  int64_t table_index(int64_t j, int64_t lane) const {
    return std::clamp<int64_t>(args_.reach - 1 + position_k_[j] - position_q_[lane], 0,
                               2 * args_.reach - 2);
  }
  void add_table(int64_t j0, int64_t j1, T* s) {
    if (contiguous_) {
      // table index = base + j - i: along a vector of queries it falls, so the needed piece is
      // copied in reverse, slice[x] = table[base + j1 - 1 - x], x = i + (j1 - 1 - j).
      const int64_t top = base_ + j1 - 1, size = 2 * args_.reach - 1;
      for (int64_t x = 0; x < j1 - j0 + kLanes; ++x)
        slice_[x] = top - x >= 0 && top - x < size ? table_[top - x] : T(0);
      for (int64_t j = j0; j < j1; ++j)
        for (int64_t i = 0; i < kLanes; i += kWidth) {
          T* at = s + (j - j0) * kLanes + i;
          (Vec<T>::load(at) + Vec<T>::load(slice_ + (j1 - 1 - j) + i)).store(at);
        }
      return;
    }
    for (int64_t j = j0; j < j1; ++j)
      for (int64_t i = 0; i < kLanes; i += kWidth) {
        alignas(64) int32_t index[kWidth];
        for (int64_t lane = 0; lane < kWidth; ++lane)
          index[lane] = int32_t(table_index(j, i + lane));
        T* at = s + (j - j0) * kLanes + i;
        (Vec<T>::load(at) + gather(table_, index)).store(at);
      }
  }
  int64_t dense_offset() const {
    return ((args_.dense_batches == 1 ? 0 : b_) * s_.heads + h_) * s_.queries * s_.keys +
           first_ * s_.keys;
  }
  void add_dense(int64_t j0, int64_t j1, T* s) {
    transpose_block(static_cast<const T*>(args_.bias_dense) + dense_offset() + j0, s_.keys, rows_,
                    j1 - j0, bias_, kLanes);
    for (int64_t x = 0; x < (j1 - j0) * kLanes; x += kWidth)
      (Vec<T>::load(s + x) + Vec<T>::load(bias_ + x)).store(s + x);
  }

  const AttentionArgs& args_;
  const AttentionShape& s_;
  const RelativeTable<T>& relative_;
  int64_t b_, h_, first_, rows_;
  const T* query_;
  const T* key_;
  const T* value_;
  const int32_t* mask_ = nullptr;
  T* query_t_;
  alignas(64) T factor_[kLanes];
  alignas(64) T relative_factor_[kLanes];
  const T* table_ = nullptr;
  bool contiguous_ = false;
  int64_t base_ = 0;
  const int32_t* position_k_ = nullptr;
  alignas(64) int32_t position_q_[kLanes];
  T* slice_ = nullptr;
  T* bias_ = nullptr;
  T* relative_query_t_ = nullptr;
  const T* relative_key_ = nullptr;
};

template <class T, int kVectors>
void QueryBlock<T, kVectors>::add_table_gradient(int64_t j0, int64_t j1, const T* ds, T* table) {
  if (!contiguous_) {
    for (int64_t j = j0; j < j1; ++j)
      for (int64_t i = 0; i < rows_; ++i) table[table_index(j, i)] += ds[(j - j0) * kLanes + i];
    return;
  }
  // Diagonal sums. Keys a vector's width apart touch whole, distinct vectors of their own row of
  // sums, so no load waits for a half overlapping store: row j % W, element i + (j1 - 1 - j).
  const int64_t length = kKeyBlock + kLanes + kWidth;
  ScratchScope scratch;
  T* sums = scratch.allocate<T>(kWidth * length);
  std::fill_n(sums, kWidth * length, T(0));
  for (int64_t j = j0; j < j1; ++j) {
    const int64_t x = j1 - 1 - j;
    T* row = sums + (x % kWidth) * length + x / kWidth * kWidth;
    for (int64_t i = 0; i < kLanes; i += kWidth)
      (Vec<T>::load(row + i) + Vec<T>::load(ds + (j - j0) * kLanes + i)).store(row + i);
  }
  const int64_t count = j1 - j0 + kLanes - 1, top = base_ + j1 - 1, size = 2 * args_.reach - 1;
  T* total = sums;  // row 0 needs no shift
  for (int64_t shift = 1; shift < kWidth; ++shift)
    for (int64_t x = shift; x < count; ++x) total[x] += sums[shift * length + x - shift];
  for (int64_t x = 0; x < count; ++x)
    if (top - x >= 0 && top - x < size) table[top - x] += total[x];
}

template <class T, int kVectors>
void QueryBlock<T, kVectors>::add_dense_gradient(int64_t j0, int64_t j1, const T* ds, T* dense) {
  T* out = dense + dense_offset() + j0;
  alignas(64) T tile[kWidth * kWidth];
  for (int64_t j = 0; j < j1 - j0; j += kWidth)
    for (int64_t i = 0; i < rows_; i += kWidth) {
      const int64_t keys = std::min(kWidth, j1 - j0 - j);
      transpose_tile(ds + j * kLanes + i, kLanes, keys, kWidth, tile, kWidth);
      for (int64_t r = 0; r < std::min(kWidth, rows_ - i); ++r) {
        T* at = out + (i + r) * s_.keys + j;
        (Vec<T>::load_partial(at, keys) + Vec<T>::load(tile + r * kWidth)).store_partial(at, keys);
      }
    }
}

// Cuts `queries` into blocks of nearly equal numbers of vectors and calls
// body(std::integral_constant<int, vectors>, first, rows) for block `index` of query_blocks().
template <class T>
int64_t query_blocks(int64_t queries) {
  const int64_t vectors = (queries + Vec<T>::kWidth - 1) / Vec<T>::kWidth;
  return (vectors + kMaxTileVectors - 1) / kMaxTileVectors;
}
template <class T, class Body>
void with_query_block(int64_t queries, int64_t index, const Body& body) {
  constexpr int64_t kWidth = Vec<T>::kWidth;
  const int64_t vectors = (queries + kWidth - 1) / kWidth, blocks = query_blocks<T>(queries);
  const int64_t begin = vectors * index / blocks, end = vectors * (index + 1) / blocks;
  const int64_t first = begin * kWidth, rows = std::min(queries, end * kWidth) - first;
  switch (end - begin) {
    case 1:
      return body(std::integral_constant<int, 1>{}, first, rows);
    case 2:
      return body(std::integral_constant<int, 2>{}, first, rows);
    case 3:
      return body(std::integral_constant<int, 3>{}, first, rows);
    default:
      return body(std::integral_constant<int, 4>{}, first, rows);
  }
}

}  // namespace longshot::cpu
