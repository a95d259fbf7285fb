// y = f(x W_up^T + b_up) W_down^T + b_down, f the activation, without the hidden layer ever being
// an array in memory.
//
// Why: at small widths a product needs less time than its arrays need to travel. The hidden layer
// is the widest array of a model and an operation at a time passes it through memory ten times.
// Here a task takes a block of about a hundred rows through both layers while its part of the
// hidden layer stays in the core's second-level cache, beside the packed weights.
//
// Backward makes z = x W_up^T + b_up again (a sixth more arithmetic, but nothing was stored):
//   h = f(z)      dh = dy W_down     dz = dh f'(z)
//   dW_down = dy^T h     db_down = sums of dy     dW_up = dz^T x     db_up = sums of dz
//   dx = dz W_up
// Rows are dealt to a number of pieces that the shape fixes. Each piece adds up its own dW and db,
// also in the cache; the pieces' sums are added in order at the end.
#include "core/cpu/feed_forward.h"

#include <algorithm>

#include "core/cpu/activation_math.h"
#include "core/cpu/gemm_epilogue.h"
#include "core/cpu/panels.h"
#include "core/cpu/pieces.h"
#include "core/cpu/scratch.h"
#include "core/cpu/tile.h"

namespace longshot::cpu {
namespace {

constexpr int64_t kTileRows = tile_rows(2);
constexpr int64_t kBlockRows = 8 * kTileRows;  // rows that go through both layers together
constexpr int64_t kMostPieces = 16;            // of rows, each with its own sums of dW
constexpr int64_t kBlocksPerPiece = 3;         // at least, so that adding up the sums stays cheap
constexpr int64_t kParallelWork = 1 << 20;     // multiply-adds that pay for a barrier

template <class T>
constexpr int64_t whole_vectors(int64_t n) {
  return divide_up(n, Vec<T>::kWidth) * Vec<T>::kWidth;
}
// Row length of a block kept in scratch: whole vectors, and one more so that rows do not lie a
// power of two apart, where they would fall into the same sets of the first-level cache.
template <class T>
constexpr int64_t padded(int64_t n) {
  return whole_vectors<T>(n) + Vec<T>::kWidth;
}

// A weight made ready to stand on the right of a product.
template <class T>
struct PackedWeight {
  RightOperand<T> from;
  Panels<T> panels;
  T* data = nullptr;

