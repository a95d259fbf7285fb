// What the host side of every kernel file needs: the context a call runs in, and one function a
// method of core/backend.h, with that method's arguments and meaning. All arrays are f32.
//
// No function allocates: partial sums go to the context's fixed workspace, and the number of
// pieces is a function of the shape that never needs more than that. A step therefore records
// into a graph as it is, and grids depend on shapes alone.
#pragma once

#include "core/backend.h"
#include "cuda/launch.cuh"

struct cublasContext;  // cublas_v2.h is slow to compile; only gemm.cu and the backend need it

namespace longshot::cuda {

constexpr int64_t kWorkspaceFloats = int64_t(4) << 20;  // 16 MiB

struct Context {
  cudaStream_t stream = nullptr;
  cublasContext* cublas = nullptr;
  float* workspace = nullptr;  // kWorkspaceFloats
  double* scalars = nullptr;   // a few values handed from one kernel to the next
  bool tf32 = false;
  size_t max_dynamic_shared = 48 << 10;
};

// Throws Error("cuda: <what>: <reason>") unless the call succeeded.
void check(cudaError_t error, const char* what);

template <class... P, class... A>
void run(const Context& context, const char* name, void (*kernel)(P...), dim3 grid, dim3 block,
         size_t shared_bytes, A&&... arguments) {
  check(launch(name, kernel, grid, block, shared_bytes, context.stream,
               std::forward<A>(arguments)...),
        name);
}

inline const float* f32(const void* pointer) {
  return static_cast<const float*>(pointer);
}
inline float* f32(void* pointer) {
  return static_cast<float*>(pointer);
}
inline int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

void gemm(const Context&, const GemmArgs&);
void split_heads(const Context&, const HeadsArgs&);
void merge_heads(const Context&, const HeadsArgs&);
void unary(const Context&, const UnaryArgs&);
void unary_backward(const Context&, const UnaryBackwardArgs&);
void activation_backward(const Context&, const ActivationBackwardArgs&);
void affine(const Context&, const AffineArgs&);
void binary(const Context&, const BinaryArgs&);
void scale_rows(const Context&, const ScaleRowsArgs&);
void reduce(const Context&, const ReduceArgs&);
void expand(const Context&, const ExpandArgs&);
void softmax(const Context&, const SoftmaxArgs&);
void softmax_backward(const Context&, const SoftmaxBackwardArgs&);
void permute(const Context&, const PermuteArgs&);
void copy_chunks(const Context&, const CopyChunksArgs&);
void gather(const Context&, const GatherArgs&);
void gather_backward(const Context&, const GatherBackwardArgs&);
void dropout(const Context&, const DropoutArgs&);
void norm(const Context&, const NormArgs&);
void norm_backward(const Context&, const NormBackwardArgs&);
void embedding(const Context&, const EmbeddingArgs&);
void embedding_backward(const Context&, const EmbeddingBackwardArgs&);
void rotate(const Context&, const RotateArgs&);
void cross_entropy(const Context&, const CrossEntropyArgs&);
void cross_entropy_backward(const Context&, const CrossEntropyBackwardArgs&);
void pointwise_loss(const Context&, const PointwiseLossArgs&);
void pointwise_loss_backward(const Context&, const PointwiseLossBackwardArgs&);
void argmax(const Context&, const ArgmaxArgs&);
void attention(const Context&, const AttentionArgs&);
void attention_backward(const Context&, const AttentionBackwardArgs&);
void attention_bias_backward(const Context&, const AttentionBackwardArgs&, int64_t batch_begin,
                             int64_t batch_count, const float* delta, bool accumulate);
void clip(const Context&, const ClipArgs&);
void adam(const Context&, const AdamArgs&);

}  // namespace longshot::cuda
