// ReferenceBackend: every method of Backend as plain loops over the formula in core/backend.h,
// computed in double whatever the dtype, on one thread, without any optimisation. The oracle for
// the CPU and CUDA backends, and enough of a device to test operations on.
#pragma once

#include "core/backend.h"

namespace longshot::testing {

class ReferenceBackend : public Backend {
 public:
  const char* name() const override { return "reference"; }
  std::string description() const override { return "plain loops in double precision"; }
  bool supports(DType type) const override { return type != DType::i32; }
  bool host_accessible() const override { return true; }

  void* allocate(size_t bytes) override;
  void release(void* pointer, size_t bytes) override;
  void copy_to_device(void* device, const void* host, size_t bytes) override;
  void copy_to_host(void* host, const void* device, size_t bytes) override;
  void copy_on_device(void* to, const void* from, size_t bytes) override;
  void fill_zero(void* device, size_t bytes) override;
  void synchronize() override {}

  void gemm(const GemmArgs&) override;
  void split_heads(const HeadsArgs&) override;
  void merge_heads(const HeadsArgs&) override;
  void unary(const UnaryArgs&) override;
  void unary_backward(const UnaryBackwardArgs&) override;
  void activation_backward(const ActivationBackwardArgs&) override;
  void affine(const AffineArgs&) override;
  void binary(const BinaryArgs&) override;
  void scale_rows(const ScaleRowsArgs&) override;
  void reduce(const ReduceArgs&) override;
  void expand(const ExpandArgs&) override;
  void softmax(const SoftmaxArgs&) override;
  void softmax_backward(const SoftmaxBackwardArgs&) override;
  void permute(const PermuteArgs&) override;
  void copy_chunks(const CopyChunksArgs&) override;
  void gather(const GatherArgs&) override;
  void gather_backward(const GatherBackwardArgs&) override;
  void dropout(const DropoutArgs&) override;
  void norm(const NormArgs&) override;
  void norm_backward(const NormBackwardArgs&) override;
  void embedding(const EmbeddingArgs&) override;
  void embedding_backward(const EmbeddingBackwardArgs&) override;
  void rotate(const RotateArgs&) override;
  void cross_entropy(const CrossEntropyArgs&) override;
  void cross_entropy_backward(const CrossEntropyBackwardArgs&) override;
  void pointwise_loss(const PointwiseLossArgs&) override;
  void pointwise_loss_backward(const PointwiseLossBackwardArgs&) override;
  void argmax(const ArgmaxArgs&) override;
  void attention(const AttentionArgs&) override;
  void attention_backward(const AttentionBackwardArgs&) override;
  void clip(const ClipArgs&) override;
  void adam(const AdamArgs&) override;

  int64_t allocations() const { return allocations_; }

 private:
  int64_t allocations_ = 0;
};

}  // namespace longshot::testing
