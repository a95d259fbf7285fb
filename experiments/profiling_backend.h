// ProfilingBackend: any backend with a clock around each method.
//
//   auto profiler = std::make_unique<ProfilingBackend>(make_backend("cpu"));
//   ... build a model on *profiler, warm up ...
//   profiler->start();  ... steps ...  profiler->stop();
//   for (const OperationTime& each : profiler->times()) ...
//
// Each call is waited for, so that its time is its own; on an asynchronous device the sum of the
// parts is then more than an unprofiled step. What a call costs is also counted from its arguments:
// floating-point operations where arithmetic is the limit (matrix products, attention), else the
// bytes it must move, each array once. Between stop() and start() calls are only passed on. For one
// thread of callers.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/backend.h"

namespace longshot {

enum class Limit : uint8_t { arithmetic, bandwidth, none };  // none: waiting, allocation

struct OperationTime {
  std::string
      name;  // the method, matrix products with what tells them apart: "gemm a b^T, 192 x 64"
  Limit limit = Limit::none;
  int64_t calls = 0;
  double seconds = 0;
  double operations = 0;  // limit arithmetic: a multiply-add is two
  double bytes = 0;       // limit bandwidth: read and written
};

class ProfilingBackend final : public Backend {
 public:
  explicit ProfilingBackend(std::unique_ptr<Backend> inner);

  void start();  // from nothing
  void stop() { recording_ = false; }
  std::vector<OperationTime> times() const;  // most time first
  double total_seconds() const;

  const char* name() const override { return inner_->name(); }
  std::string description() const override { return inner_->description(); }
  bool supports(DType type) const override { return inner_->supports(type); }
  bool host_accessible() const override { return inner_->host_accessible(); }
  bool fuses_relative_keys() const override { return inner_->fuses_relative_keys(); }

  void* allocate(size_t bytes) override;
  void release(void* pointer, size_t bytes) override;
  void copy_to_device(void* device, const void* host, size_t bytes) override;
  void copy_to_host(void* host, const void* device, size_t bytes) override;
  void copy_on_device(void* to, const void* from, size_t bytes) override;
  void fill_zero(void* device, size_t bytes) override;
  void synchronize() override;

  void gemm(const GemmArgs& args) override;
  bool fuses_feed_forward(const FeedForwardArgs& args) const override {
    return inner_->fuses_feed_forward(args);
  }
  void feed_forward(const FeedForwardArgs& args) override;
  void feed_forward_backward(const FeedForwardBackwardArgs& args) override;
  void split_heads(const HeadsArgs& args) override;
  void merge_heads(const HeadsArgs& args) override;
  void unary(const UnaryArgs& args) override;
  void unary_backward(const UnaryBackwardArgs& args) override;
  void activation_backward(const ActivationBackwardArgs& args) override;
  void affine(const AffineArgs& args) override;
  void binary(const BinaryArgs& args) override;
  void scale_rows(const ScaleRowsArgs& args) override;
  void reduce(const ReduceArgs& args) override;
  void expand(const ExpandArgs& args) override;
  void softmax(const SoftmaxArgs& args) override;
  void softmax_backward(const SoftmaxBackwardArgs& args) override;
  void permute(const PermuteArgs& args) override;
  void copy_chunks(const CopyChunksArgs& args) override;
  void gather(const GatherArgs& args) override;
  void gather_backward(const GatherBackwardArgs& args) override;
  void dropout(const DropoutArgs& args) override;
  void norm(const NormArgs& args) override;
  void norm_backward(const NormBackwardArgs& args) override;
  void embedding(const EmbeddingArgs& args) override;
  void embedding_backward(const EmbeddingBackwardArgs& args) override;
  void rotate(const RotateArgs& args) override;
  void cross_entropy(const CrossEntropyArgs& args) override;
  void cross_entropy_backward(const CrossEntropyBackwardArgs& args) override;
  void pointwise_loss(const PointwiseLossArgs& args) override;
  void pointwise_loss_backward(const PointwiseLossBackwardArgs& args) override;
  void argmax(const ArgmaxArgs& args) override;
  void attention(const AttentionArgs& args) override;
  void attention_backward(const AttentionBackwardArgs& args) override;
  void clip(const ClipArgs& args) override;
  void adam(const AdamArgs& args) override;

 private:
  using Clock = std::chrono::steady_clock;
  // Calls and, while recording, times it. `describe` makes the name only then.
  template <class Call, class Name>
  void timed(Limit limit, double amount, const Call& call, const Name& describe);
  template <class Call>
  void timed_bytes(const char* name, double bytes, const Call& call);
  template <class Call>
  void timed_operations(const char* name, double operations, const Call& call);

  std::unique_ptr<Backend> inner_;
  bool recording_ = false;
  std::map<std::string, OperationTime> times_;
};

}  // namespace longshot
