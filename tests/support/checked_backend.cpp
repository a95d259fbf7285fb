#include "tests/support/checked_backend.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace longshot::testing {
namespace {

constexpr size_t kPage = 1024;

template <class T>
T read(const std::vector<unsigned char>& bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

}  // namespace

std::string describe(const GemmArgs& a) {
  return fmt::format("{} products of {} x {} and {} x {}{}{}{}", a.batch, a.rows, a.inner, a.inner,
                     a.columns, a.transpose_a ? ", first transposed" : "",
                     a.transpose_b ? ", second transposed" : "", a.accumulate ? ", added" : "");
}
std::string describe(const HeadsArgs& a) {
  return fmt::format("batch {}, length {}, {} parts, heads {} x {}", a.batch, a.length, a.parts,
                     a.heads, a.head_dim);
}
std::string describe(const PermuteArgs& a) {
  return fmt::format("{} by ({}, {}, {}, {})", a.shape.to_string(), a.perm[0], a.perm[1], a.perm[2],
                     a.perm[3]);
}
std::string describe(const CopyChunksArgs& a) {
  return fmt::format("{} chunks of {}", a.outer, a.chunk);
}
std::string describe(const GatherArgs& a) {
  return fmt::format("({}, {}, {}) to {} columns", a.outer, a.rows, a.source, a.columns);
}
std::string describe(const GatherBackwardArgs& a) {
  return fmt::format("({}, {}, {}) from {} columns", a.outer, a.rows, a.source, a.columns);
}
std::string describe(const RotateArgs& a) {
  return fmt::format("({}, {}, {}, {}), width {}", a.batch, a.heads, a.length, a.head_dim, a.width);
}
std::string describe(const AttentionArgs& a) {
  const AttentionShape& s = a.shape;
  return fmt::format("batch {}, heads {}, queries {}, keys {}, width {}{}{}", s.batch, s.heads,
                     s.queries, s.keys, s.head_dim,
                     a.bias_table   ? fmt::format(", table of reach {}", a.reach)
                     : a.bias_dense ? ", dense bias"
                                    : "",
                     a.causal ? ", causal" : "");
}
std::string describe(const AttentionBackwardArgs& a) {
  return describe(a.forward);
}

CheckedBackend::~CheckedBackend() {
  while (!blocks_.empty()) {
    const auto& [pointer, block] = *blocks_.begin();
    release(pointer, block.image.size());
  }
}

void* CheckedBackend::allocate(size_t bytes) {
  char* trusted = static_cast<char*>(trusted_.allocate(bytes));
  Block& block = blocks_[trusted];
  block.tested = static_cast<char*>(tested_.allocate(bytes));
  block.image.assign(bytes, 0xFF);  // NaN
  trusted_.copy_to_device(trusted, block.image.data(), bytes);
  tested_.copy_to_device(block.tested, block.image.data(), bytes);
  return trusted;
}

void CheckedBackend::release(void* pointer, size_t bytes) {
  const auto found = blocks_.find(static_cast<char*>(pointer));
  LONGSHOT_CHECK(found != blocks_.end(), "checked backend: released what it never gave out");
  tested_.release(found->second.tested, bytes);
  trusted_.release(pointer, bytes);
  blocks_.erase(found);
}

void* CheckedBackend::counterpart(const void* pointer) const {
  char* address = static_cast<char*>(const_cast<void*>(pointer));
  auto found = blocks_.upper_bound(address);
  if (found == blocks_.begin()) return nullptr;
  --found;
  const size_t offset = size_t(address - found->first);
  return offset <= found->second.image.size() ? found->second.tested + offset : nullptr;
}

void CheckedBackend::copy_to_device(void* device, const void* host, size_t bytes) {
  trusted_.copy_to_device(device, host, bytes);
  tested_.copy_to_device(counterpart(device), host, bytes);
  compare("copy_to_device", fmt::format("{} bytes", bytes), {{}, true});
}
void CheckedBackend::copy_to_host(void* host, const void* device, size_t bytes) {
  trusted_.copy_to_host(host, device, bytes);
}
void CheckedBackend::copy_on_device(void* to, const void* from, size_t bytes) {
  trusted_.copy_on_device(to, from, bytes);
  tested_.copy_on_device(counterpart(to), counterpart(from), bytes);
  compare("copy_on_device", fmt::format("{} bytes", bytes), {{}, true});
}
void CheckedBackend::fill_zero(void* device, size_t bytes) {
  trusted_.fill_zero(device, bytes);
  tested_.fill_zero(counterpart(device), bytes);
  compare("fill_zero", fmt::format("{} bytes", bytes), {{}, true});
}
void CheckedBackend::synchronize() {
  trusted_.synchronize();
  tested_.synchronize();
}

void CheckedBackend::compare(const char* name, const std::string& shapes, const Formats& formats) {
  ++operations_;
  const auto fail = [&](const Block& block, size_t at, double expected, double got, double error) {
    throw Error(
        fmt::format("checked backend: operation {}, {} ({}), is the first to disagree: word {} of "
                    "a block of {}: "
                    "{} gives {:.9g}, {} gives {:.9g}, off by {:.3g}",
                    operations_, name, shapes, at / 4, block.image.size() / 4, trusted_.name(),
                    expected, tested_.name(), got, error));
  };
  for (auto& [pointer, block] : blocks_) {
    const size_t size = block.image.size();
    std::vector<unsigned char>&expected = expected_, &got = got_;
    expected.resize(std::max(expected.size(), size));
    got.resize(expected.size());
    trusted_.copy_to_host(expected.data(), pointer, size);
    tested_.copy_to_host(got.data(), block.tested, size);
    const auto is_double = [&formats, base = pointer](size_t at) {
      return std::any_of(formats.doubles.begin(), formats.doubles.end(),
                         [&](const void* address) { return base + at / 8 * 8 == address; });
    };
    // Errors are measured against what was written beside: a small gradient among small ones has to
    // be right, one that is the rest of a cancellation does not.
    std::vector<size_t> changed;
    double scale = 0;
    for (size_t page = 0; page < size; page += kPage) {
      const size_t bytes = std::min(kPage, size - page);
      if (std::memcmp(expected.data() + page, block.image.data() + page, bytes) == 0 &&
          std::memcmp(got.data() + page, block.image.data() + page, bytes) == 0)
        continue;
      changed.push_back(page);
      for (size_t at = page; at + 4 <= page + bytes; at += 4) {
        const float value = read<float>(expected, at);
        if (read<uint32_t>(expected, at) != read<uint32_t>(block.image, at) && std::isfinite(value))
          scale = std::max(scale, double(std::abs(value)));
      }
    }
    scale = std::clamp(scale, 1e-3, 1.0);
    for (const size_t page : changed) {
      const size_t bytes = std::min(kPage, size - page);
      bool equal = true;
      for (size_t at = page; at + 4 <= page + bytes; at += 4) {
        if (read<uint32_t>(expected, at) == read<uint32_t>(got, at)) continue;
        equal = false;
        double want, have;
        if (is_double(at)) {
          const size_t begin = at / 8 * 8;
          want = read<double>(expected, begin), have = read<double>(got, begin);
        } else if (formats.whole) {
          want = read<int32_t>(expected, at), have = read<int32_t>(got, at);
        } else {
          want = double(read<float>(expected, at)), have = double(read<float>(got, at));
        }
        if (std::isnan(want) && std::isnan(have)) continue;
        const double error = std::abs(want - have) / std::max(scale, std::abs(want));
        if (!(error <= (formats.whole ? 0.0 : tolerance_))) fail(block, at, want, have, error);
        if (error > largest_error_) {
          largest_error_ = error;
          least_exact_ = fmt::format("{} ({})", name, shapes);
        }
      }
      std::copy_n(expected.begin() + int64_t(page), bytes, block.image.begin() + int64_t(page));
      if (!equal) tested_.copy_to_device(block.tested + page, expected.data() + page, bytes);
    }
  }
}

}  // namespace longshot::testing
