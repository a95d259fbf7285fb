// What each method costs, from its arguments. Bytes count every array that is there once, and an
// output that is added to twice (read and written); caches may make it less, never algorithms.
#include "experiments/profiling_backend.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

namespace longshot {
namespace {

double size(DType type) {
  return double(size_of(type));
}

// Passes over an output: one to write it, two to add to it, none if it is not wanted.
double passes(const void* output, bool accumulate) {
  return output == nullptr ? 0 : accumulate ? 2 : 1;
}
double passes(const void* input) {
  return input == nullptr ? 0 : 1;
}

double feed_forward_products(const FeedForwardArgs& args, double up, double down) {
  return 2 * double(args.rows) * double(args.hidden) *
         (up * double(args.inner) + down * double(args.columns));
}

// Products of queries with keys: (B H T S D) multiply-adds each, half of them when later keys are
// not seen. Relative keys are one more in each pass, two more for their gradients.
double attention_products(const AttentionArgs& args, double products) {
  const AttentionShape& s = args.shape;
  const double all = 2 * double(s.batch) * double(s.heads) * double(s.queries) * double(s.keys) *
                     double(s.head_dim);
  if (args.relative_key != nullptr) products += products > 2 ? 3 : 1;
  return products * (args.causal ? all / 2 : all);
}

// Training steps hold three products for every weight (out, in): x W^T, dy W and dy^T x, told apart
// by what is transposed. The name has the weight's shape and not the number of tokens, so that
// batches of many lengths give one line.
std::string gemm_name(const GemmArgs& args) {
  const char* kind = args.transpose_a   ? (args.transpose_b ? "a^T b^T" : "a^T b")
                     : args.transpose_b ? "a b^T"
                                        : "a b";
  if (args.batch > 1) return fmt::format("gemm {}, batched", kind);
  if (args.transpose_a) return fmt::format("gemm {}, {} x {}", kind, args.rows, args.columns);
  return args.transpose_b ? fmt::format("gemm {}, {} x {}", kind, args.columns, args.inner)
                          : fmt::format("gemm {}, {} x {}", kind, args.inner, args.columns);
}

}  // namespace

ProfilingBackend::ProfilingBackend(std::unique_ptr<Backend> inner) : inner_(std::move(inner)) {}

void ProfilingBackend::start() {
  times_.clear();
  recording_ = true;
}

std::vector<OperationTime> ProfilingBackend::times() const {
  std::vector<OperationTime> result;
  for (const auto& [name, time] : times_) result.push_back(time);
  std::stable_sort(
      result.begin(), result.end(),
      [](const OperationTime& a, const OperationTime& b) { return a.seconds > b.seconds; });
  return result;
}

double ProfilingBackend::total_seconds() const {
  double total = 0;
  for (const auto& [name, time] : times_) total += time.seconds;
  return total;
}

template <class Call, class Name>
void ProfilingBackend::timed(Limit limit, double amount, const Call& call, const Name& describe) {
  if (!recording_) return call();
  const Clock::time_point begin = Clock::now();
  call();
  inner_->synchronize();
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  const std::string name = describe();
  OperationTime& time = times_[name];
  time.name = name;
  time.limit = limit;
  ++time.calls;
  time.seconds += seconds;
  (limit == Limit::arithmetic ? time.operations : time.bytes) += amount;
}

template <class Call>
void ProfilingBackend::timed_bytes(const char* name, double bytes, const Call& call) {
  timed(Limit::bandwidth, bytes, call, [name] { return std::string(name); });
}
template <class Call>
void ProfilingBackend::timed_operations(const char* name, double operations, const Call& call) {
  timed(Limit::arithmetic, operations, call, [name] { return std::string(name); });
}

// ---- memory ------------------------------------------------------------------------------------

void* ProfilingBackend::allocate(size_t bytes) {
  void* result = nullptr;
  timed(
      Limit::none, 0, [&] { result = inner_->allocate(bytes); },
      [] { return std::string("allocate"); });
  return result;
}
void ProfilingBackend::release(void* pointer, size_t bytes) {
  timed(
      Limit::none, 0, [&] { inner_->release(pointer, bytes); },
      [] { return std::string("release"); });
}
void ProfilingBackend::synchronize() {
  timed(
      Limit::none, 0, [&] { inner_->synchronize(); }, [] { return std::string("synchronize"); });
}
void ProfilingBackend::copy_to_device(void* device, const void* host, size_t bytes) {
  timed_bytes("copy_to_device", 2 * double(bytes),
              [&] { inner_->copy_to_device(device, host, bytes); });
}
void ProfilingBackend::copy_to_host(void* host, const void* device, size_t bytes) {
  timed_bytes("copy_to_host", 2 * double(bytes),
              [&] { inner_->copy_to_host(host, device, bytes); });
}
void ProfilingBackend::copy_on_device(void* to, const void* from, size_t bytes) {
  timed_bytes("copy_on_device", 2 * double(bytes),
              [&] { inner_->copy_on_device(to, from, bytes); });
}
void ProfilingBackend::fill_zero(void* device, size_t bytes) {
  timed_bytes("fill_zero", double(bytes), [&] { inner_->fill_zero(device, bytes); });
}

// ---- limited by arithmetic ---------------------------------------------------------------------

void ProfilingBackend::gemm(const GemmArgs& a) {
  const double operations =
      2 * double(a.rows) * double(a.columns) * double(a.inner) * double(a.batch);
  timed(
      Limit::arithmetic, operations, [&] { inner_->gemm(a); }, [&] { return gemm_name(a); });
}
// Forward: two products. Backward makes the first again; then the gradients of the hidden layer,
// both weights and x.
void ProfilingBackend::feed_forward(const FeedForwardArgs& a) {
  timed_operations("feed_forward", feed_forward_products(a, 1, 1),
                   [&] { inner_->feed_forward(a); });
}
void ProfilingBackend::feed_forward_backward(const FeedForwardBackwardArgs& a) {
  timed_operations("feed_forward_backward", feed_forward_products(a.forward, 3, 2),
                   [&] { inner_->feed_forward_backward(a); });
}
// Forward: q k^T and p v. Backward makes the logits again: q k^T, dout v^T, p^T dout, ds k, ds^T q.
void ProfilingBackend::attention(const AttentionArgs& a) {
  timed_operations("attention", attention_products(a, 2), [&] { inner_->attention(a); });
}
void ProfilingBackend::attention_backward(const AttentionBackwardArgs& a) {
  timed_operations("attention_backward", attention_products(a.forward, 5),
                   [&] { inner_->attention_backward(a); });
}

// ---- limited by memory -------------------------------------------------------------------------

void ProfilingBackend::split_heads(const HeadsArgs& a) {
  const double n = double(a.batch * a.length * a.heads * a.head_dim * a.parts);
  timed_bytes("split_heads", size(a.dtype) * n * (a.accumulate ? 3 : 2),
              [&] { inner_->split_heads(a); });
}
void ProfilingBackend::merge_heads(const HeadsArgs& a) {
  const double n = double(a.batch * a.length * a.heads * a.head_dim * a.parts);
  timed_bytes("merge_heads", size(a.dtype) * n * (a.accumulate ? 3 : 2),
              [&] { inner_->merge_heads(a); });
}
void ProfilingBackend::unary(const UnaryArgs& a) {
  timed_bytes("unary", size(a.dtype) * double(a.n) * 2, [&] { inner_->unary(a); });
}
void ProfilingBackend::unary_backward(const UnaryBackwardArgs& a) {
  // The input or the output, whichever the function's derivative reads.
  timed_bytes("unary_backward", size(a.dtype) * double(a.n) * (2 + passes(a.dx, a.accumulate)),
              [&] { inner_->unary_backward(a); });
}
void ProfilingBackend::activation_backward(const ActivationBackwardArgs& a) {
  const double read = a.activation == Activation::none ? 1 : 2;
  timed_bytes("activation_backward",
              size(a.dtype) * (double(a.rows * a.columns) * (read + passes(a.dx, false)) +
                               double(a.columns) * passes(a.dbias, a.accumulate_dbias)),
              [&] { inner_->activation_backward(a); });
}
void ProfilingBackend::affine(const AffineArgs& a) {
  timed_bytes("affine", size(a.dtype) * double(a.n) * (1 + passes(a.y, a.accumulate)),
              [&] { inner_->affine(a); });
}
void ProfilingBackend::binary(const BinaryArgs& a) {
  timed_bytes("binary",
              size(a.dtype) * (double(a.n) * (1 + passes(a.out, a.accumulate)) + double(a.period)),
              [&] { inner_->binary(a); });
}
void ProfilingBackend::scale_rows(const ScaleRowsArgs& a) {
  timed_bytes("scale_rows",
              size(a.dtype) *
                  (double(a.rows * a.columns) * (1 + passes(a.out, a.accumulate)) + double(a.rows)),
              [&] { inner_->scale_rows(a); });
}
void ProfilingBackend::reduce(const ReduceArgs& a) {
  timed_bytes("reduce",
              size(a.dtype) * (double(a.outer * a.reduced * a.inner) * (1 + passes(a.weight)) +
                               double(a.outer * a.inner) * passes(a.out, a.accumulate)),
              [&] { inner_->reduce(a); });
}
void ProfilingBackend::expand(const ExpandArgs& a) {
  timed_bytes("expand",
              size(a.dtype) * double(a.outer * a.inner) *
                  (1 + double(a.repeat) * passes(a.out, a.accumulate)),
              [&] { inner_->expand(a); });
}
void ProfilingBackend::softmax(const SoftmaxArgs& a) {
  timed_bytes("softmax", size(a.dtype) * double(a.rows * a.columns) * 2,
              [&] { inner_->softmax(a); });
}
void ProfilingBackend::softmax_backward(const SoftmaxBackwardArgs& a) {
  timed_bytes("softmax_backward",
              size(a.dtype) * double(a.rows * a.columns) * (2 + passes(a.dx, a.accumulate)),
              [&] { inner_->softmax_backward(a); });
}
void ProfilingBackend::permute(const PermuteArgs& a) {
  timed_bytes("permute",
              size(a.dtype) * double(a.shape.elements()) * (1 + passes(a.out, a.accumulate)),
              [&] { inner_->permute(a); });
}
void ProfilingBackend::copy_chunks(const CopyChunksArgs& a) {
  timed_bytes("copy_chunks",
              size(a.dtype) * double(a.outer * a.chunk) * (1 + passes(a.out, a.accumulate)),
              [&] { inner_->copy_chunks(a); });
}
void ProfilingBackend::gather(const GatherArgs& a) {
  timed_bytes("gather",
              size(a.dtype) * double(a.outer * a.rows * a.columns) * 2 +
                  4 * double(a.index_batches * a.rows * a.columns),
              [&] { inner_->gather(a); });
}
void ProfilingBackend::gather_backward(const GatherBackwardArgs& a) {
  timed_bytes("gather_backward",
              size(a.dtype) * (double(a.outer * a.rows * a.columns) +
                               double(a.outer * a.rows * a.source) * passes(a.dx, a.accumulate)) +
                  4 * double(a.index_batches * a.rows * a.columns),
              [&] { inner_->gather_backward(a); });
}
void ProfilingBackend::dropout(const DropoutArgs& a) {
  timed_bytes("dropout", size(a.dtype) * double(a.n) * (1 + passes(a.y, a.accumulate)),
              [&] { inner_->dropout(a); });
}
void ProfilingBackend::norm(const NormArgs& a) {
  const double arrays = passes(a.x) + passes(a.residual) + passes(a.sum) + passes(a.y);
  timed_bytes("norm", size(a.dtype) * (double(a.rows * a.columns) * arrays + 2 * double(a.rows)),
              [&] { inner_->norm(a); });
}
void ProfilingBackend::norm_backward(const NormBackwardArgs& a) {
  const double arrays = passes(a.sum) + passes(a.dy) + passes(a.dsum) +
                        passes(a.dx, a.accumulate_dx) + passes(a.dresidual, a.accumulate_dresidual);
  timed_bytes("norm_backward",
              size(a.dtype) * (double(a.rows * a.columns) * arrays + 2 * double(a.rows)),
              [&] { inner_->norm_backward(a); });
}
void ProfilingBackend::embedding(const EmbeddingArgs& a) {
  timed_bytes("embedding", size(a.dtype) * double(a.count * a.columns) * 2 + 4 * double(a.count),
              [&] { inner_->embedding(a); });
}
void ProfilingBackend::embedding_backward(const EmbeddingBackwardArgs& a) {
  timed_bytes("embedding_backward",
              size(a.dtype) * (double(a.count * a.columns) +
                               double(a.rows * a.columns) * passes(a.dtable, a.accumulate)) +
                  4 * double(a.count),
              [&] { inner_->embedding_backward(a); });
}
void ProfilingBackend::rotate(const RotateArgs& a) {
  const double n = double(a.batch * a.heads * a.length * a.head_dim);
  timed_bytes("rotate",
              size(a.dtype) * (n * (1 + passes(a.y, a.accumulate)) +
                               double(a.angle_batches * a.length * a.width)),
              [&] { inner_->rotate(a); });
}
void ProfilingBackend::cross_entropy(const CrossEntropyArgs& a) {
  timed_bytes("cross_entropy",
              size(a.dtype) * double(a.rows) * (double(a.columns) + 2) + 4 * double(a.rows),
              [&] { inner_->cross_entropy(a); });
}
void ProfilingBackend::cross_entropy_backward(const CrossEntropyBackwardArgs& a) {
  timed_bytes("cross_entropy_backward",
              size(a.dtype) * double(a.rows) *
                      (double(a.columns) * (1 + passes(a.dlogits, a.accumulate)) + 1) +
                  4 * double(a.rows),
              [&] { inner_->cross_entropy_backward(a); });
}
void ProfilingBackend::pointwise_loss(const PointwiseLossArgs& a) {
  timed_bytes("pointwise_loss", (size(a.dtype) * 2 + 4 * passes(a.mask)) * double(a.n),
              [&] { inner_->pointwise_loss(a); });
}
void ProfilingBackend::pointwise_loss_backward(const PointwiseLossBackwardArgs& a) {
  timed_bytes("pointwise_loss_backward",
              (size(a.dtype) * (2 + passes(a.dx, a.accumulate)) + 4 * passes(a.mask)) * double(a.n),
              [&] { inner_->pointwise_loss_backward(a); });
}
void ProfilingBackend::argmax(const ArgmaxArgs& a) {
  timed_bytes("argmax", size(a.dtype) * double(a.rows * a.columns) + 4 * double(a.rows),
              [&] { inner_->argmax(a); });
}
void ProfilingBackend::clip(const ClipArgs& a) {
  timed_bytes("clip", size(a.dtype) * double(a.n), [&] { inner_->clip(a); });
}
// Parameter and both moments read and written, the gradient read.
void ProfilingBackend::adam(const AdamArgs& a) {
  timed_bytes("adam", size(a.dtype) * double(a.n) * 7, [&] { inner_->adam(a); });
}

}  // namespace longshot
