// rotate: by hand, both pairings, partial width, inverse, accumulate.
#include "core/cpu/rotate.h"

#include "tests/core/cpu/kernel_test.h"

using namespace longshot;
using namespace longshot::test;

TEST_CASE("rotate by hand: a quarter turn in both pairings", "[rotate]") {
  // Pair 0 turns by 90 degrees, pair 1 stays; lane 4 passes.
  const std::vector<double> x = {1, 2, 3, 4, 5}, cosine = {0, 1}, sine = {1, 0};
  for (bool half : {false, true}) {
    Guarded<double> y(5);
    RotateArgs args;
    args.batch = args.heads = args.length = 1, args.head_dim = 5, args.width = 4, args.half = half;
    args.cosine = cosine.data(), args.sine = sine.data(), args.x = x.data(), args.y = y.data();
    call_kernel<double>(&Backend::rotate, args);
    CHECK(y.values() ==
          (half ? std::vector<double>{-3, 2, 1, 4, 5} : std::vector<double>{-2, 1, 3, 4, 5}));
  }
}

TEMPLATE_TEST_CASE("rotate against index loops, and back", "[rotate]", float, double) {
  using T = TestType;
  struct Case {
    int64_t batch, heads, length, dim, width;
    bool per_sample;
  };
  for (auto [B, H, L, D, W, per_sample] : {Case{2, 3, 5, 8, 8, false},
                                           {2, 3, 5, 8, 8, true},
                                           {3, 2, 7, 10, 6, true},
                                           {1, 1, 1, 2, 2, false},
                                           {4, 8, 33, 64, 64, true},
                                           {2, 4, 50, 70, 34, false},
                                           {1, 2, 3, 4, 0, false},
                                           {0, 2, 3, 4, 4, false}}) {
    const int64_t pairs = W / 2, n = B * H * L * D, angles = (per_sample ? B : 1) * L * pairs;
    const auto x = uniform<T>(n, 1), base = uniform<T>(n, 2), phase = uniform<T>(angles, 3, -3, 3);
    std::vector<T> cosine, sine;
    for (T value : phase) cosine.push_back(std::cos(value)), sine.push_back(std::sin(value));
    for (bool half : {false, true}) {
      std::vector<double> want = widened(x);
      for (int64_t r = 0; r < B * H * L; ++r) {
        for (int64_t t = 0; t < pairs; ++t) {
          const int64_t a = r * D + (half ? t : 2 * t), b = r * D + (half ? t + pairs : 2 * t + 1);
          const size_t angle = size_t(((per_sample ? r / (H * L) : 0) * L + r % L) * pairs + t);
          const double c = double(cosine[angle]), s = double(sine[angle]);
          want[size_t(a)] = double(x[size_t(a)]) * c - double(x[size_t(b)]) * s;
          want[size_t(b)] = double(x[size_t(b)]) * c + double(x[size_t(a)]) * s;
        }
      }
      RotateArgs args;
      args.batch = B, args.heads = H, args.length = L, args.head_dim = D, args.width = W;
      args.angle_batches = per_sample ? B : 1, args.half = half;
      args.cosine = cosine.data(), args.sine = sine.data();
      const auto run = [&](const std::vector<T>& from, bool inverse, bool accumulate) {
        Guarded<T> y = accumulate ? Guarded<T>(base) : Guarded<T>(n);
        args.inverse = inverse, args.accumulate = accumulate, args.x = from.data(),
        args.y = y.data();
        call_kernel<T>(&Backend::rotate, args);
        return y.values();
      };
      const auto y = run(x, false, false);
      expect_close(y, want, tolerance<T>(), "rotate");
      expect_close(run(x, false, true), added(base, want), tolerance<T>(), "rotate added");
      expect_close(run(y, true, false), widened(x), tolerance<T>(), "rotated back");
      expect_thread_independent([&] { return run(x, false, false); }, "rotate");
    }
  }
}
