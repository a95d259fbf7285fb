// affine, binary, scale_rows over odd sizes, written and added, in place.
#include "core/cpu/elementwise.h"

#include "tests/core/cpu/kernel_test.h"

using namespace longshot;
using namespace longshot::test;

TEMPLATE_TEST_CASE("affine: alpha x + beta", "[elementwise]", float, double) {
  using T = TestType;
  for (int64_t n : {0, 1, 7, 16, 17, 1031, 100003}) {
    const auto x = uniform<T>(n, 1), base = uniform<T>(n, 2);
    for (bool accumulate : {false, true}) {
      std::vector<double> want(size_t(n), 0.0);
      for (size_t i = 0; i < want.size(); ++i) {
        want[i] = 2.5 * double(x[i]) - 0.75 + (accumulate ? double(base[i]) : 0);
      }
      Guarded<T> y = accumulate ? Guarded<T>(base) : Guarded<T>(n);
      AffineArgs args;
      args.n = n, args.x = x.data(), args.y = y.data();
      args.alpha = 2.5, args.beta = -0.75, args.accumulate = accumulate;
      call_kernel<T>(&Backend::affine, args);
      expect_close(y.values(), want, tolerance<T>(), "affine");
    }
  }
}

TEMPLATE_TEST_CASE("binary with equal shapes and with a repeated suffix", "[elementwise]", float,
                   double) {
  using T = TestType;
  for (auto [n, period] : {std::pair<int64_t, int64_t>{12, 12},
                           {12, 4},
                           {12, 1},
                           {66000, 3},
                           {70007 * 2, 70007},
                           {513 * 300, 513},
                           {1, 1},
                           {64 * 4096, 64},
                           {0, 0},
                           {0, 5}}) {
    for (Binary op : {Binary::add, Binary::sub, Binary::mul}) {
      for (bool accumulate : {false, true}) {
        const auto a = uniform<T>(n, 1), b = uniform<T>(period, 2), base = uniform<T>(n, 3);
        std::vector<double> want;
        for (int64_t i = 0; i < n; ++i) {
          const double u = double(a[size_t(i)]), v = double(b[size_t(i % period)]);
          want.push_back((op == Binary::add   ? u + v
                          : op == Binary::sub ? u - v
                                              : u * v) +
                         (accumulate ? double(base[size_t(i)]) : 0));
        }
        Guarded<T> out = accumulate ? Guarded<T>(base) : Guarded<T>(n);
        BinaryArgs args;
        args.op = op, args.n = n, args.period = period;
        args.a = a.data(), args.b = b.data(), args.out = out.data(), args.accumulate = accumulate;
        call_kernel<T>(&Backend::binary, args);
        expect_close(out.values(), want, tolerance<T>(), fmt::format("binary {} / {}", n, period));
      }
    }
  }
}

TEST_CASE("binary may write over its first input", "[elementwise]") {
  auto a = uniform<float>(50021, 1);
  const auto before = a;
  const auto b = uniform<float>(50021, 2);
  BinaryArgs args;
  args.op = Binary::sub, args.n = args.period = 50021;
  args.a = a.data(), args.b = b.data(), args.out = a.data();
  call_kernel<float>(&Backend::binary, args);
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] != before[i] - b[i]) FAIL("element " << i);
  }
}

TEST_CASE("scale_rows", "[elementwise]") {
  for (auto [rows, columns] :
       {std::pair<int64_t, int64_t>{3, 5}, {1, 1}, {257, 129}, {2, 50000}, {0, 3}, {3, 0}}) {
    const auto x = uniform<float>(rows * columns, 1), scale = uniform<float>(rows, 2);
    const auto base = uniform<float>(rows * columns, 3);
    for (bool accumulate : {false, true}) {
      std::vector<double> want;
      for (int64_t i = 0; i < rows * columns; ++i) {
        want.push_back(double(x[size_t(i)]) * double(scale[size_t(i / columns)]) +
                       (accumulate ? double(base[size_t(i)]) : 0));
      }
      Guarded<float> out = accumulate ? Guarded<float>(base) : Guarded<float>(rows * columns);
      ScaleRowsArgs args;
      args.rows = rows, args.columns = columns, args.x = x.data(), args.scale = scale.data();
      args.out = out.data(), args.accumulate = accumulate;
      call_kernel<float>(&Backend::scale_rows, args);
      expect_close(out.values(), want, 4e-6, "scale_rows");
    }
  }
}