  void pack(int64_t panel) const {
    if (from.transposed) return pack_panel(from, panels, panel, 0, data);
    const int64_t column = panel * Panels<T>::kPanel;
    const Panels<T> one{std::min(Panels<T>::kPanel, panels.columns - column), panels.inner};
    pack_rows(RightOperand<T>{from.at(0, column), from.ldb, false}, one, 0, panels.inner, 0,
              data + panels.offset(panel));
  }
};

// Packs weights, each panel alone; the memory belongs to `scratch`.
template <class T, size_t kCount>
void pack_all(ScratchScope& scratch, PackedWeight<T>* const (&weights)[kCount], bool threaded) {
  int64_t first[kCount + 1] = {};
  for (size_t i = 0; i < kCount; ++i) {
    weights[i]->data = scratch.allocate<T>(weights[i]->panels.elements());
    first[i + 1] = first[i] + weights[i]->panels.count();
  }
  parallel_for(
      first[kCount],
      [&](int64_t panel) {
        size_t i = 0;
        while (panel >= first[i + 1]) ++i;
        weights[i]->pack(panel - first[i]);
      },
      threaded);
}

// c (rows, columns) = a (rows, inner) times the packed weight. A panel of the weight stays in the
// first-level cache for all rows. after(first, height, column, width) follows each tile, whose
// elements are in that cache then.
template <class T, class After>
void multiply(int64_t rows, const T* a, int64_t lda, const PackedWeight<T>& weight, T* c,
              int64_t ldc, bool accumulate, const After& after) {
  const Panels<T>& panels = weight.panels;
  for (int64_t panel = 0; panel < panels.count(); ++panel) {
    const int64_t vectors = panels.vectors(panel), ld = vectors * Vec<T>::kWidth;
    const int64_t column = panel * Panels<T>::kPanel;
    const int64_t width = std::min(ld, panels.columns - column);
    for_each_row_tile(rows, kTileRows, [&](int64_t first, int64_t height) {
      tile_kernel<T>(height, vectors, false)(
          panels.inner, a + first * lda, lda, weight.data + panels.offset(panel), ld,
          c + first * ldc + column, ldc, T(1), accumulate, width, {});
      after(first, height, column, width);
    });
  }
}

// sums[0, width) += column sums of the rows, four rows between a load and a store.
template <class T>
void add_rows(int64_t rows, int64_t width, const T* from, int64_t ld, T* sums) {
  for (int64_t r = 0; r < rows; r += 4) {
    const int64_t last = std::min(rows, r + 4);
    for (int64_t j = 0; j < width; j += Vec<T>::kWidth) {
      Vec<T> sum = Vec<T>::load_partial(sums + j, width - j);
      for (int64_t i = r; i < last; ++i) sum += Vec<T>::load_partial(from + i * ld + j, width - j);
      sum.store_partial(sums + j, width - j);
    }
  }
}

// A tile on its way back: z (without bias) becomes f(z), dh becomes dz; sums += column sums of dz.
// The rows are padded to whole vectors, so nothing but the bias is read in parts.
template <class T, Activation activation>
void through_activation(int64_t rows, int64_t width, T* z, T* dh, int64_t ld, const T* bias,
                        T* sums) {
  using V = Vec<T>;
  for (int64_t j = 0; j < width; j += V::kWidth) {
    const V b = bias == nullptr ? V::zero() : V::load_partial(bias + j, width - j);
    V sum = V::load(sums + j);
    for (int64_t r = 0; r < rows; ++r) {
      const V x = V::load(z + r * ld + j) + b, dy = V::load(dh + r * ld + j);
      const ValueAndSlope<T> f = value_and_slope<activation>(x);
      const V dz = f.slope * dy;
      f.value.store(z + r * ld + j);
      dz.store(dh + r * ld + j);
      sum += dz;
    }
    sum.store(sums + j);
  }
}

// Where a piece's sums of parameter gradients lie, one after the other; unwanted ones are empty.
template <class T>
struct Sums {
  explicit Sums(const FeedForwardBackwardArgs& args)
      : hidden(args.forward.hidden),
        up(size(args.dweight_up, hidden * args.forward.inner)),
        down(size(args.dweight_down, hidden * args.forward.columns)),
        up_bias(padded<T>(hidden)),  // always there: through_activation adds to it
        down_bias(size(args.dbias_down, args.forward.columns)) {}
  static int64_t size(const void* wanted, int64_t elements) {
    return wanted == nullptr ? 0 : whole_vectors<T>(elements);
  }
  int64_t total() const { return up + down + up_bias + down_bias; }

  int64_t hidden, up, down, up_bias, down_bias;
};

// out (+)= sum over pieces of partial[piece * stride], in order.
template <class T>
void add_pieces(const T* partial, int64_t pieces, int64_t stride, int64_t n, void* result,
                bool accumulate) {
  if (result == nullptr) return;
  T* out = typed<T>(result);
  for_ranges(n, 1024, pieces + 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i += Vec<T>::kWidth) {
      const int64_t valid = end - i;
      Vec<T> sum = accumulate ? Vec<T>::load_partial(out + i, valid) : Vec<T>::zero();
      for (int64_t p = 0; p < pieces; ++p)
        sum += Vec<T>::load_partial(partial + p * stride + i, valid);
      sum.store_partial(out + i, valid);
    }
  });
}

bool is_threaded(const FeedForwardArgs& args) {
  return args.rows * args.hidden * (args.inner + args.columns) > kParallelWork;
}

