// reduce and argmax: by hand, against loops, thread independence.
#include "core/cpu/reduce.h"

#include "tests/core/cpu/kernel_test.h"

using namespace longshot;
using namespace longshot::test;

TEST_CASE("reduce by hand: middle axis, weighted, scaled", "[reduce]") {
  const std::vector<double> x = {1, 2, 3, 4, 5, 6}, weight = {1, 0, 2, 1, 0, 1};
  Guarded<double> out(std::vector<double>{10, 20});
  ReduceArgs args;
  args.outer = 1, args.reduced = 3, args.inner = 2, args.x = x.data(), args.out = out.data();
  args.alpha = 0.5;
  call_kernel<double>(&Backend::reduce, args);
  CHECK(out.values() == std::vector<double>{4.5, 6});
  args.weight = weight.data(), args.accumulate = true;  // 1 + 6 + 0 and 0 + 4 + 6, halved, added
  call_kernel<double>(&Backend::reduce, args);
  CHECK(out.values() == std::vector<double>{8, 11});
}

TEMPLATE_TEST_CASE("reduce against loops", "[reduce]", float, double) {
  using T = TestType;
  struct Case {
    int64_t outer, reduced, inner;
  };
  for (auto [O, N, I] : {Case{1, 1, 1},
                         {3, 5, 7},
                         {1, 100003, 1},
                         {2, 40009, 1},
                         {517, 131, 1},
                         {1, 3001, 37},
                         {5, 7, 4099},
                         {3, 0, 1},
                         {3, 0, 2},
                         {0, 4, 2},
                         {2, 3, 0},
                         {1, 17, 2}}) {
    const auto x = uniform<T>(O * N * I, 1), weight = uniform<T>(O * N * I, 2),
               base = uniform<T>(O * I, 3);
    for (bool weighted : {false, true}) {
      for (bool accumulate : {false, true}) {
        std::vector<double> want(size_t(O * I), 0.0);
        for (int64_t i = 0; i < O * N * I; ++i) {
          want[size_t(i / (N * I) * I + i % I)] +=
              -2.0 * double(x[size_t(i)]) * (weighted ? double(weight[size_t(i)]) : 1);
        }
        if (accumulate) want = added(base, want);
        expect_thread_independent(
            [&, O = O, N = N, I = I] {
              Guarded<T> out = accumulate ? Guarded<T>(base) : Guarded<T>(O * I);
              ReduceArgs args;
              args.outer = O, args.reduced = N, args.inner = I, args.alpha = -2;
              args.x = x.data(), args.weight = weighted ? weight.data() : nullptr;
              args.out = out.data(), args.accumulate = accumulate;
              call_kernel<T>(&Backend::reduce, args);
              // A sum of N terms of size 1 carries an error of about sqrt(N) roundings.
              expect_close(out.values(), want, tolerance<T>() * std::sqrt(double(N + 1)), "reduce");
              return out.values();
            },
            "reduce");
      }
    }
  }
}

TEST_CASE("argmax takes the first of equals", "[reduce]") {
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> x = {1, 3, 3, -1, -2, -2, -5, -2, -inf, -inf, -inf, -inf, 0, 0, 0, 9};
  std::vector<int32_t> out(4, -5);
  ArgmaxArgs args;
  args.rows = 4, args.columns = 4, args.x = x.data(), args.out = out.data();
  call_kernel<float>(&Backend::argmax, args);
  CHECK(out == std::vector<int32_t>{1, 0, 0, 3});
}

TEST_CASE("argmax over wide rows", "[reduce]") {
  for (int64_t columns : {1, 2, 17, 31, 33, 1013}) {
    const int64_t rows = 101;
    const auto x = uniform<double>(rows * columns, uint32_t(columns));
    std::vector<int32_t> out(size_t(rows), -1);
    ArgmaxArgs args;
    args.rows = rows, args.columns = columns, args.x = x.data(), args.out = out.data();
    call_kernel<double>(&Backend::argmax, args);
    for (int64_t r = 0; r < rows; ++r) {
      const auto row = x.begin() + r * columns;
      REQUIRE(out[size_t(r)] == std::max_element(row, row + columns) - row);
    }
  }
}
