// The CPU backend: memory, and the dispatch from argument structs to typed kernels.
#include "core/cpu/cpu_backend.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <fmt/format.h>
#include <fstream>

#include "core/cpu/activation.h"
#include "core/cpu/attention.h"
#include "core/cpu/cross_entropy.h"
#include "core/cpu/dropout.h"
#include "core/cpu/elementwise.h"
#include "core/cpu/embedding.h"
#include "core/cpu/feed_forward.h"
#include "core/cpu/gather.h"
#include "core/cpu/gemm.h"
#include "core/cpu/layout.h"
#include "core/cpu/norm.h"
#include "core/cpu/optimizer.h"
#include "core/cpu/pages.h"
#include "core/cpu/pieces.h"
#include "core/cpu/pointwise_loss.h"
#include "core/cpu/reduce.h"
#include "core/cpu/rotate.h"
#include "core/cpu/simd.h"
#include "core/cpu/softmax.h"

namespace longshot {
namespace {

constexpr int64_t kCopyPiece = 256 * 1024;  // bytes

std::string processor_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    const size_t colon = line.find(": ");
    if (line.rfind("model name", 0) == 0 && colon != std::string::npos)
      return line.substr(colon + 2);
  }
  return "unknown processor";
}

// Calls kernel.operator()<T>() for the type that `dtype` names.
template <class Kernel>
void dispatch(const char* name, DType dtype, const Kernel& kernel) {
  switch (dtype) {
    case DType::f32:
      return kernel.template operator()<float>();
    case DType::f64:
      return kernel.template operator()<double>();
    case DType::i32:
      break;
  }
  throw Error(fmt::format("{}: no CPU kernel for {}; it takes f32 or f64", name, name_of(dtype)));
}

class CpuBackend final : public Backend {
 public:
  const char* name() const override { return "cpu"; }
  std::string description() const override {
    return fmt::format("{}, {} thread{}, {}-bit vectors", processor_name(), threads(),
                       threads() == 1 ? "" : "s", 8 * cpu::kVectorBytes);
  }
  bool supports(DType) const override { return true; }
  bool host_accessible() const override { return true; }
  bool fuses_relative_keys() const override { return true; }

  void* allocate(size_t bytes) override {
    void* block = cpu::allocate_pages(bytes);
    if (block == nullptr) {
      throw Error(fmt::format("cpu: out of memory: {} bytes ({:.1f} MiB) asked for", bytes,
                              double(bytes) / 1048576.0));
    }
    return block;
  }
  void release(void* pointer, size_t) override { cpu::release_pages(pointer); }
  void copy_to_device(void* device, const void* host, size_t bytes) override {
    copy_on_device(device, host, bytes);
  }
  void copy_to_host(void* host, const void* device, size_t bytes) override {
    copy_on_device(host, device, bytes);
  }
  void copy_on_device(void* to, const void* from, size_t bytes) override {
    for_bytes(bytes, [&](int64_t begin, int64_t end) {
      std::memcpy(static_cast<char*>(to) + begin, static_cast<const char*>(from) + begin,
                  size_t(end - begin));
    });
  }
  void fill_zero(void* device, size_t bytes) override {
    for_bytes(bytes, [&](int64_t begin, int64_t end) {
      std::memset(static_cast<char*>(device) + begin, 0, size_t(end - begin));
    });
  }
  void synchronize() override {}

