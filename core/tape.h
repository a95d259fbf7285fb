// Tape: reverse-mode differentiation. Operations append nodes in execution order; backward walks
// them in reverse (every consumer of a value comes after its producer, so when a node runs, the
// gradient of its output is complete).
//
// A node is an operation's memory of its forward pass: Tensors it must read again, Gradients of its
// inputs and output. Its backward adds d(loss)/d(input) to each wanted input gradient:
//
//   class ScaleNode final : public Node {          // y = alpha x
//     void backward() override {                   // dx += alpha dy
//       const auto [dx, accumulate] = input_.target();
//       ...
//     }
//   };
//
// `backward` is pure virtual: an operation without a gradient does not compile. Nodes live in
// memory that the tape reuses from step to step and are destroyed as soon as they have run, which
// recycles what they saved.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "core/tensor.h"

namespace longshot {

class Node {
 public:
  virtual ~Node() = default;
  virtual const char* name() const = 0;
  // Whether any gradient reached the node's output; a node that was not reached is skipped.
  virtual bool reached() const = 0;
  virtual void backward() = 0;
};

class Tape {
 public:
  Tape() = default;
  ~Tape() { clear(); }
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  template <class NodeType, class... Arguments>
  void record(Arguments&&... arguments) {
    void* memory = allocate(sizeof(NodeType), alignof(NodeType));
    // First, so that no node is made that could not be kept, and so never destroyed.
    if (nodes_.size() == nodes_.capacity()) nodes_.reserve(2 * nodes_.size() + 64);
    nodes_.push_back(new (memory) NodeType(std::forward<Arguments>(arguments)...));
  }

  // Sets d(loss)/d(loss) = 1 and runs every node once, last first. The tape is empty afterwards:
  // a second backward over the same steps is an Error. `loss` has one element.
  void backward(const Tensor& loss);
  void clear();  // destroys all nodes, last first
  size_t size() const { return nodes_.size(); }

 private:
  void* allocate(size_t bytes, size_t alignment);

  static constexpr size_t kChunkBytes = 64 * 1024;
  std::vector<std::unique_ptr<std::byte[]>> chunks_;
  size_t chunk_ = 0, offset_ = 0;
  std::vector<Node*> nodes_;
};

}  // namespace longshot
