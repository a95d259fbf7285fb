// What moves elements, CUDA against the CPU: embedding rows, gathers, rotated pairs, heads,
// permuted axes, copied chunks; gradients add up where indices repeat.
#include <cuda_runtime.h>
#include <tuple>

#include "tests/cuda/devices.h"

using namespace longshot;
using longshot::test::Devices;
using Buffer = Devices::Buffer;

TEST_CASE("cuda: embedding and its gradient", "[cuda]") {
  for (const auto& [count, rows, columns] : std::vector<std::tuple<int64_t, int64_t, int64_t>>{
           {1, 1, 1},
           {50, 7, 33},
           {1500, 20, 130},
           {0, 4, 5},
           // Tables of more than 512 rows: the ids are sorted.
           {0, 513, 5},
           {1, 600, 3},
           {300, 100000, 2},
           {2600, 700, 33},
           {1100, 513, 130}}) {
    for (bool accumulate : {false, true}) {
      Devices d;
      const auto ids = d.integers(count, 0, rows - 1), table = d.random(rows * columns);
      const auto out = d.output(count * columns), dout = d.random(count * columns);
      const auto dtable = d.output(rows * columns, accumulate);
      d.run([&](Backend& b, int s) {
        b.embedding({.count = count,
                     .rows = rows,
                     .columns = columns,
                     .ids = ids.i(s),
                     .table = table[s],
                     .out = out[s],
                     .scale = 2.5});
        b.embedding_backward({.count = count,
                              .rows = rows,
                              .columns = columns,
                              .ids = ids.i(s),
                              .dout = dout[s],
                              .dtable = dtable[s],
                              .scale = 2.5,
                              .accumulate = accumulate});
      });
      d.check(out, "embedding");
      d.check(dtable, "embedding_backward", 2e-4);
    }
  }
}

// Runs of one id over several pieces of the sorted list, and single ids between them.
TEST_CASE("cuda: the gradient of a large table of which hardly any row is used", "[cuda]") {
  Devices d;
  const int64_t count = 3000, rows = 2000, columns = 9;
  std::vector<int32_t> values(static_cast<size_t>(count), 7);
  for (size_t i = 0; i < 1000; ++i) values[3 * i] = 1999;
  for (int32_t i = 0; i < 60; ++i) values[size_t(50 * i + 1)] = 8 + 33 * i;
  const auto ids = d.put(values), dout = d.random(count * columns);
  const auto dtable = d.output(rows * columns, true);
  d.run([&](Backend& b, int s) {
    b.embedding_backward({.count = count,
                          .rows = rows,
                          .columns = columns,
                          .ids = ids.i(s),
                          .dout = dout[s],
                          .dtable = dtable[s],
                          .scale = 0.5,
                          .accumulate = true});
  });
  d.check(dtable, "embedding_backward", 5e-4);
}

TEST_CASE("cuda: the work of a table's gradient does not grow with the vocabulary", "[cuda]") {
  const auto blocks = [](int64_t rows) {
    Devices d;
    const int64_t count = 2000, columns = 4;
    const auto ids = d.integers(count, 0, 600), dout = d.random(count * columns);
    const auto dtable = d.output(rows * columns);
    const long long before = emulator::counters().blocks_queued;
    d.run([&](Backend& b, int s) {
      b.embedding_backward({.count = count,
                            .rows = rows,
                            .columns = columns,
                            .ids = ids.i(s),
                            .dout = dout[s],
                            .dtable = dtable[s]});
    });
    return emulator::counters().blocks_queued - before;
  };
  CHECK(blocks(601) == blocks(200000));
}

TEST_CASE("cuda: gather by index and its gradient, with repeated and negative indices", "[cuda]") {
  for (int64_t index_batches : {1, 2}) {
    for (bool accumulate : {false, true}) {
      Devices d;
      const int64_t outer = 4, rows = 6, source = 9, columns = 50;
      const auto index = d.integers(index_batches * rows * columns, -1, source - 1);
      const auto x = d.random(outer * rows * source), out = d.output(outer * rows * columns);
      const auto dy = d.random(outer * rows * columns);
      const auto dx = d.output(outer * rows * source, accumulate);
      d.run([&](Backend& b, int s) {
        b.gather({.outer = outer,
                  .rows = rows,
                  .source = source,
                  .columns = columns,
                  .index_batches = index_batches,
                  .index = index.i(s),
                  .x = x[s],
                  .out = out[s]});
        b.gather_backward({.outer = outer,
                           .rows = rows,
                           .source = source,
                           .columns = columns,
                           .index_batches = index_batches,
                           .index = index.i(s),
                           .dy = dy[s],
                           .dx = dx[s],
                           .accumulate = accumulate});
      });
      d.check(out, "gather");
      d.check(dx, "gather_backward");
    }
  }
}