  void gemm(const GemmArgs& args) override { cpu::gemm(args); }
  // The weights in their packed forms and the sums of their gradients, five arrays in all, have to
  // share a second-level cache of 2 MB with a block of the hidden layer.
  bool fuses_feed_forward(const FeedForwardArgs& args) const override {
    constexpr int64_t kMostElements = 160 * 1024;  // of both weights: dim 128, hidden 512 and below
    return args.hidden * (args.inner + args.columns) <= kMostElements;
  }
  void feed_forward(const FeedForwardArgs& args) override {
    dispatch("feed_forward", args.dtype, [&]<class T>() { cpu::feed_forward<T>(args); });
  }
  void feed_forward_backward(const FeedForwardBackwardArgs& args) override {
    dispatch("feed_forward_backward", args.forward.dtype,
             [&]<class T>() { cpu::feed_forward_backward<T>(args); });
  }
  void attention(const AttentionArgs& args) override { cpu::attention(args); }
  void attention_backward(const AttentionBackwardArgs& args) override {
    cpu::attention_backward(args);
  }
  void split_heads(const HeadsArgs& args) override {
    dispatch("split_heads", args.dtype, [&]<class T>() { cpu::split_heads<T>(args); });
  }
  void merge_heads(const HeadsArgs& args) override {
    dispatch("merge_heads", args.dtype, [&]<class T>() { cpu::merge_heads<T>(args); });
  }
  void unary(const UnaryArgs& args) override {
    dispatch("unary", args.dtype, [&]<class T>() { cpu::unary<T>(args); });
  }
  void unary_backward(const UnaryBackwardArgs& args) override {
    dispatch("unary_backward", args.dtype, [&]<class T>() { cpu::unary_backward<T>(args); });
  }
  void activation_backward(const ActivationBackwardArgs& args) override {
    dispatch("activation_backward", args.dtype,
             [&]<class T>() { cpu::activation_backward<T>(args); });
  }
  void affine(const AffineArgs& args) override {
    dispatch("affine", args.dtype, [&]<class T>() { cpu::affine<T>(args); });
  }
  void binary(const BinaryArgs& args) override {
    dispatch("binary", args.dtype, [&]<class T>() { cpu::binary<T>(args); });
  }
  void scale_rows(const ScaleRowsArgs& args) override {
    dispatch("scale_rows", args.dtype, [&]<class T>() { cpu::scale_rows<T>(args); });
  }
  void reduce(const ReduceArgs& args) override {
    dispatch("reduce", args.dtype, [&]<class T>() { cpu::reduce<T>(args); });
  }
  void expand(const ExpandArgs& args) override {
    dispatch("expand", args.dtype, [&]<class T>() { cpu::expand<T>(args); });
  }
  void softmax(const SoftmaxArgs& args) override {
    dispatch("softmax", args.dtype, [&]<class T>() { cpu::softmax<T>(args); });
  }
  void softmax_backward(const SoftmaxBackwardArgs& args) override {
    dispatch("softmax_backward", args.dtype, [&]<class T>() { cpu::softmax_backward<T>(args); });
  }
  void permute(const PermuteArgs& args) override {
    dispatch("permute", args.dtype, [&]<class T>() { cpu::permute<T>(args); });
  }
  void copy_chunks(const CopyChunksArgs& args) override {
    dispatch("copy_chunks", args.dtype, [&]<class T>() { cpu::copy_chunks<T>(args); });
  }
  void gather(const GatherArgs& args) override {
    dispatch("gather", args.dtype, [&]<class T>() { cpu::gather<T>(args); });
  }
  void gather_backward(const GatherBackwardArgs& args) override {
    dispatch("gather_backward", args.dtype, [&]<class T>() { cpu::gather_backward<T>(args); });
  }
  void dropout(const DropoutArgs& args) override {
    dispatch("dropout", args.dtype, [&]<class T>() { cpu::dropout<T>(args); });
  }
  void norm(const NormArgs& args) override {
    dispatch("norm", args.dtype, [&]<class T>() { cpu::norm<T>(args); });
  }
  void norm_backward(const NormBackwardArgs& args) override {
    dispatch("norm_backward", args.dtype, [&]<class T>() { cpu::norm_backward<T>(args); });
  }
  void embedding(const EmbeddingArgs& args) override {
    dispatch("embedding", args.dtype, [&]<class T>() { cpu::embedding<T>(args); });
  }
  void embedding_backward(const EmbeddingBackwardArgs& args) override {
    dispatch("embedding_backward", args.dtype,
             [&]<class T>() { cpu::embedding_backward<T>(args); });
  }
  void rotate(const RotateArgs& args) override {
    dispatch("rotate", args.dtype, [&]<class T>() { cpu::rotate<T>(args); });
  }
  void cross_entropy(const CrossEntropyArgs& args) override {
    dispatch("cross_entropy", args.dtype, [&]<class T>() { cpu::cross_entropy<T>(args); });
  }
  void cross_entropy_backward(const CrossEntropyBackwardArgs& args) override {
    dispatch("cross_entropy_backward", args.dtype,
             [&]<class T>() { cpu::cross_entropy_backward<T>(args); });
  }
  void pointwise_loss(const PointwiseLossArgs& args) override {
    dispatch("pointwise_loss", args.dtype, [&]<class T>() { cpu::pointwise_loss<T>(args); });
  }
  void pointwise_loss_backward(const PointwiseLossBackwardArgs& args) override {
    dispatch("pointwise_loss_backward", args.dtype,
             [&]<class T>() { cpu::pointwise_loss_backward<T>(args); });
  }
  void argmax(const ArgmaxArgs& args) override {
    dispatch("argmax", args.dtype, [&]<class T>() { cpu::argmax<T>(args); });
  }
  void clip(const ClipArgs& args) override {
    dispatch("clip", args.dtype, [&]<class T>() { cpu::clip<T>(args); });
  }
  void adam(const AdamArgs& args) override {
    dispatch("adam", args.dtype, [&]<class T>() { cpu::adam<T>(args); });
  }

 private:
  template <class Body>
  static void for_bytes(size_t bytes, const Body& body) {
    cpu::for_ranges(int64_t(bytes), kCopyPiece, 1, body);
  }
};

}  // namespace

std::unique_ptr<Backend> make_cpu_backend() {
  return std::make_unique<CpuBackend>();
}

}  // namespace longshot
