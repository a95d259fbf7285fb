// gather and gather_backward: by hand, against loops, and as adjoint of each other.
#include "core/cpu/gather.h"

#include "tests/core/cpu/kernel_test.h"

using namespace longshot;
using namespace longshot::test;

TEST_CASE("gather by hand: negative indices give 0, repeats add in the gradient", "[gather]") {
  const std::vector<double> x = {10, 20, 30};
  const std::vector<int32_t> index = {2, -1, 0, 2};
  Guarded<double> out(4);
  GatherArgs args;
  args.outer = 1, args.rows = 1, args.source = 3, args.columns = 4;
  args.index = index.data(), args.x = x.data(), args.out = out.data();
  call_kernel<double>(&Backend::gather, args);
  CHECK(out.values() == std::vector<double>{30, 0, 10, 30});

  const std::vector<double> dy = {1, 2, 4, 8};
  Guarded<double> dx(std::vector<double>{100, 100, 100});
  GatherBackwardArgs back;
  back.outer = 1, back.rows = 1, back.source = 3, back.columns = 4;
  back.index = index.data(), back.dy = dy.data(), back.dx = dx.data();
  back.accumulate = true;
  call_kernel<double>(&Backend::gather_backward, back);
  CHECK(dx.values() == std::vector<double>{104, 100, 109});
  back.accumulate = false;
  call_kernel<double>(&Backend::gather_backward, back);
  CHECK(dx.values() == std::vector<double>{4, 0, 9});
}

TEST_CASE("gather over outer blocks and index batches", "[gather]") {
  struct Case {
    int64_t outer, rows, source, columns, batches;
  };
  for (auto [N, R, S, C, B] : {Case{6, 5, 11, 7, 3},
                               {4, 40, 79, 40, 1},
                               {8, 64, 127, 64, 8},
                               {1, 1, 1, 1, 1},
                               {2, 3, 4, 0, 1},
                               {0, 3, 4, 5, 1}}) {
    const auto x = uniform<float>(N * R * S, 1);
    const auto index = integers(B * R * C, 2, -1, int(S) - 1);
    const auto dy = uniform<float>(N * R * C, 3);
    std::vector<double> want_y(size_t(N * R * C), 0), want_dx(size_t(N * R * S), 0);
    for (int64_t n = 0; n < N; ++n)
      for (int64_t i = 0; i < R; ++i)
        for (int64_t j = 0; j < C; ++j) {
          const int32_t s = index[size_t(((n * B / N) * R + i) * C + j)];
          if (s < 0) continue;
          want_y[size_t((n * R + i) * C + j)] = x[size_t((n * R + i) * S + s)];
          want_dx[size_t((n * R + i) * S + s)] += dy[size_t((n * R + i) * C + j)];
        }
    expect_thread_independent(
        [&, N = N, R = R, S = S, C = C, B = B] {
          Guarded<float> y(N * R * C), dx(N * R * S);
          GatherArgs args;
          args.outer = N, args.rows = R, args.source = S, args.columns = C, args.index_batches = B;
          args.index = index.data(), args.x = x.data(), args.out = y.data();
          call_kernel<float>(&Backend::gather, args);
          GatherBackwardArgs back;
          back.outer = N, back.rows = R, back.source = S, back.columns = C, back.index_batches = B;
          back.index = index.data(), back.dy = dy.data(), back.dx = dx.data();
          call_kernel<float>(&Backend::gather_backward, back);
          expect_close(y.values(), want_y, 0, "gather");
          expect_close(dx.values(), want_dx, 4e-6, "gather_backward");
          return dx.values();
        },
        "gather_backward");
  }
}