TEST_CASE("cuda: rotation of pairs", "[cuda]") {
  const bool half = GENERATE(false, true), inverse = GENERATE(false, true);
  for (int64_t width : {0, 2, 6, 8}) {
    for (int64_t angle_batches : {1, 3}) {
      Devices d;
      const int64_t b0 = 3, heads = 2, length = 5, head_dim = 8, n = b0 * heads * length * head_dim;
      const int64_t angles = angle_batches * length * width / 2;
      const auto x = d.random(n), y = d.output(n), added = d.output(n, true);
      const auto cosine = d.random(angles), sine = d.random(angles);
      d.run([&](Backend& b, int s) {
        RotateArgs args{.batch = b0,
                        .heads = heads,
                        .length = length,
                        .head_dim = head_dim,
                        .width = width,
                        .angle_batches = angle_batches,
                        .half = half,
                        .inverse = inverse,
                        .cosine = cosine[s],
                        .sine = sine[s],
                        .x = x[s],
                        .y = y[s]};
        b.rotate(args);
        args.y = added[s];
        args.accumulate = true;
        b.rotate(args);
      });
      d.check(y, "rotate");
      d.check(added, "rotate added");
    }
  }
}

TEST_CASE("cuda: heads split and merged, axes permuted, chunks copied", "[cuda]") {
  const bool accumulate = GENERATE(false, true);
  for (int parts : {1, 2, 3}) {
    Devices d;
    const int64_t batch = 2, length = 5, heads = 3, head_dim = 7;
    const int64_t n = batch * length * heads * head_dim;
    const auto merged = d.random(parts * n), back = d.output(parts * n, accumulate);
    std::vector<Buffer> part;
    for (int k = 0; k < 3; ++k) part.push_back(d.output(n, accumulate));
    d.run([&](Backend& b, int s) {
      HeadsArgs args{.batch = batch,
                     .length = length,
                     .heads = heads,
                     .head_dim = head_dim,
                     .parts = parts,
                     .merged = merged[s],
                     .accumulate = accumulate};
      for (int k = 0; k < parts; ++k) args.part[k] = part[size_t(k)][s];
      b.split_heads(args);
      args.merged = back[s];
      b.merge_heads(args);
    });
    for (int k = 0; k < parts; ++k) d.check(part[size_t(k)], "split_heads");
    d.check(back, "merge_heads");
  }
  Devices d;
  const Shape shape{3, 4, 5, 7};
  const auto x = d.random(shape.elements());
  const auto integers = d.integers(shape.elements(), -100, 100);
  for (const auto& perm : std::vector<std::vector<int>>{{0, 2, 1, 3}, {3, 1, 2, 0}, {1, 0, 3, 2}}) {
    const auto out = d.output(shape.elements(), accumulate);
    const auto moved = d.put(std::vector<int32_t>(size_t(shape.elements()), -1));
    d.run([&](Backend& b, int s) {
      PermuteArgs args{.shape = shape, .x = x[s], .out = out[s], .accumulate = accumulate};
      std::copy(perm.begin(), perm.end(), args.perm);
      b.permute(args);
      args.dtype = DType::i32;
      args.x = integers[s];
      args.out = moved[s];
      args.accumulate = false;
      if (s == 1) b.permute(args);
    });
    d.check(out, "permute");
    // Element (i, j, k, l) of x has index ((i 4 + j) 5 + k) 7 + l.
    const auto from = d.read<int32_t>(integers, 1), to = d.read<int32_t>(moved, 1);
    size_t at = 0;
    int64_t i[4];
    const auto extent = [&](int axis) { return shape[perm[size_t(axis)]]; };
    for (i[0] = 0; i[0] < extent(0); ++i[0])
      for (i[1] = 0; i[1] < extent(1); ++i[1])
        for (i[2] = 0; i[2] < extent(2); ++i[2])
          for (i[3] = 0; i[3] < extent(3); ++i[3], ++at) {
            int64_t source[4];
            for (size_t axis = 0; axis < 4; ++axis) source[perm[axis]] = i[axis];
            const int64_t index = ((source[0] * 4 + source[1]) * 5 + source[2]) * 7 + source[3];
            if (to[at] != from[size_t(index)]) FAIL("permuted integers differ at " << at);
          }
  }
  const auto target = d.random(9 * 30);
  d.run([&](Backend& b, int s) {
    b.copy_chunks({.outer = 9,
                   .chunk = 11,
                   .x = x[s],
                   .x_stride = 20,
                   .x_offset = 3,
                   .out = target[s],
                   .out_stride = 30,
                   .out_offset = 4,
                   .accumulate = accumulate});
  });
  d.check(target, "copy_chunks");
}
