// permute, copy_chunks, split_heads, merge_heads, expand against plain index loops.
#include "core/cpu/layout.h"

#include "tests/core/cpu/kernel_test.h"

using namespace longshot;
using namespace longshot::test;

namespace {

std::vector<float> permuted(const std::vector<float>& x, const Shape& shape, const int* perm) {
  int64_t extent[4] = {1, 1, 1, 1}, stride[4] = {0, 0, 0, 0}, in_stride[4];
  for (int64_t s = 1, a = shape.rank() - 1; a >= 0; --a) {
    in_stride[a] = s;
    s *= shape[int(a)];
  }
  for (int a = 0; a < shape.rank(); ++a) {
    extent[a] = shape[perm[a]];
    stride[a] = in_stride[perm[a]];
  }
  std::vector<float> out;
  for (int64_t i = 0; i < extent[0]; ++i)
    for (int64_t j = 0; j < extent[1]; ++j)
      for (int64_t k = 0; k < extent[2]; ++k)
        for (int64_t l = 0; l < extent[3]; ++l)
          out.push_back(x[size_t(i * stride[0] + j * stride[1] + k * stride[2] + l * stride[3])]);
  return out;
}

}  // namespace

TEST_CASE("permute: every axis order of several shapes", "[layout]") {
  const std::vector<Shape> shapes = {{2, 3, 5, 7}, {1, 40, 1, 33}, {3, 1, 65, 1}, {37, 66},
                                     {5, 4, 9},    {0, 3, 2, 2},   {7},           {}};
  for (const Shape& shape : shapes) {
    std::vector<int> perm;
    for (int a = 0; a < shape.rank(); ++a) perm.push_back(a);
    const auto x = uniform<float>(shape.elements(), 3);
    do {
      for (bool accumulate : {false, true}) {
        const auto base = uniform<float>(shape.elements(), 4);
        Guarded<float> out(accumulate ? base : std::vector<float>(base.size(), NAN));
        PermuteArgs args;
        args.shape = shape;
        std::copy(perm.begin(), perm.end(), args.perm);
        args.x = x.data();
        args.out = out.data();
        args.accumulate = accumulate;
        call_kernel<float>(&Backend::permute, args);
        auto want = permuted(x, shape, perm.data());
        if (accumulate) {
          for (size_t i = 0; i < want.size(); ++i) want[i] = base[i] + want[i];
        }
        expect_same_bits(out.values(), want, "permute of " + shape.to_string());
      }
    } while (std::next_permutation(perm.begin(), perm.end()));
  }
}

TEST_CASE("permute by hand: a 2 x 3 matrix turned", "[layout]") {
  const std::vector<double> x = {1, 2, 3, 4, 5, 6};
  Guarded<double> out(6);
  PermuteArgs args;
  args.dtype = DType::f64;
  args.shape = {2, 3};
  args.perm[0] = 1, args.perm[1] = 0;
  args.x = x.data(), args.out = out.data();
  call_kernel<double>(&Backend::permute, args);
  CHECK(out.values() == std::vector<double>{1, 4, 2, 5, 3, 6});
}

TEST_CASE("copy_chunks: slices and joins, written and added", "[layout]") {
  for (auto [outer, chunk] :
       {std::pair<int64_t, int64_t>{3, 5}, {1, 100003}, {5000, 17}, {0, 4}, {4, 0}}) {
    const int64_t x_stride = chunk + 3, out_stride = chunk + 6;
    const auto x = uniform<float>(outer * x_stride + 1, 1);
    const auto base = uniform<float>(outer * out_stride + 2, 2);
    for (bool accumulate : {false, true}) {
      std::vector<float> want = base;
      for (int64_t o = 0; o < outer; ++o) {
        for (int64_t j = 0; j < chunk; ++j) {
          float& to = want[size_t(o * out_stride + 2 + j)];
          to = x[size_t(o * x_stride + 1 + j)] + (accumulate ? to : 0);
        }
      }
      expect_thread_independent(
          [&, outer = outer, chunk = chunk] {
            Guarded<float> out(base);
            CopyChunksArgs args;
            args.outer = outer, args.chunk = chunk;
            args.x = x.data(), args.x_stride = x_stride, args.x_offset = 1;
            args.out = out.data(), args.out_stride = out_stride, args.out_offset = 2;
            args.accumulate = accumulate;
            call_kernel<float>(&Backend::copy_chunks, args);
            expect_same_bits(out.values(), want, "copy_chunks");
            return out.values();
          },
          "copy_chunks");
    }
  }
}

