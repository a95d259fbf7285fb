#include "core/tape.h"

#include "core/context.h"

namespace longshot {

void* Tape::allocate(size_t bytes, size_t alignment) {
  LONGSHOT_CHECK(bytes <= kChunkBytes, "tape: a node of {} bytes is larger than a chunk", bytes);
  offset_ = (offset_ + alignment - 1) / alignment * alignment;
  if (chunk_ < chunks_.size() && offset_ + bytes > kChunkBytes) {
    ++chunk_;
    offset_ = 0;
  }
  if (chunk_ == chunks_.size()) {
    chunks_.push_back(std::make_unique<std::byte[]>(kChunkBytes));
    offset_ = 0;
  }
  void* memory = chunks_[chunk_].get() + offset_;
  offset_ += bytes;
  return memory;
}

void Tape::backward(const Tensor& loss) {
  LONGSHOT_CHECK(loss.elements() == 1, "backward: the loss must have one element, {} has {}",
                 loss.shape().to_string(), loss.elements());
  LONGSHOT_CHECK(
      loss.requires_gradient() && !nodes_.empty(),
      "backward: nothing was recorded for this loss (no input wants a gradient, recording is "
      "off, or backward has run already)");
  LONGSHOT_CHECK(!loss.has_gradient(), "backward: this loss has been differentiated already");
  Gradient seed(loss);
  const Gradient::Target target = seed.target();
  loss.context().fill(target.data, loss.dtype(), 1, 1.0);
  struct Destroy {
    void operator()(Node* node) const { node->~Node(); }
  };
  while (!nodes_.empty()) {
    // Destroyed in any case: what a node throws must not keep what it saved.
    const std::unique_ptr<Node, Destroy> node(nodes_.back());
    nodes_.pop_back();
    if (node->reached()) node->backward();
  }
  chunk_ = 0;
  offset_ = 0;
}

void Tape::clear() {
  while (!nodes_.empty()) {
    Node* node = nodes_.back();
    nodes_.pop_back();
    node->~Node();
  }
  chunk_ = 0;
  offset_ = 0;
}

}  // namespace longshot
