// Every pointer in a method's arguments, whatever they are: visit(pointer&) for each. A field with
// a new name has to be added here; until then a backend on another memory is handed a foreign
// pointer, which the emulator reports.
#pragma once

#include "core/backend.h"

namespace longshot::testing {

template <class Args, class Visit>
void for_each_pointer(Args& args, const Visit& visit) {
  if constexpr (requires { args.a; }) visit(args.a);
  if constexpr (requires { args.b; }) visit(args.b);
  if constexpr (requires { args.c; }) visit(args.c);
  if constexpr (requires { args.bias; }) visit(args.bias);
  if constexpr (requires { args.pre_activation; }) visit(args.pre_activation);
  if constexpr (requires { args.merged; }) visit(args.merged);
  if constexpr (requires { args.x; }) visit(args.x);
  if constexpr (requires { args.y; }) visit(args.y);
  if constexpr (requires { args.dy; }) visit(args.dy);
  if constexpr (requires { args.dx; }) visit(args.dx);
  if constexpr (requires { args.dbias; }) visit(args.dbias);
  if constexpr (requires { args.out; }) visit(args.out);
  // A number in some methods.
  if constexpr (requires { static_cast<const void*>(args.scale); }) visit(args.scale);
  if constexpr (requires { args.weight; }) visit(args.weight);
  if constexpr (requires { args.index; }) visit(args.index);
  if constexpr (requires { args.residual; }) visit(args.residual);
  if constexpr (requires { args.gain; }) visit(args.gain);
  if constexpr (requires { args.sum; }) visit(args.sum);
  if constexpr (requires { args.mean; }) visit(args.mean);
  if constexpr (requires { args.inverse_deviation; }) visit(args.inverse_deviation);
  if constexpr (requires { args.dsum; }) visit(args.dsum);
  if constexpr (requires { args.dresidual; }) visit(args.dresidual);
  if constexpr (requires { args.dgain; }) visit(args.dgain);
  if constexpr (requires { args.ids; }) visit(args.ids);
  if constexpr (requires { args.table; }) visit(args.table);
  if constexpr (requires { args.dout; }) visit(args.dout);
  if constexpr (requires { args.dtable; }) visit(args.dtable);
  if constexpr (requires { args.cosine; }) visit(args.cosine);
  if constexpr (requires { args.sine; }) visit(args.sine);
  if constexpr (requires { args.logits; }) visit(args.logits);
  if constexpr (requires { args.targets; }) visit(args.targets);
  if constexpr (requires { args.count_override; }) visit(args.count_override);
  if constexpr (requires { args.log_sum_exp; }) visit(args.log_sum_exp);
  if constexpr (requires { args.row_loss; }) visit(args.row_loss);
  if constexpr (requires { args.loss; }) visit(args.loss);
  if constexpr (requires { args.denominator; }) visit(args.denominator);
  if constexpr (requires { args.dloss; }) visit(args.dloss);
  if constexpr (requires { args.dlogits; }) visit(args.dlogits);
  if constexpr (requires { args.target; }) visit(args.target);
  if constexpr (requires { args.mask; }) visit(args.mask);
  if constexpr (requires { args.query; }) visit(args.query);
  if constexpr (requires { args.key; }) visit(args.key);
  if constexpr (requires { args.value; }) visit(args.value);
  if constexpr (requires { args.row_scale; }) visit(args.row_scale);
  if constexpr (requires { args.key_mask; }) visit(args.key_mask);
  if constexpr (requires { args.bias_table; }) visit(args.bias_table);
  if constexpr (requires { args.position_q; }) visit(args.position_q);
  if constexpr (requires { args.position_k; }) visit(args.position_k);
  if constexpr (requires { args.bias_dense; }) visit(args.bias_dense);
  if constexpr (requires { args.dquery; }) visit(args.dquery);
  if constexpr (requires { args.dkey; }) visit(args.dkey);
  if constexpr (requires { args.dvalue; }) visit(args.dvalue);
  if constexpr (requires { args.dbias_table; }) visit(args.dbias_table);
  if constexpr (requires { args.dbias_dense; }) visit(args.dbias_dense);
  if constexpr (requires { args.gradient; }) visit(args.gradient);
  if constexpr (requires { args.update; }) visit(args.update);
  if constexpr (requires { args.parameter; }) visit(args.parameter);
  if constexpr (requires { args.first_moment; }) visit(args.first_moment);
  if constexpr (requires { args.second_moment; }) visit(args.second_moment);
  if constexpr (requires { args.state; }) visit(args.state);
  if constexpr (requires { args.part; })
    for (void*& part : args.part) visit(part);
  if constexpr (requires { args.dropout; }) visit(args.dropout.state);
  if constexpr (requires { args.forward; }) for_each_pointer(args.forward, visit);
}

}  // namespace longshot::testing
