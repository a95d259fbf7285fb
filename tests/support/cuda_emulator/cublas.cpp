#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "cublas_v2.h"

struct cublasContext {
  cudaStream_t stream = nullptr;
  bool workspace_set = false;
};

namespace {

// TF32 keeps 10 bits of the mantissa; the device rounds to nearest.
float to_tf32(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7F800000u) == 0x7F800000u) return value;
  return std::bit_cast<float>((bits + 0x1000u) & ~0x1FFFu);
}

struct Product {
  bool transpose_a, transpose_b;
  int m, n, k;
  float alpha, beta;
  const float* a;
  int lda;
  long long stride_a;
  const float* b;
  int ldb;
  long long stride_b;
  float* c;
  int ldc;
  long long stride_c;
  int batch;
  bool tf32;
};

void multiply(const Product& p, int z) {
  const float* a = p.a + p.stride_a * z;
  const float* b = p.b + p.stride_b * z;
  float* c = p.c + p.stride_c * z;
  // op(a) packed column by column, so that the inner loop below is contiguous.
  std::vector<float> packed(size_t(p.m) * size_t(p.k)), column(static_cast<size_t>(p.m));
  for (int t = 0; t < p.k; ++t) {
    for (int i = 0; i < p.m; ++i) {
      const float value = p.transpose_a ? a[size_t(i) * p.lda + t] : a[size_t(t) * p.lda + i];
      packed[size_t(t) * p.m + i] = p.tf32 ? to_tf32(value) : value;
    }
  }
  for (int j = 0; j < p.n; ++j) {
    std::fill(column.begin(), column.end(), 0.0f);
    for (int t = 0; t < p.k; ++t) {
      float factor = p.transpose_b ? b[size_t(t) * p.ldb + j] : b[size_t(j) * p.ldb + t];
      if (p.tf32) factor = to_tf32(factor);
      const float* source = packed.data() + size_t(t) * p.m;
      for (int i = 0; i < p.m; ++i) column[i] += source[i] * factor;
    }
    for (int i = 0; i < p.m; ++i) {
      float& out = c[size_t(j) * p.ldc + i];
      out = p.alpha * column[i] + (p.beta != 0 ? p.beta * out : 0.0f);
    }
  }
}

// Whether the matrix (columns of `rows` elements, `leading` apart) lies in one allocation.
bool on_device(const void* matrix, int rows, int columns, int leading, long long stride,
               int batch) {
  if (rows == 0 || columns == 0 || batch == 0) return true;
  const char* first = static_cast<const char*>(matrix);
  const long long last = stride * (batch - 1) + (long long)(columns - 1) * leading + rows;
  return emulator::is_device_pointer(first) && emulator::is_device_pointer(first + last * 4);
}

}  // namespace

namespace {
bool fails_next = false;
}
void emulator::fail_next_blas_call() {
  fails_next = true;
}

cublasStatus_t cublasCreate(cublasHandle_t* handle) {
  *handle = std::make_unique<cublasContext>().release();
  ++emulator::counters().handles;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasDestroy(cublasHandle_t handle) {
  const std::unique_ptr<cublasContext> owner(handle);
  --emulator::counters().handles;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream) {
  if (std::exchange(fails_next, false)) return CUBLAS_STATUS_EXECUTION_FAILED;
  handle->stream = stream;
  handle->workspace_set = false;  // as the real one: setting the stream drops the workspace
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetWorkspace(cublasHandle_t handle, void* workspace, size_t bytes) {
  const bool good = emulator::is_device_pointer(workspace) &&
                    emulator::is_device_pointer(static_cast<char*>(workspace) + bytes);
  if (!good) return CUBLAS_STATUS_INVALID_VALUE;
  handle->workspace_set = true;
  return CUBLAS_STATUS_SUCCESS;
}
const char* cublasGetStatusString(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "success";
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "not initialised";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "invalid value";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "execution failed";
  }
  return "unknown status";
}

cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t handle, cublasOperation_t transpose_a,
                                          cublasOperation_t transpose_b, int m, int n, int k,
                                          const void* alpha, const void* a, cudaDataType_t, int lda,
                                          long long stride_a, const void* b, cudaDataType_t,
                                          int ldb, long long stride_b, const void* beta, void* c,
                                          cudaDataType_t, int ldc, long long stride_c, int batch,
                                          cublasComputeType_t compute, cublasGemmAlgo_t) {
  const bool ta = transpose_a == CUBLAS_OP_T, tb = transpose_b == CUBLAS_OP_T;
  if (m < 0 || n < 0 || k < 0 || batch < 0) return CUBLAS_STATUS_INVALID_VALUE;
  if (lda < std::max(1, ta ? k : m) || ldb < std::max(1, tb ? n : k) || ldc < std::max(1, m)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  // Without an explicit workspace the library allocates one of its own, which neither captures nor
  // promises equal bits.
  if (!handle->workspace_set) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (!on_device(a, ta ? k : m, ta ? m : k, lda, stride_a, batch) ||
      !on_device(b, tb ? n : k, tb ? k : n, ldb, stride_b, batch) ||
      !on_device(c, m, n, ldc, stride_c, batch)) {
    return CUBLAS_STATUS_EXECUTION_FAILED;
  }
  const Product product{ta,
                        tb,
                        m,
                        n,
                        k,
                        *static_cast<const float*>(alpha),
                        *static_cast<const float*>(beta),
                        static_cast<const float*>(a),
                        lda,
                        stride_a,
                        static_cast<const float*>(b),
                        ldb,
                        stride_b,
                        static_cast<float*>(c),
                        ldc,
                        stride_c,
                        batch,
                        compute == CUBLAS_COMPUTE_32F_FAST_TF32};
  const cudaError_t error = emulator::queue_call(handle->stream, [product] {
#pragma omp parallel for schedule(static)
    for (int z = 0; z < product.batch; ++z) multiply(product, z);
    return std::string();
  });
  return error == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}
