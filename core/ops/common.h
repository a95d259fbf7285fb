// What every operation's file uses: checks of operands, results, and the usual shape of a node.
//
// An operation is written in this order: check, make the result, call one backend method, record.
//
//   Tensor scale(const Tensor& x, double factor) {
//     Context& context = check_operands("scale", {&x});
//     Tensor result = context.make(x.shape(), x.dtype(), Lifetime::step, "scale");
//     ...
//     if (wants_gradient(context, {&x})) record<ScaleNode>(context, result, x, factor);
//     return result;
//   }
#pragma once

#include <initializer_list>
#include <utility>

#include "core/context.h"
#include "core/error.h"
#include "core/ops.h"
#include "core/tape.h"
#include "core/tensor.h"

namespace longshot::ops {

// Every operand is defined, lives in one context and holds that context's dtype; `optional` ones
// may be undefined. Returns the context.
Context& check_operands(const char* operation, std::initializer_list<const Tensor*> operands,
                        std::initializer_list<const Tensor*> optional = {});
// `tensor` (called `role` in the message) is defined, holds i32 and lives in `context`.
void check_integers(const char* operation, const Context& context, const char* role,
                    const Tensor& tensor);
// Every number of `indices` is in [low, high), where the host can read them. On a device that would
// mean to wait for it: whoever uploads them checks (core/ops.h).
void check_indices(const char* operation, const char* role, const Tensor& indices, int64_t low,
                   int64_t high);
// Masks, positions and the like have no gradient: asking for one is a mistake, not a silent zero.
void check_no_gradient(const char* operation, const char* role, const Tensor& tensor);
// The dropout rate is in [0, 1); a null state becomes the context's own.
DropoutSpec check_dropout(const char* operation, const Context& context, DropoutSpec spec);

// Shapes of relative keys for `queries` rows from `query_offset` on (core/ops/relative.cpp).
void check_relative_keys(const Context& context, const RelativeKeys& relative, int64_t heads,
                         int64_t queries, int64_t keys, int64_t dim, int64_t query_offset);

bool wants_gradient(const Context& context, std::initializer_list<const Tensor*> inputs);

// `tensor` when `needed`, else undefined: what a node keeps is decided where it is made.
inline Tensor keep_if(bool needed, const Tensor& tensor) {
  return needed ? tensor : Tensor();
}

// The result of an operation, named after it, so that a stale handle says where it came from.
inline Tensor make_result(Context& context, const char* operation, const Shape& shape) {
  return context.make(shape, context.dtype(), Lifetime::step, operation);
}

template <class NodeType, class... Arguments>
void record(Context& context, Tensor& result, Arguments&&... arguments) {
  result.set_requires_gradient(true);
  context.tape().record<NodeType>(context, result, std::forward<Arguments>(arguments)...);
}

// A node with one result.
class ResultNode : public Node {
 public:
  bool reached() const override { return result_.present(); }

 protected:
  ResultNode(Context& context, const Tensor& result)
      : context_(context), dtype_(result.dtype()), result_(result) {}
  Backend& backend() const { return context_.backend(); }

  Context& context_;
  DType dtype_;
  Gradient result_;
};

// target (+)= alpha * source, n elements.
void contribute(Backend& backend, DType dtype, int64_t n, const void* source,
                const Gradient::Target& target, double alpha = 1.0);

// Clears a target that is about to receive only some of its elements.
void clear_unless_accumulating(Backend& backend, DType dtype, int64_t n,
                               const Gradient::Target& target);

bool is_suffix(const Shape& whole, const Shape& tail);
Shape without_axis(const Shape& shape, int axis);
Shape with_last(const Shape& shape, int64_t extent);

}  // namespace longshot::ops
