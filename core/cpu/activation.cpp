// y = f(x), dx = f'(x) dy, and dx = f'(pre) dy with dbias = column sums of dx, on the CPU.
#include "core/cpu/activation.h"

#include <algorithm>

#include "core/cpu/activation_math.h"
#include "core/cpu/lanes.h"
#include "core/cpu/pieces.h"
#include "core/cpu/scratch.h"

namespace longshot::cpu {
namespace {

constexpr int64_t kFunctionCost = 4;  // exp and its kin against a streamed element

template <class T, class F>
void map_unary(const UnaryArgs& args, F f, int64_t cost) {
  const T* x = typed<T>(args.x);
  T* y = typed<T>(args.y);
  for_elements(
      args.n,
      [&](int64_t begin, int64_t end) { map_into<false>(end - begin, y + begin, f, x + begin); },
      cost);
}

// dx = f(known, dy), where `known` is the input or the output, whichever the derivative is cheap
// in.
template <class T, class F>
void map_unary_backward(const UnaryBackwardArgs& args, const void* known, F f, int64_t cost) {
  const T* from = typed<T>(known);
  const T* dy = typed<T>(args.dy);
  T* dx = typed<T>(args.dx);
  with_flag(args.accumulate, [&](auto accumulate) {
    for_elements(
        args.n,
        [&](int64_t begin, int64_t end) {
          map_into<decltype(accumulate)::value>(end - begin, dx + begin, f, from + begin,
                                                dy + begin);
        },
        cost);
  });
}

// dx (rows, columns) = f(pre, dy), and the column sums of dx.
template <class T, class F>
void activation_rows(const ActivationBackwardArgs& args, F f, int64_t cost) {
  const int64_t columns = args.columns;
  const T* dy = typed<T>(args.dy);
  // Without an activation `pre_activation` may be absent; f ignores it.
  const T* pre = args.pre_activation == nullptr ? dy : typed<T>(args.pre_activation);
  T* dx = typed<T>(args.dx);
  T* dbias = typed<T>(args.dbias);
  if (dbias == nullptr) {
    if (dx == nullptr) return;
    for_elements(
        args.rows * columns,
        [&](int64_t begin, int64_t end) {
          map_into<false>(end - begin, dx + begin, f, pre + begin, dy + begin);
        },
        cost);
    return;
  }
  const RowPieces pieces(args.rows, 16);
  ScratchScope scratch;
  T* partial = scratch.allocate<T>(pieces.count * columns);
  parallel_for(
      pieces.count,
      [&](int64_t p) {
        T* sums = partial + p * columns;
        std::fill(sums, sums + columns, T(0));
        for (int64_t r = pieces.begin(p); r < pieces.end(p); ++r) {
          const int64_t at = r * columns;
          if (dx == nullptr) {
            map_into<true>(columns, sums, f, pre + at, dy + at);
          } else {
            map_into<false>(columns, dx + at, f, pre + at, dy + at);
            map_into<true>(
                columns, sums, [](Vec<T> v) { return v; }, static_cast<const T*>(dx + at));
          }
        }
      },
      args.rows * columns * cost >= kParallelElements);
  tree_sum_rows(partial, pieces.count, columns, T(1), dbias, args.accumulate_dbias);
}

}  // namespace

template <class T>
void unary(const UnaryArgs& args) {
  using V = Vec<T>;
  switch (args.op) {
    case Unary::relu:
      return map_unary<T>(
          args, [](V x) { return relu(x); }, 1);
    case Unary::gelu:
      return map_unary<T>(
          args, [](V x) { return gelu(x); }, kFunctionCost);
    case Unary::gelu_tanh:
      return map_unary<T>(
          args, [](V x) { return gelu_tanh(x); }, kFunctionCost);
    case Unary::exp:
      return map_unary<T>(
          args, [](V x) { return exp(x); }, kFunctionCost);
    case Unary::log:
      return map_unary<T>(
          args, [](V x) { return log(x); }, kFunctionCost);
    case Unary::tanh:
      return map_unary<T>(
          args, [](V x) { return tanh(x); }, kFunctionCost);
    case Unary::sigmoid:
      return map_unary<T>(
          args, [](V x) { return sigmoid(x); }, kFunctionCost);
    case Unary::square:
      return map_unary<T>(
          args, [](V x) { return x * x; }, 1);
  }
}

template <class T>
void unary_backward(const UnaryBackwardArgs& args) {
  using V = Vec<T>;
  const V one(T(1));
  const auto from_x = [&](auto f, int64_t cost) { map_unary_backward<T>(args, args.x, f, cost); };
  const auto from_y = [&](auto f) { map_unary_backward<T>(args, args.y, f, 1); };
  switch (args.op) {
    case Unary::relu:
      return from_x([](V x, V dy) { return relu_derivative(x) * dy; }, 1);
    case Unary::gelu:
      return from_x([](V x, V dy) { return gelu_derivative(x) * dy; }, kFunctionCost);
    case Unary::gelu_tanh:
      return from_x([](V x, V dy) { return gelu_tanh_derivative(x) * dy; }, kFunctionCost);
    case Unary::exp:
      return from_y([](V y, V dy) { return y * dy; });
    case Unary::log:
      return from_x([](V x, V dy) { return dy / x; }, 1);
    case Unary::tanh:
      return from_y([&](V y, V dy) { return (one - y * y) * dy; });
    case Unary::sigmoid:
      return from_y([&](V y, V dy) { return y * (one - y) * dy; });
    case Unary::square:
      return from_x([](V x, V dy) { return (x + x) * dy; }, 1);
  }
}

template <class T>
void activation_backward(const ActivationBackwardArgs& args) {
  using V = Vec<T>;
  switch (args.activation) {
    case Activation::none:
      return activation_rows<T>(
          args, [](V, V dy) { return dy; }, 1);
    case Activation::relu:
      return activation_rows<T>(
          args, [](V x, V dy) { return relu_derivative(x) * dy; }, 1);
    case Activation::gelu:
      return activation_rows<T>(
          args, [](V x, V dy) { return gelu_derivative(x) * dy; }, kFunctionCost);
    case Activation::gelu_tanh:
      return activation_rows<T>(
          args, [](V x, V dy) { return gelu_tanh_derivative(x) * dy; }, kFunctionCost);
  }
}

template void unary<float>(const UnaryArgs&);
template void unary<double>(const UnaryArgs&);
template void unary_backward<float>(const UnaryBackwardArgs&);
template void unary_backward<double>(const UnaryBackwardArgs&);
template void activation_backward<float>(const ActivationBackwardArgs&);
template void activation_backward<double>(const ActivationBackwardArgs&);

}  // namespace longshot::cpu
