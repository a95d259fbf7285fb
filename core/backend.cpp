// Methods that a backend need not have. Whoever calls them has asked before whether it has.
#include "core/backend.h"

#include "core/error.h"

namespace longshot {

void Backend::feed_forward(const FeedForwardArgs&) {
  throw Error(fmt::format("feed_forward: the {} backend has no kernel for both layers", name()));
}
void Backend::feed_forward_backward(const FeedForwardBackwardArgs&) {
  throw Error(
      fmt::format("feed_forward_backward: the {} backend has no kernel for both layers", name()));
}

}  // namespace longshot
