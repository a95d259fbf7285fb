#include <cublas_v2.h>
#include <map>

#include "core/capture.h"
#include "cuda/cuda_backend.h"
#include "cuda/kernels.cuh"

namespace longshot::cuda {

void check(cudaError_t error, const char* what) {
  LONGSHOT_CHECK(error == cudaSuccess, "cuda: {}: {}", what, cudaGetErrorString(error));
}

namespace {

// What cuBLAS recommends: 32 MiB from Hopper on, 4 MiB for what came before.
size_t blas_workspace_bytes(const cudaDeviceProp& device) {
  return size_t(device.major >= 9 ? 32 : 4) << 20;
}

void check_blas(cublasStatus_t status, const char* what) {
  LONGSHOT_CHECK(status == CUBLAS_STATUS_SUCCESS, "cuda: {}: cuBLAS says: {}", what,
                 cublasGetStatusString(status));
}

void* allocate_memory(size_t bytes) {
  void* pointer = nullptr;
  const cudaError_t error = cudaMalloc(&pointer, bytes);
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // an answer, not a fault: the device goes on
    size_t available = 0, total = 0;
    cudaMemGetInfo(&available, &total);
    throw Error(fmt::format("cuda: out of device memory: {} bytes asked for, {} of {} are free",
                            bytes, available, total));
  }
  check(error, "allocate");
  return pointer;
}

// Memory of the device for as long as this lives.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  explicit DeviceMemory(size_t bytes) : pointer_(allocate_memory(bytes)) {}
  ~DeviceMemory() { cudaFree(pointer_); }
  DeviceMemory(DeviceMemory&& other) noexcept : pointer_(std::exchange(other.pointer_, nullptr)) {}
  DeviceMemory& operator=(DeviceMemory&& other) noexcept {
    std::swap(pointer_, other.pointer_);
    return *this;
  }
  void* get() const { return pointer_; }

 private:
  void* pointer_ = nullptr;
};

class CudaBackend final : public Backend, public StepRecorder {
 public:
  // Begins as a whole object, so that the destructor gives back what was made before a failure.
  explicit CudaBackend(const CudaOptions& options) : CudaBackend(options.device) {
    check(cudaSetDevice(device_), "choose the device");
    check(cudaGetDeviceProperties(&properties_, device_), "ask for the device's properties");
    LONGSHOT_CHECK(properties_.major > 7 || (properties_.major == 7 && properties_.minor >= 5),
                   "cuda: {} has compute capability {}.{}, 7.5 is the least this build supports",
                   properties_.name, properties_.major, properties_.minor);
    workspace_ = DeviceMemory(size_t(kWorkspaceFloats) * sizeof(float));
    scalars_ = DeviceMemory(64 * sizeof(double));
    const size_t blas_bytes = blas_workspace_bytes(properties_);
    blas_workspace_ = DeviceMemory(blas_bytes);
    check(cudaStreamCreateWithFlags(&context_.stream, cudaStreamNonBlocking), "create a stream");
    check_blas(cublasCreate(&context_.cublas), "create a cuBLAS handle");
    // The stream first: setting it takes the workspace away again.
    check_blas(cublasSetStream(context_.cublas, context_.stream), "set the cuBLAS stream");
    check_blas(cublasSetWorkspace(context_.cublas, blas_workspace_.get(), blas_bytes),
               "set the cuBLAS workspace");
    context_.workspace = static_cast<float*>(workspace_.get());
    context_.scalars = static_cast<double*>(scalars_.get());
    context_.tf32 = options.tf32;
    context_.max_dynamic_shared = properties_.sharedMemPerBlockOptin;
  }
  ~CudaBackend() override {
    cudaGraph_t unfinished = nullptr;
    if (capturing_) cudaStreamEndCapture(context_.stream, &unfinished);
    if (unfinished) cudaGraphDestroy(unfinished);
    if (context_.stream) cudaStreamSynchronize(context_.stream);
    for (const auto& [signature, graph] : graphs_) cudaGraphExecDestroy(graph);
    if (context_.cublas) cublasDestroy(context_.cublas);
    if (context_.stream) cudaStreamDestroy(context_.stream);
  }