TEST_CASE("split_heads and merge_heads against index loops, and inverse to each other",
          "[layout]") {
  struct Case {
    int64_t batch, length, heads, head_dim;
    int parts;
  };
  for (auto [B, L, H, D, P] : {Case{2, 3, 4, 5, 3},
                               {1, 1, 1, 1, 1},
                               {3, 41, 8, 8, 3},
                               {2, 7, 3, 64, 2},
                               {4, 33, 2, 16, 1},
                               {1, 5, 3, 32, 3},
                               {0, 3, 2, 8, 3},
                               {2, 0, 2, 8, 2}}) {
    const int64_t size = B * L * H * D;
    const auto merged = uniform<float>(size * P, 1);
    for (bool accumulate : {false, true}) {
      const auto base = uniform<float>(size, 9);
      std::vector<Guarded<float>> part(size_t(P),
                                       accumulate ? Guarded<float>(base) : Guarded<float>(size));
      HeadsArgs args;
      args.batch = B, args.length = L, args.heads = H, args.head_dim = D, args.parts = P;
      auto source = merged;
      args.merged = source.data();
      for (int p = 0; p < P; ++p) args.part[p] = part[size_t(p)].data();
      args.accumulate = accumulate;
      call_kernel<float>(&Backend::split_heads, args);
      for (int p = 0; p < P; ++p) {
        std::vector<float> want;
        for (int64_t b = 0; b < B; ++b)
          for (int64_t h = 0; h < H; ++h)
            for (int64_t t = 0; t < L; ++t)
              for (int64_t d = 0; d < D; ++d)
                want.push_back(merged[size_t((((b * L + t) * P + p) * H + h) * D + d)]);
        if (accumulate) {
          for (size_t i = 0; i < want.size(); ++i) want[i] = base[i] + want[i];
        }
        expect_same_bits(part[size_t(p)].values(), want, "split_heads");
      }
      if (accumulate) continue;
      const auto again_base = uniform<float>(size * P, 5);
      for (bool add : {false, true}) {
        Guarded<float> again = add ? Guarded<float>(again_base) : Guarded<float>(size * P);
        args.merged = again.data();
        args.accumulate = add;
        call_kernel<float>(&Backend::merge_heads, args);
        std::vector<float> want = merged;
        if (add) {
          for (size_t i = 0; i < want.size(); ++i) want[i] = again_base[i] + want[i];
        }
        expect_same_bits(again.values(), want, "merge_heads");
      }
    }
  }
}

TEST_CASE("expand repeats along a middle axis", "[layout]") {
  struct Case {
    int64_t outer, repeat, inner;
  };
  for (auto [O, N, I] : {Case{2, 3, 4},
                         {1, 1, 1},
                         {3, 5000, 1},
                         {1, 70001, 1},
                         {7, 3, 1009},
                         {2, 0, 3},
                         {0, 2, 3}}) {
    const auto x = uniform<double>(O * I, 1);
    const auto base = uniform<double>(O * N * I, 2);
    for (bool accumulate : {false, true}) {
      std::vector<double> want;
      for (int64_t o = 0; o < O; ++o)
        for (int64_t n = 0; n < N; ++n)
          for (int64_t i = 0; i < I; ++i) want.push_back(-0.5 * x[size_t(o * I + i)]);
      if (accumulate) want = added(base, want);
      Guarded<double> out = accumulate ? Guarded<double>(base) : Guarded<double>(O * N * I);
      ExpandArgs args;
      args.outer = O, args.repeat = N, args.inner = I, args.alpha = -0.5;
      args.x = x.data(), args.out = out.data(), args.accumulate = accumulate;
      call_kernel<double>(&Backend::expand, args);
      expect_close(out.values(), want, 1e-15, "expand");
    }
  }
}