// One piece's way back. Blocks of rows are added to `sums` one after the other.
template <class T, Activation activation>
class BackwardPiece {
 public:
  BackwardPiece(const FeedForwardBackwardArgs& args, const PackedWeight<T>& up,
                const PackedWeight<T>& down, const PackedWeight<T>& back, const Sums<T>& layout,
                T* sums)
      : args_(args),
        up_(up),
        down_(down),
        back_(back),
        dweight_up_(sums),
        dweight_down_(dweight_up_ + layout.up),
        dbias_up_(dweight_down_ + layout.down),
        dbias_down_(dbias_up_ + layout.up_bias),
        ld_(padded<T>(layout.hidden)),
        z_(scratch_.allocate<T>(kBlockRows * ld_)),
        dh_(scratch_.allocate<T>(kBlockRows * ld_)) {
    std::fill(sums, sums + layout.total(), T(0));
    // The register tile reads its right operand in whole vectors.
    const int64_t inner = args.forward.inner;
    if (inner % Vec<T>::kWidth != 0)
      padded_x_ = scratch_.allocate<T>(kBlockRows * whole_vectors<T>(inner));
  }

  void run(int64_t first, int64_t rows) {
    const FeedForwardArgs& f = args_.forward;
    const T* x = typed<T>(f.x) + first * f.inner;
    const T* dy = typed<T>(args_.dy) + first * f.columns;
    const T* bias = typed<T>(f.bias_up);
    const auto nothing = [](int64_t, int64_t, int64_t, int64_t) {};
    multiply(rows, x, f.inner, up_, z_, ld_, false, nothing);
    multiply(rows, dy, f.columns, down_, dh_, ld_, false,
             [&](int64_t row, int64_t height, int64_t column, int64_t width) {
               through_activation<T, activation>(
                   height, width, z_ + row * ld_ + column, dh_ + row * ld_ + column, ld_,
                   bias == nullptr ? nullptr : bias + column, dbias_up_ + column);
             });
    if (args_.dbias_down != nullptr) add_rows(rows, f.columns, dy, f.columns, dbias_down_);
    if (args_.dweight_down != nullptr)
      small_product(f.columns, f.hidden, rows, dy, f.columns, true, z_, ld_, dweight_down_,
                    f.hidden, T(1), true);
    if (args_.dweight_up != nullptr) {
      const int64_t ldx = whole_vectors<T>(f.inner);
      if (padded_x_ != nullptr)
        for (int64_t r = 0; r < rows; ++r)
          std::copy(x + r * f.inner, x + (r + 1) * f.inner, padded_x_ + r * ldx);
      small_product(f.hidden, f.inner, rows, dh_, ld_, true, padded_x_ == nullptr ? x : padded_x_,
                    ldx, dweight_up_, f.inner, T(1), true);
    }
    if (args_.dx != nullptr)
      multiply(rows, dh_, ld_, back_, typed<T>(args_.dx) + first * f.inner, f.inner,
               args_.accumulate_dx, nothing);
  }

 private:
  const FeedForwardBackwardArgs& args_;
  const PackedWeight<T>&up_, &down_, &back_;
  ScratchScope scratch_;
  T *dweight_up_, *dweight_down_, *dbias_up_, *dbias_down_;
  int64_t ld_;
  T *z_, *dh_;
  T* padded_x_ = nullptr;
};