  const char* name() const override { return "cuda"; }
  std::string description() const override {
    int version = 0;
    cudaRuntimeGetVersion(&version);
    return fmt::format("{}, {:.1f} GiB, compute capability {}.{}, CUDA {}.{}{}", properties_.name,
                       double(properties_.totalGlobalMem) / double(1 << 30), properties_.major,
                       properties_.minor, version / 1000, version % 1000 / 10,
                       context_.tf32 ? ", TF32" : "");
  }
  bool supports(DType type) const override { return type != DType::f64; }
  bool host_accessible() const override { return false; }

  void* allocate(size_t bytes) override { return allocate_memory(bytes); }
  // Called by destructors. After a failure of the device this fails as well, and the failure is on
  // its way as an exception already.
  void release(void* pointer, size_t) override { cudaFree(pointer); }
  void copy_to_device(void* device, const void* host, size_t bytes) override {
    // The driver would record the address and read whatever is there at each replay.
    LONGSHOT_CHECK(!capturing_,
                   "cuda: {} bytes are copied from the host in a step that is being captured",
                   bytes);
    copy(device, host, bytes, cudaMemcpyHostToDevice, "copy to the device");
  }
  void copy_to_host(void* host, const void* device, size_t bytes) override {
    copy(host, device, bytes, cudaMemcpyDeviceToHost, "copy to the host");
    synchronize();
  }
  void copy_on_device(void* to, const void* from, size_t bytes) override {
    copy(to, from, bytes, cudaMemcpyDeviceToDevice, "copy on the device");
  }
  void fill_zero(void* device, size_t bytes) override {
    if (bytes) check(cudaMemsetAsync(device, 0, bytes, context_.stream), "fill with zero");
  }
  void synchronize() override { check(cudaStreamSynchronize(context_.stream), "wait"); }

  void begin_capture() override {
    check(cudaStreamBeginCapture(context_.stream, cudaStreamCaptureModeThreadLocal),
          "begin a capture");
    capturing_ = true;
  }
  bool end_capture(const std::string& signature, std::string* reason) override {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    cudaError_t error = cudaStreamEndCapture(context_.stream, &graph);
    capturing_ = false;
    if (error == cudaSuccess) error = cudaGraphInstantiate(&executable, graph, 0);
    if (graph) cudaGraphDestroy(graph);
    if (error != cudaSuccess) {
      *reason = cudaGetErrorString(error);
      cudaGetLastError();  // the stream goes on
      return false;
    }
    forget(signature);
    try {
      graphs_[signature] = executable;
    } catch (...) {
      cudaGraphExecDestroy(executable);
      throw;
    }
    return true;
  }
  void replay(const std::string& signature) override {
    const auto found = graphs_.find(signature);
    LONGSHOT_CHECK(found != graphs_.end(), "cuda: no step was captured as \"{}\"", signature);
    check(cudaGraphLaunch(found->second, context_.stream), "replay a step");
  }
  void forget(const std::string& signature) override {
    const auto found = graphs_.find(signature);
    if (found == graphs_.end()) return;
    cudaStreamSynchronize(context_.stream);  // it may still be running
    cudaGraphExecDestroy(found->second);
    graphs_.erase(found);
  }

