#include "core/cpu/gemm.h"

#include <algorithm>

#include "core/cpu/gemm_epilogue.h"
#include "core/cpu/panels.h"
#include "core/cpu/scratch.h"
#include "core/cpu/tile.h"
#include "core/parallel.h"

namespace longshot::cpu {
namespace {

constexpr int64_t kInnerBlock = 256;        // inner extent of one pass over a tile
constexpr int64_t kColumnBlock = 512;       // columns of one task: its part of packed B stays in L2
constexpr int64_t kTilesPerTask = 8;        // row tiles of one task
constexpr int64_t kPackedBlock = 1 << 19;   // bytes of packed B that one column block may have
constexpr int64_t kPackedLimit = 32 << 20;  // bytes of packed B at a time
constexpr int64_t kInPlaceInner = 128;      // inner extent of one pass over unpacked operands
constexpr int64_t kPackRows = 32;           // rows of B packed by one task

int64_t divide_up(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

template <class T>
struct Product {
  int64_t rows, columns, inner;
  bool transpose_a, transpose_b;
  const T* a;
  const T* b;
  T* c;
  int64_t lda, ldb, ldc;
  T alpha;
  bool accumulate;
  Epilogue<T> epilogue;

  const T* a_at(int64_t row, int64_t k) const {
    return transpose_a ? a + k * lda + row : a + row * lda + k;
  }
  const T* b_at(int64_t k, int64_t column) const {
    return transpose_b ? b + column * ldb + k : b + k * ldb + column;
  }
};

template <class T>
void pack(const Product<T>& p, const Panels<T>& panels, int64_t k0, T* packed, bool threaded) {
  const RightOperand<T> right{p.b, p.ldb, p.transpose_b};
  if (p.transpose_b) {
    parallel_for(
        panels.count(), [&](int64_t panel) { pack_panel(right, panels, panel, k0, packed); },
        threaded);
  } else {
    parallel_for(
        divide_up(panels.inner, kPackRows),
        [&](int64_t piece) {
          pack_rows(right, panels, piece * kPackRows,
                    std::min((piece + 1) * kPackRows, panels.inner), k0, packed);
        },
        threaded);
  }
}

// One task's part of A, tile by tile: in place, or copied to where neighbours do not collide in the
// cache.
template <class T>
class RowBlock {
 public:
  RowBlock(const Product<T>& p, int64_t first_row, int64_t rows, ScratchScope& scratch)
      : p_(p),
        tiles_(divide_up(rows, tile_rows(2))),  // at most kTilesPerTask
        // 14 rows a multiple of 4 KiB apart fall into the same sets of a first-level cache.
        packs_(p.transpose_a || (p.lda * int64_t(sizeof(T))) % 4096 == 0) {
    if (packs_) buffer_ = scratch.allocate<T>((p.transpose_a ? tiles_ : 1) * kTileStride * kStride);
    for (int64_t t = 0; t <= tiles_; ++t) row_[t] = first_row + rows * t / tiles_;
  }
  int64_t tiles() const { return tiles_; }
  int64_t row(int64_t tile) const { return row_[tile]; }
  int64_t height(int64_t tile) const { return row(tile + 1) - row(tile); }

  // The inner range of the tiles that follow.
  void select(int64_t k0, int64_t inner) {
    k0_ = k0;
    inner_ = inner;
    if (!p_.transpose_a) return;
    // To [k][kTileStride]. Whole vectors, beyond a tile's rows too, as long as they lie in the
    // matrix.
    int64_t whole = 0;
    while (whole < tiles_ && row(whole) + kTileStride <= p_.rows) ++whole;
    for (int64_t k = 0; k < inner; ++k) {
      const T* from = p_.a_at(0, k0 + k);
      T* to = buffer_ + k * kTileStride;
      for (int64_t t = 0; t < whole; ++t, to += kTileStride * kStride)
        for (int64_t r = 0; r < kTileStride; r += Vec<T>::kWidth)
          Vec<T>::load(from + row_[t] + r).store(to + r);
      for (int64_t t = whole; t < tiles_; ++t, to += kTileStride * kStride)
        for (int64_t r = 0; r < kTileStride; r += Vec<T>::kWidth)
          Vec<T>::load_partial(from + row_[t] + r, std::max<int64_t>(0, p_.rows - row_[t] - r))
              .store(to + r);
    }
  }
  // Valid until the next call.
  const T* tile(int64_t t) {
    if (p_.transpose_a) return buffer_ + t * kTileStride * kStride;
    if (!packs_) return p_.a_at(row(t), k0_);
    for (int64_t r = 0; r < height(t); ++r) {  // to [height][kStride]
      const T* from = p_.a_at(row(t) + r, k0_);
      T* to = buffer_ + r * kStride;
      for (int64_t k = 0; k < inner_; k += Vec<T>::kWidth)
        Vec<T>::load_partial(from + k, inner_ - k).store_partial(to + k, inner_ - k);
    }
    return buffer_;
  }
  int64_t leading() const { return !packs_ ? p_.lda : p_.transpose_a ? kTileStride : kStride; }

  // What is read after tile t: the next tile's rows; then the first tile's of the inner range that
  // begins at next_k0, or of the rows below when that is the first range again.
  FetchAhead<T> after(int64_t t, int64_t next_k0) const {
    if (p_.transpose_a) return {};
    int64_t first = row(t + 1), k0 = k0_;
    if (t + 1 == tiles_) {
      k0 = next_k0;
      if (k0 > k0_) first = row(0);
    }
    const int64_t rows = std::min(height(0), p_.rows - first);
    return {p_.a_at(first, k0), rows, std::min(inner_, p_.inner - k0), p_.lda};
  }

 private:
  static constexpr int64_t kTileStride =  // rows of a tile, in whole vectors
      (tile_rows(2) + Vec<T>::kWidth - 1) / Vec<T>::kWidth * Vec<T>::kWidth;
  static constexpr int64_t kStride = kInnerBlock + Vec<T>::kWidth;

  const Product<T>& p_;
  int64_t tiles_;
  int64_t row_[kTilesPerTask + 1];  // where each tile begins
  bool packs_;
  T* buffer_ = nullptr;
  int64_t k0_ = 0, inner_ = 0;
};

// Rows x panels of c for the inner range [k0, k0 + panels.inner), whose B is in `packed`.
template <class T>
void multiply_block(const Product<T>& p, const Panels<T>& panels, const T* packed, int64_t k0,
                    int64_t first_row, int64_t rows, int64_t first_panel, int64_t last_panel) {
  ScratchScope scratch;
  RowBlock<T> block(p, first_row, rows, scratch);
  const int64_t blocks = std::max<int64_t>(1, divide_up(panels.inner, kInnerBlock));
  for (int64_t i = 0; i < blocks; ++i) {
    const int64_t begin = panels.inner * i / blocks, end = panels.inner * (i + 1) / blocks;
    block.select(k0 + begin, end - begin);
    const bool accumulate = p.accumulate || k0 + begin > 0;
    const bool last = k0 + end == p.inner;
    for (int64_t t = 0; t < block.tiles(); ++t) {
      const int64_t row = block.row(t), height = block.height(t);
      const T* a = block.tile(t);
      const FetchAhead<T> next = block.after(t, i + 1 < blocks ? k0 + end : k0);
      for (int64_t panel = first_panel; panel < last_panel; ++panel) {
        const int64_t vectors = panels.vectors(panel), ld = vectors * Vec<T>::kWidth;
        const int64_t column = panel * Panels<T>::kPanel;
        tile_kernel<T>(height, vectors, p.transpose_a)(
            end - begin, a, block.leading(), packed + panels.offset(panel) + begin * ld, ld,
            p.c + row * p.ldc + column, p.ldc, p.alpha, accumulate,
            std::min(ld, p.columns - column),
            next.part(panel - first_panel, last_panel - first_panel));
      }
      if (last) {
        const int64_t column = first_panel * Panels<T>::kPanel;
        finish(p.epilogue, p.c, p.ldc, row, column, height,
               std::min(last_panel * Panels<T>::kPanel, p.columns) - column);
      }
    }
  }
}

template <class T>
void multiply(const Product<T>& p, bool parallel) {
  const int64_t panel_count = divide_up(p.columns, Panels<T>::kPanel);
  const int64_t row_tiles = divide_up(p.rows, tile_rows(2));
  int64_t column_blocks = divide_up(p.columns, kColumnBlock);

  // Chunks of the inner dimension: a column block's part of packed B stays in the L2 cache.
  const int64_t padded = panel_count * Panels<T>::kPanel * int64_t(sizeof(T));
  const int64_t bytes = std::min(kPackedBlock * column_blocks, kPackedLimit);
  const int64_t chunk = std::max<int64_t>(1, bytes / padded / kInnerBlock) * kInnerBlock;
  const int64_t chunks = std::max<int64_t>(1, divide_up(p.inner, chunk));

  int64_t tiles_per_task = kTilesPerTask;
  if (parallel) {  // few tasks: cut finer for balance
    if (row_tiles * column_blocks < 24)
      column_blocks = std::min(panel_count, divide_up(24, row_tiles));
    tiles_per_task = std::clamp<int64_t>(row_tiles * column_blocks / 16, 1, kTilesPerTask);
  }
  int64_t row_blocks = divide_up(row_tiles, tiles_per_task);
  if (row_blocks > 4) row_blocks = divide_up(row_blocks, 4) * 4;  // equal shares for 2 or 4 threads
  // Below about 50 us of work a barrier costs more than a second thread brings.
  const bool threaded = parallel && p.rows * p.columns * std::max<int64_t>(p.inner, 8) > (1 << 21);

  for (int64_t i = 0; i < chunks; ++i) {
    ScratchScope scratch;
    const int64_t k0 = p.inner * i / chunks;
    const Panels<T> panels{p.columns, p.inner * (i + 1) / chunks - k0};
    T* packed = scratch.allocate<T>(panels.elements());
    pack(p, panels, k0, packed, threaded && panels.elements() > 65536);
    parallel_for(
        row_blocks * column_blocks,
        [&](int64_t task) {
          // Column blocks outermost: a thread's consecutive tasks share their part of B.
          const int64_t column_block = task / row_blocks, row_block = task % row_blocks;
          const int64_t first = p.rows * row_block / row_blocks;
          const int64_t last = p.rows * (row_block + 1) / row_blocks;
          multiply_block(p, panels, packed, k0, first, last - first,
                         panel_count * column_block / column_blocks,
                         panel_count * (column_block + 1) / column_blocks);
        },
        threaded);
  }
}

// Long inner dimension, small result: pieces of the inner dimension, each alone on a thread.
template <class T>
bool splits_inner(const Product<T>& p) {
  return p.inner >= 1024 && p.rows * p.columns <= (1 << 17) &&
         p.inner >= 4 * std::min(p.rows, p.columns);
}

// a^T b with both operands where they lie: each k gives a row of a and a row of b, so nothing is
// gained by packing, which would cost as much as reading them from memory does. A block of b's rows
// stays in the caches for all row tiles, and meanwhile the next block's rows of both are fetched,
// those beyond the inner range too: `beyond` rows that the next piece will read.
template <class T>
void multiply_in_place(const Product<T>& p, int64_t beyond) {
  const int64_t tiles = divide_up(p.rows, tile_rows(2));
  const int64_t panels = divide_up(p.columns, Panels<T>::kPanel);
  const int64_t calls_for_a = tiles * panels * p.rows / (p.rows + p.columns);
  const int64_t calls_for_b = tiles * panels - calls_for_a;
  for (int64_t k0 = 0; k0 < p.inner; k0 += kInPlaceInner) {
    const int64_t inner = std::min(kInPlaceInner, p.inner - k0);
    const int64_t next = std::min(kInPlaceInner, p.inner + beyond - k0 - inner);
    const FetchAhead<T> next_a{p.a_at(0, k0 + inner), next, p.rows, p.lda};
    const FetchAhead<T> next_b{p.b_at(k0 + inner, 0), next, p.columns, p.ldb};
    int64_t call = 0;
    for_each_row_tile(p.rows, tile_rows(2), [&](int64_t row, int64_t height) {
      for (int64_t column = 0; column < p.columns; column += Panels<T>::kPanel, ++call) {
        const int64_t width = std::min(Panels<T>::kPanel, p.columns - column);
        tile_kernel<T>(height, width / Vec<T>::kWidth, true)(
            inner, p.a_at(row, k0), p.lda, p.b_at(k0, column), p.ldb, p.c + row * p.ldc + column,
            p.ldc, p.alpha, k0 > 0, width,
            call < calls_for_a ? next_a.part(call, calls_for_a)
                               : next_b.part(call - calls_for_a, calls_for_b));
      }
    });
  }
}

template <class T>
void multiply_in_pieces(const Product<T>& p) {
  const bool in_place = p.transpose_a && !p.transpose_b && p.columns % Vec<T>::kWidth == 0;
  const int64_t pieces = std::clamp<int64_t>(p.inner / 512, 2, 12);
  const int64_t size = p.rows * p.columns;
  ScratchScope scratch;
  T* partial = scratch.allocate<T>(pieces * size);
  parallel_for(pieces, [&](int64_t piece) {
    const int64_t k0 = p.inner * piece / pieces, k1 = p.inner * (piece + 1) / pieces;
    Product<T> part = p;
    part.a = p.a_at(0, k0);
    part.b = p.b_at(k0, 0);
    part.inner = k1 - k0;
    part.c = partial + piece * size;
    part.ldc = p.columns;
    part.accumulate = false;
    part.epilogue = {};
    if (in_place)
      multiply_in_place(part, p.inner - k1);
    else
      multiply(part, false);
  });
  const int64_t stripes = std::min<int64_t>(p.rows, 32);
  parallel_for(stripes, [&](int64_t stripe) {
    const int64_t first = p.rows * stripe / stripes, last = p.rows * (stripe + 1) / stripes;
    for (int64_t r = first; r < last; ++r)
      for (int64_t j = 0; j < p.columns; j += Vec<T>::kWidth) {
        const int64_t valid = p.columns - j;
        const T* from = partial + r * p.columns + j;
        T* out = p.c + r * p.ldc + j;
        Vec<T> sum = p.accumulate ? Vec<T>::load_partial(out, valid) : Vec<T>::zero();
        for (int64_t piece = 0; piece < pieces; ++piece)
          sum += Vec<T>::load_partial(from + piece * size, valid);
        sum.store_partial(out, valid);
      }
    finish(p.epilogue, p.c, p.ldc, first, 0, last - first, p.columns);
  });
}

template <class T>
void run(const GemmArgs& args) {
  Product<T> p{
      args.rows,
      args.columns,
      args.inner,
      args.transpose_a,
      args.transpose_b,
      static_cast<const T*>(args.a),
      static_cast<const T*>(args.b),
      static_cast<T*>(args.c),
      args.lda,
      args.ldb,
      args.ldc,
      T(args.alpha),
      args.accumulate,
      {static_cast<const T*>(args.bias), args.activation, static_cast<T*>(args.pre_activation)}};
  int64_t batch = args.batch;
  // Matrices that share B and lie one after the other are one taller matrix.
  if (batch > 1 && args.stride_b == 0 && !args.transpose_a && args.stride_a == p.rows * p.lda &&
      args.stride_c == p.rows * p.ldc) {
    p.rows *= batch;
    batch = 1;
  }
  const auto matrix = [&](int64_t i) {
    Product<T> one = p;
    one.a += i * args.stride_a;
    one.b += i * args.stride_b;
    one.c += i * args.stride_c;
    if (one.epilogue.pre_activation != nullptr) one.epilogue.pre_activation += i * args.stride_c;
    return one;
  };
  if (batch >= 16) {
    const bool threaded = batch * p.rows * p.columns * std::max<int64_t>(p.inner, 8) > (1 << 18);
    parallel_for(
        batch, [&](int64_t i) { multiply(matrix(i), false); }, threaded);
    return;
  }
  for (int64_t i = 0; i < batch; ++i) {
    const Product<T> one = matrix(i);
    if (splits_inner(one))
      multiply_in_pieces(one);
    else
      multiply(one, true);
  }
}

void check(const GemmArgs& g) {
  LONGSHOT_CHECK(g.rows >= 0 && g.columns >= 0 && g.inner >= 0 && g.batch >= 0,
                 "gemm: negative extent in rows {}, columns {}, inner {}, batch {}", g.rows,
                 g.columns, g.inner, g.batch);
  LONGSHOT_CHECK(g.dtype == DType::f32 || g.dtype == DType::f64, "gemm: {} is not f32 or f64",
                 name_of(g.dtype));
  LONGSHOT_CHECK(!g.accumulate || (g.bias == nullptr && g.activation == Activation::none &&
                                   g.pre_activation == nullptr),
                 "gemm: bias and activation need accumulate = false");
  const int64_t a_row = g.transpose_a ? g.rows : g.inner;
  const int64_t b_row = g.transpose_b ? g.inner : g.columns;
  LONGSHOT_CHECK(g.lda >= a_row && g.ldb >= b_row && g.ldc >= g.columns,
                 "gemm: leading dimensions lda {}, ldb {}, ldc {} are less than the rows' lengths "
                 "{}, {}, {}",
                 g.lda, g.ldb, g.ldc, a_row, b_row, g.columns);
}

}  // namespace

void gemm(const GemmArgs& args) {
  check(args);
  if (args.rows == 0 || args.columns == 0 || args.batch == 0) return;
  LONGSHOT_CHECK(args.c != nullptr && (args.inner == 0 || (args.a != nullptr && args.b != nullptr)),
                 "gemm: a, b or c is null");
  if (args.dtype == DType::f32)
    run<float>(args);
  else
    run<double>(args);
}

}  // namespace longshot::cpu