template <class T, Activation activation>
void backward(const FeedForwardBackwardArgs& args) {
  const FeedForwardArgs& f = args.forward;
  const bool threaded = is_threaded(f);
  ScratchScope scratch;
  const T* weight_up = typed<T>(f.weight_up);
  PackedWeight<T> up{{weight_up, f.inner, true}, {f.hidden, f.inner}};
  PackedWeight<T> down{{typed<T>(f.weight_down), f.hidden, false}, {f.hidden, f.columns}};
  PackedWeight<T> back{{weight_up, f.inner, false}, {f.inner, f.hidden}};
  pack_all(scratch, {&up, &down, &back}, threaded);

  // A power of two, so that any usual number of threads shares them evenly.
  const int64_t blocks = divide_up(f.rows, kBlockRows);
  int64_t pieces = 1;
  while (pieces < kMostPieces && pieces * 2 * kBlocksPerPiece <= blocks) pieces *= 2;
  const Sums<T> layout(args);
  const int64_t stride = layout.total();
  T* sums = scratch.allocate<T>(pieces * stride);
  parallel_for(
      pieces,
      [&](int64_t p) {
        BackwardPiece<T, activation> piece(args, up, down, back, layout, sums + p * stride);
        for (int64_t block = blocks * p / pieces; block < blocks * (p + 1) / pieces; ++block) {
          const int64_t first = block * kBlockRows;
          piece.run(first, std::min(kBlockRows, f.rows - first));
        }
      },
      threaded);

  const auto deliver_sums = [&](int64_t offset, int64_t n, void* out, bool accumulate) {
    add_pieces(sums + offset, pieces, stride, n, out, accumulate);
  };
  const int64_t bias = layout.up + layout.down;
  deliver_sums(0, f.hidden * f.inner, args.dweight_up, args.accumulate_dweight_up);
  deliver_sums(layout.up, f.hidden * f.columns, args.dweight_down, args.accumulate_dweight_down);
  deliver_sums(bias, f.hidden, args.dbias_up, args.accumulate_dbias_up);
  deliver_sums(bias + layout.up_bias, f.columns, args.dbias_down, args.accumulate_dbias_down);
}

}  // namespace

template <class T>
void feed_forward(const FeedForwardArgs& args) {
  const bool threaded = is_threaded(args);
  ScratchScope scratch;
  PackedWeight<T> up{{typed<T>(args.weight_up), args.inner, true}, {args.hidden, args.inner}};
  PackedWeight<T> down{{typed<T>(args.weight_down), args.hidden, true},
                       {args.columns, args.hidden}};
  pack_all(scratch, {&up, &down}, threaded);
  const Epilogue<T> activate{typed<T>(args.bias_up), args.activation};
  const Epilogue<T> add_bias{typed<T>(args.bias_down)};
  parallel_for(
      divide_up(args.rows, kBlockRows),
      [&](int64_t block) {
        const int64_t first = block * kBlockRows, rows = std::min(kBlockRows, args.rows - first);
        const int64_t ld = padded<T>(args.hidden);
        ScratchScope own;
        T* hidden = own.allocate<T>(kBlockRows * ld);
        multiply(rows, typed<T>(args.x) + first * args.inner, args.inner, up, hidden, ld, false,
                 [&](int64_t row, int64_t height, int64_t column, int64_t width) {
                   finish(activate, hidden, ld, row, column, height, width);
                 });
        T* y = typed<T>(args.y) + first * args.columns;
        multiply(rows, hidden, ld, down, y, args.columns, false,
                 [&](int64_t row, int64_t height, int64_t column, int64_t width) {
                   finish(add_bias, y, args.columns, row, column, height, width);
                 });
      },
      threaded);
}

template <class T>
void feed_forward_backward(const FeedForwardBackwardArgs& args) {
  switch (args.forward.activation) {
    case Activation::none:
      return backward<T, Activation::none>(args);
    case Activation::relu:
      return backward<T, Activation::relu>(args);
    case Activation::gelu:
      return backward<T, Activation::gelu>(args);
    case Activation::gelu_tanh:
      return backward<T, Activation::gelu_tanh>(args);
  }
}

template void feed_forward<float>(const FeedForwardArgs&);
template void feed_forward<double>(const FeedForwardArgs&);
template void feed_forward_backward<float>(const FeedForwardBackwardArgs&);
template void feed_forward_backward<double>(const FeedForwardBackwardArgs&);

}  // namespace longshot::cpu