  void gemm(const GemmArgs& a) override { call("gemm", a, cuda::gemm); }
  void split_heads(const HeadsArgs& a) override { call("split_heads", a, cuda::split_heads); }
  void merge_heads(const HeadsArgs& a) override { call("merge_heads", a, cuda::merge_heads); }
  void unary(const UnaryArgs& a) override { call("unary", a, cuda::unary); }
  void unary_backward(const UnaryBackwardArgs& a) override {
    call("unary_backward", a, cuda::unary_backward);
  }
  void activation_backward(const ActivationBackwardArgs& a) override {
    call("activation_backward", a, cuda::activation_backward);
  }
  void affine(const AffineArgs& a) override { call("affine", a, cuda::affine); }
  void binary(const BinaryArgs& a) override { call("binary", a, cuda::binary); }
  void scale_rows(const ScaleRowsArgs& a) override { call("scale_rows", a, cuda::scale_rows); }
  void reduce(const ReduceArgs& a) override { call("reduce", a, cuda::reduce); }
  void expand(const ExpandArgs& a) override { call("expand", a, cuda::expand); }
  void softmax(const SoftmaxArgs& a) override { call("softmax", a, cuda::softmax); }
  void softmax_backward(const SoftmaxBackwardArgs& a) override {
    call("softmax_backward", a, cuda::softmax_backward);
  }
  void permute(const PermuteArgs& a) override { move("permute", a, cuda::permute); }
  void copy_chunks(const CopyChunksArgs& a) override { move("copy_chunks", a, cuda::copy_chunks); }
  void gather(const GatherArgs& a) override { call("gather", a, cuda::gather); }
  void gather_backward(const GatherBackwardArgs& a) override {
    call("gather_backward", a, cuda::gather_backward);
  }
  void dropout(const DropoutArgs& a) override { call("dropout", a, cuda::dropout); }
  void norm(const NormArgs& a) override { call("norm", a, cuda::norm); }
  void norm_backward(const NormBackwardArgs& a) override {
    call("norm_backward", a, cuda::norm_backward);
  }
  void embedding(const EmbeddingArgs& a) override { call("embedding", a, cuda::embedding); }
  void embedding_backward(const EmbeddingBackwardArgs& a) override {
    call("embedding_backward", a, cuda::embedding_backward);
  }
  void rotate(const RotateArgs& a) override { call("rotate", a, cuda::rotate); }
  void cross_entropy(const CrossEntropyArgs& a) override {
    call("cross_entropy", a, cuda::cross_entropy);
  }
  void cross_entropy_backward(const CrossEntropyBackwardArgs& a) override {
    call("cross_entropy_backward", a, cuda::cross_entropy_backward);
  }
  void pointwise_loss(const PointwiseLossArgs& a) override {
    call("pointwise_loss", a, cuda::pointwise_loss);
  }
  void pointwise_loss_backward(const PointwiseLossBackwardArgs& a) override {
    call("pointwise_loss_backward", a, cuda::pointwise_loss_backward);
  }
  void argmax(const ArgmaxArgs& a) override { call("argmax", a, cuda::argmax); }
  void attention(const AttentionArgs& a) override { call("attention", a, cuda::attention); }
  void attention_backward(const AttentionBackwardArgs& a) override {
    require_f32("attention_backward", a.forward.dtype);
    cuda::attention_backward(context_, a);
  }
  void clip(const ClipArgs& a) override { call("clip", a, cuda::clip); }
  void adam(const AdamArgs& a) override { call("adam", a, cuda::adam); }

 private:
  explicit CudaBackend(int device) : device_(device) {}
  static void require_f32(const char* what, DType type) {
    LONGSHOT_CHECK(type == DType::f32, "cuda: {}: only f32 runs on this device, got {}", what,
                   name_of(type));
  }
  template <class Args>
  void call(const char* what, const Args& args, void (*f)(const Context&, const Args&)) {
    require_f32(what, args.dtype);
    f(context_, args);
  }
  // Elements are only moved, so any four bytes will do.
  template <class Args>
  void move(const char* what, const Args& args, void (*f)(const Context&, const Args&)) {
    if (args.dtype != DType::i32 || args.accumulate) require_f32(what, args.dtype);
    f(context_, args);
  }
  void copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, const char* what) {
    if (bytes) check(cudaMemcpyAsync(to, from, bytes, kind, context_.stream), what);
  }

  int device_;
  bool capturing_ = false;
  cudaDeviceProp properties_{};
  DeviceMemory workspace_, scalars_, blas_workspace_;
  Context context_;
  std::map<std::string, cudaGraphExec_t> graphs_;
};

}  // namespace

std::unique_ptr<Backend> make_cuda_backend(const CudaOptions& options) {
  return std::make_unique<CudaBackend>(options);
}

}  // namespace longshot::cuda
