// Dropout factors from vectorised Philox, and the dropout kernel itself.
#include "core/cpu/dropout.h"

#include <algorithm>
#include <cmath>

#include "core/cpu/lanes.h"
#include "core/cpu/philox.h"
#include "core/cpu/pieces.h"

namespace longshot::cpu {

DropoutFactors::DropoutFactors(const DropoutSpec& spec) {
  if (spec.p <= 0 || spec.state == nullptr || spec.state->training == 0) return;
  active_ = true;
  key_ = RandomKey{spec.state->seed, RandomPurpose::dropout, spec.stream, spec.state->step};
  // A draw is k / 2^24 with integer k, so k / 2^24 >= p exactly when k >= ceil(p 2^24).
  threshold_ = uint32_t(std::ceil(double(spec.p) * 16777216.0));
  scale_ = 1.0 / (1.0 - double(spec.p));
  offset_ = uint64_t(spec.state->sample_offset * spec.elements_per_sample);
}

template <class T>
void DropoutFactors::draw(int64_t begin, int64_t count, T* out) const {
  if (!active_) {
    std::fill(out, out + count, T(1));
    return;
  }
  constexpr int64_t kWords = 512;
  uint32_t words[kWords];
  const T scale = T(scale_);
  uint64_t element = offset_ + uint64_t(begin);
  while (count > 0) {
    const int64_t skip = int64_t(element & 3);
    const int64_t run = std::min(count, kWords - skip);
    random_words(key_, element >> 2, (skip + run + 3) / 4, words);
    for (int64_t i = 0; i < run; ++i) {
      out[i] = (words[skip + i] >> 8) >= threshold_ ? scale : T(0);
    }
    out += run;
    element += uint64_t(run);
    count -= run;
  }
}

template <class T>
void dropout(const DropoutArgs& args) {
  const DropoutFactors factors(args.dropout);
  const T* x = typed<T>(args.x);
  T* y = typed<T>(args.y);
  with_flag(args.accumulate, [&](auto accumulate) {
    constexpr bool kAccumulate = decltype(accumulate)::value;
    for_elements(
        args.n,
        [&](int64_t begin, int64_t end) {
          if (!factors.active()) {
            map_into<kAccumulate>(
                end - begin, y + begin, [](Vec<T> a) { return a; }, x + begin);
            return;
          }
          // Memory is asked for the next run while the numbers of this one are drawn.
          constexpr int64_t kRun = 256;
          T factor[kRun];
          for (int64_t i = begin; i < end; i += kRun) {
            const int64_t run = std::min(kRun, end - i);
            for (int64_t line = 0; line < kRun; line += 64 / int64_t(sizeof(T))) {
              __builtin_prefetch(x + i + kRun + line, 0, 3);
              __builtin_prefetch(y + i + kRun + line, 1, 3);
            }
            factors.draw(i, run, factor);
            map_into<kAccumulate>(
                run, y + i, [](Vec<T> a, Vec<T> f) { return a * f; }, x + i,
                static_cast<const T*>(factor));
          }
        },
        2);
  });
}

template void DropoutFactors::draw<float>(int64_t, int64_t, float*) const;
template void DropoutFactors::draw<double>(int64_t, int64_t, double*) const;
template void dropout<float>(const DropoutArgs&);
template void dropout<double>(const DropoutArgs&);

}  // namespace longshot::cpu
