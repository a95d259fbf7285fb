// Matrix products by cuBLAS, then bias, activation and the stored pre-activation in one pass.
//
// cuBLAS is column-major: a row-major C = op(A) op(B) is its C^T = op(B)^T op(A)^T, so the operands
// swap and nothing is transposed. The handle has an explicit workspace, so that equal calls
// give equal bits, captured or not.
#include <climits>
#include <cublas_v2.h>

#include "cuda/device.cuh"

namespace longshot::cuda {
namespace {

struct Epilogue {
  int64_t rows, columns, ldc, stride_c;
  float *c, *pre_activation;
  const float* bias;
  Activation activation;
  bool empty;  // nothing was multiplied: the product is 0
  __device__ void operator()(int64_t i) const {
    const int64_t line = divide(i, columns), column = i - line * columns;
    const int64_t batch = divide(line, rows), row = line - batch * rows;
    const int64_t at = batch * stride_c + row * ldc + column;
    float value = empty ? 0.0f : c[at];
    if (bias) value += bias[column];
    if (pre_activation) pre_activation[at] = value;
    c[at] = activate(activation, value);
  }
};

int to_int(int64_t value) {
  LONGSHOT_CHECK(value <= INT_MAX, "cuda: gemm: an extent of {} is more than cuBLAS takes", value);
  return int(value);
}

}  // namespace

void gemm(const Context& context, const GemmArgs& args) {
  if (args.rows == 0 || args.columns == 0 || args.batch == 0) return;
  const bool empty = args.inner == 0;
  if (!empty) {
    const float alpha = float(args.alpha), beta = args.accumulate ? 1.0f : 0.0f;
    const cublasStatus_t status = cublasGemmStridedBatchedEx(
        context.cublas, args.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N,
        args.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N, to_int(args.columns), to_int(args.rows),
        to_int(args.inner), &alpha, args.b, CUDA_R_32F, to_int(args.ldb), args.stride_b, args.a,
        CUDA_R_32F, to_int(args.lda), args.stride_a, &beta, args.c, CUDA_R_32F, to_int(args.ldc),
        args.stride_c, to_int(args.batch),
        context.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
    LONGSHOT_CHECK(status == CUBLAS_STATUS_SUCCESS,
                   "cuda: gemm ({} x {} x {}, batch {}): cuBLAS says: {}", args.rows, args.inner,
                   args.columns, args.batch, cublasGetStatusString(status));
  } else if (args.accumulate) {
    return;
  }
  if (empty || args.bias || args.activation != Activation::none || args.pre_activation) {
    map(context, "gemm epilogue", args.batch * args.rows * args.columns,
        Epilogue{args.rows, args.columns, args.ldc, args.stride_c, f32(args.c),
                 f32(args.pre_activation), f32(args.bias), args.activation, empty});
  }
}

}  // namespace longshot::cuda
