// A backend around others: every kernel method arrives at one function of the derived class,
//   template <class Args>
//   void call(const char* name, void (Backend::*method)(const Args&), const Args& args);
#pragma once

#include "core/backend.h"

namespace longshot::testing {

template <class Derived>
class EveryMethod : public Backend {
 public:
  void gemm(const GemmArgs& a) override { self().call("gemm", &Backend::gemm, a); }
  void split_heads(const HeadsArgs& a) override {
    self().call("split_heads", &Backend::split_heads, a);
  }
  void merge_heads(const HeadsArgs& a) override {
    self().call("merge_heads", &Backend::merge_heads, a);
  }
  void unary(const UnaryArgs& a) override { self().call("unary", &Backend::unary, a); }
  void unary_backward(const UnaryBackwardArgs& a) override {
    self().call("unary_backward", &Backend::unary_backward, a);
  }
  void activation_backward(const ActivationBackwardArgs& a) override {
    self().call("activation_backward", &Backend::activation_backward, a);
  }
  void affine(const AffineArgs& a) override { self().call("affine", &Backend::affine, a); }
  void binary(const BinaryArgs& a) override { self().call("binary", &Backend::binary, a); }
  void scale_rows(const ScaleRowsArgs& a) override {
    self().call("scale_rows", &Backend::scale_rows, a);
  }
  void reduce(const ReduceArgs& a) override { self().call("reduce", &Backend::reduce, a); }
  void expand(const ExpandArgs& a) override { self().call("expand", &Backend::expand, a); }
  void softmax(const SoftmaxArgs& a) override { self().call("softmax", &Backend::softmax, a); }
  void softmax_backward(const SoftmaxBackwardArgs& a) override {
    self().call("softmax_backward", &Backend::softmax_backward, a);
  }
  void permute(const PermuteArgs& a) override { self().call("permute", &Backend::permute, a); }
  void copy_chunks(const CopyChunksArgs& a) override {
    self().call("copy_chunks", &Backend::copy_chunks, a);
  }
  void gather(const GatherArgs& a) override { self().call("gather", &Backend::gather, a); }
  void gather_backward(const GatherBackwardArgs& a) override {
    self().call("gather_backward", &Backend::gather_backward, a);
  }
  void dropout(const DropoutArgs& a) override { self().call("dropout", &Backend::dropout, a); }
  void norm(const NormArgs& a) override { self().call("norm", &Backend::norm, a); }
  void norm_backward(const NormBackwardArgs& a) override {
    self().call("norm_backward", &Backend::norm_backward, a);
  }
  void embedding(const EmbeddingArgs& a) override {
    self().call("embedding", &Backend::embedding, a);
  }
  void embedding_backward(const EmbeddingBackwardArgs& a) override {
    self().call("embedding_backward", &Backend::embedding_backward, a);
  }
  void rotate(const RotateArgs& a) override { self().call("rotate", &Backend::rotate, a); }
  void cross_entropy(const CrossEntropyArgs& a) override {
    self().call("cross_entropy", &Backend::cross_entropy, a);
  }
  void cross_entropy_backward(const CrossEntropyBackwardArgs& a) override {
    self().call("cross_entropy_backward", &Backend::cross_entropy_backward, a);
  }
  void pointwise_loss(const PointwiseLossArgs& a) override {
    self().call("pointwise_loss", &Backend::pointwise_loss, a);
  }
  void pointwise_loss_backward(const PointwiseLossBackwardArgs& a) override {
    self().call("pointwise_loss_backward", &Backend::pointwise_loss_backward, a);
  }
  void argmax(const ArgmaxArgs& a) override { self().call("argmax", &Backend::argmax, a); }
  void attention(const AttentionArgs& a) override {
    self().call("attention", &Backend::attention, a);
  }
  void attention_backward(const AttentionBackwardArgs& a) override {
    self().call("attention_backward", &Backend::attention_backward, a);
  }
  void clip(const ClipArgs& a) override { self().call("clip", &Backend::clip, a); }
  void adam(const AdamArgs& a) override { self().call("adam", &Backend::adam, a); }

 private:
  Derived& self() { return static_cast<Derived&>(*this); }
};

}  // namespace longshot::testing
