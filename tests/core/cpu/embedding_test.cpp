// embedding and its gradient: repeated ids, tiny and large vocabularies, thread independence.
#include "core/cpu/embedding.h"

#include "tests/core/cpu/kernel_test.h"

using namespace longshot;
using namespace longshot::test;

TEST_CASE("embedding by hand", "[embedding]") {
  const std::vector<double> table = {1, 2, 3, 4, 5, 6};
  const std::vector<int32_t> ids = {2, 0, 2};
  Guarded<double> out(6);
  EmbeddingArgs args;
  args.count = 3, args.rows = 3, args.columns = 2, args.scale = 10;
  args.ids = ids.data(), args.table = table.data(), args.out = out.data();
  call_kernel<double>(&Backend::embedding, args);
  CHECK(out.values() == std::vector<double>{50, 60, 10, 20, 50, 60});

  const std::vector<double> dout = {1, 2, 3, 4, 5, 6};
  Guarded<double> dtable(std::vector<double>{1, 1, 1, 1, 1, 1});
  EmbeddingBackwardArgs back;
  back.count = 3, back.rows = 3, back.columns = 2, back.scale = 10;
  back.ids = ids.data(), back.dout = dout.data(), back.dtable = dtable.data(),
  back.accumulate = true;
  call_kernel<double>(&Backend::embedding_backward, back);
  CHECK(dtable.values() == std::vector<double>{31, 41, 1, 1, 61, 81});
  back.accumulate = false;
  call_kernel<double>(&Backend::embedding_backward, back);
  CHECK(dtable.values() == std::vector<double>{30, 40, 0, 0, 60, 80});
}

TEMPLATE_TEST_CASE("embedding_backward over vocabularies from 1 to large", "[embedding]", float,
                   double) {
  using T = TestType;
  struct Case {
    int64_t count, rows, columns;
    int low, high;
  };
  for (auto [N, R, C, low, high] :
       {Case{10000, 3, 64, 0, 2},
        {10000, 1, 17, 0, 0},
        testing::testing_cuda() ? Case{700, 2011, 33, 0, 2010} : Case{5000, 20011, 33, 0, 20010},
        {1, 1, 1, 0, 0},
        {127, 7, 5, 3, 3},
        {4096, 50, 16, 0, 49},
        {0, 4, 3, 0, 3},
        {33, 2, 0, 0, 1},
        {129, 300, 8, 100, 104}}) {
    const auto ids = integers(N, 1, low, high);
    const auto dout = uniform<T>(N * C, 2), base = uniform<T>(R * C, 3);
    for (bool accumulate : {false, true}) {
      std::vector<double> want(size_t(R * C), 0.0);
      for (int64_t r = 0; r < N; ++r)
        for (int64_t c = 0; c < C; ++c)
          want[size_t(ids[size_t(r)] * C + c)] += 1.5 * double(dout[size_t(r * C + c)]);
      if (accumulate) want = added(base, want);
      expect_thread_independent(
          [&, N = N, R = R, C = C] {
            Guarded<T> dtable = accumulate ? Guarded<T>(base) : Guarded<T>(R * C);
            EmbeddingBackwardArgs args;
            args.count = N, args.rows = R, args.columns = C, args.scale = 1.5,
            args.accumulate = accumulate;
            args.ids = ids.data(), args.dout = dout.data(), args.dtable = dtable.data();
            call_kernel<T>(&Backend::embedding_backward, args);
            expect_close(dtable.values(), want, 10 * tolerance<T>(),
                         fmt::format("{} ids of {}", N, R));
            return dtable.values();
          },
          "embedding_backward");
    }
  }
}

TEST_CASE("embedding over odd shapes", "[embedding]") {
  for (auto [N, R, C] :
       {std::tuple<int64_t, int64_t, int64_t>{2000, 11, 37}, {1, 1, 1}, {0, 3, 4}, {5, 3, 0}}) {
    const auto ids = integers(N, 1, 0, int(R) - 1);
    const auto table = uniform<float>(R * C, 2);
    std::vector<double> want;
    for (int32_t id : ids)
      for (int64_t c = 0; c < C; ++c) want.push_back(8.0 * double(table[size_t(id * C + c)]));
    Guarded<float> out(N * C);
    EmbeddingArgs args;
    args.count = N, args.rows = R, args.columns = C, args.scale = 8;
    args.ids = ids.data(), args.table = table.data(), args.out = out.data();
    call_kernel<float>(&Backend::embedding, args);
    expect_close(out.values(), want, 0, "embedding");
  }
}
