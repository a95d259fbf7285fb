#include "core/shape.h"

namespace longshot {

std::string Shape::to_string() const {
  std::string text = "(";
  for (int i = 0; i < rank_; ++i) {
    if (i > 0) text += ", ";
    text += fmt::format("{}", extents_[i]);
  }
  return text + ")";
}

}  // namespace longshot
