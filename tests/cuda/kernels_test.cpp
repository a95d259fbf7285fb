// Every kernel but attention against the CPU backend, over odd shapes, written and accumulated.
#include <tuple>

#include "tests/cuda/devices.h"

using namespace longshot;
using longshot::test::Devices;

namespace {

using Buffer = Devices::Buffer;

Buffer step_state(Devices& d, uint32_t training, double count = 3, float learning_rate = 0.01f) {
  StepState state;
  state.seed = 0x123456789ABCDEFull;
  state.step = 17;
  state.training = training;
  state.sample_offset = 2;
  state.target_count = count;
  state.learning_rate = learning_rate;
  Buffer buffer = d.put(std::vector<StepState>{state});
  return buffer;
}
DropoutSpec spec(const Buffer& state, int side, float p) {
  DropoutSpec dropout;
  dropout.p = p;
  dropout.stream = 5;
  dropout.elements_per_sample = 11;
  dropout.state = static_cast<const StepState*>(state[side]);
  return dropout;
}

}  // namespace

TEST_CASE("cuda: unary functions and gradients", "[cuda]") {
  const auto op = GENERATE(Unary::relu, Unary::gelu, Unary::gelu_tanh, Unary::exp, Unary::log,
                           Unary::tanh, Unary::sigmoid, Unary::square);
  for (int64_t n : {0, 1, 255, 1000}) {
    for (bool accumulate : {false, true}) {
      Devices d;
      const double low = op == Unary::log ? 0.1 : -3;
      const auto x = d.random(n, low, 3), y = d.output(n), dy = d.random(n);
      const auto dx = d.output(n, accumulate);
      d.run([&](Backend& b, int s) {
        b.unary({.op = op, .n = n, .x = x[s], .y = y[s]});
        b.unary_backward({.op = op,
                          .n = n,
                          .x = x[s],
                          .y = y[s],
                          .dy = dy[s],
                          .dx = dx[s],
                          .accumulate = accumulate});
      });
      d.check(y, "unary " + std::to_string(int(op)));
      d.check(dx, "unary_backward " + std::to_string(int(op)));
    }
  }
}

TEST_CASE("cuda: activation gradient with the bias gradient", "[cuda]") {
  const auto activation =
      GENERATE(Activation::none, Activation::relu, Activation::gelu, Activation::gelu_tanh);
  for (const auto& [rows, columns] :
       std::vector<std::tuple<int64_t, int64_t>>{{1, 1}, {0, 5}, {7, 33}, {203, 70}}) {
    for (bool accumulate : {false, true}) {
      Devices d;
      const auto pre = d.random(rows * columns, -3, 3), dy = d.random(rows * columns);
      const auto dx = d.output(rows * columns), dbias = d.output(columns, accumulate);
      const auto only = d.output(columns);
      d.run([&](Backend& b, int s) {
        b.activation_backward({.activation = activation,
                               .rows = rows,
                               .columns = columns,
                               .pre_activation = pre[s],
                               .dy = dy[s],
                               .dx = dx[s],
                               .dbias = dbias[s],
                               .accumulate_dbias = accumulate});
        b.activation_backward({.activation = activation,
                               .rows = rows,
                               .columns = columns,
                               .pre_activation = pre[s],
                               .dy = dy[s],
                               .dbias = only[s]});
      });
      d.check(dx, "dx");
      d.check(dbias, "dbias", 1e-4);
      d.check(only, "dbias alone", 1e-4);
    }
  }
}

TEST_CASE("cuda: affine, binary, row scaling and repetition", "[cuda]") {
  const bool accumulate = GENERATE(false, true);
  Devices d;
  const int64_t rows = 13, columns = 37, n = rows * columns;
  const auto x = d.random(n), row = d.random(columns), scale = d.random(rows);
  const auto y = d.output(n, accumulate), scaled = d.output(n, accumulate);
  d.run([&](Backend& b, int s) {
    b.affine({.n = n, .x = x[s], .y = y[s], .alpha = 1.5, .beta = -0.25, .accumulate = accumulate});
    b.scale_rows({.rows = rows,
                  .columns = columns,
                  .x = x[s],
                  .scale = scale[s],
                  .out = scaled[s],
                  .accumulate = accumulate});
  });
  d.check(y, "affine");
  d.check(scaled, "scale_rows");
  for (Binary op : {Binary::add, Binary::sub, Binary::mul}) {
    for (int64_t period : {columns, n}) {
      const auto b2 = period == n ? d.random(n) : row, out = d.output(n, accumulate);
      d.run([&](Backend& b, int s) {
        b.binary({.op = op,
                  .n = n,
                  .period = period,
                  .a = x[s],
                  .b = b2[s],
                  .out = out[s],
                  .accumulate = accumulate});
      });
      d.check(out, "binary");
    }
  }
  const auto wide = d.output(rows * 3 * columns, accumulate);
  d.run([&](Backend& b, int s) {
    b.expand({.outer = rows,
              .repeat = 3,
              .inner = columns,
              .x = x[s],
              .out = wide[s],
              .alpha = 0.5,
              .accumulate = accumulate});
  });
  d.check(wide, "expand");
}

TEST_CASE("cuda: sums over an axis", "[cuda]") {
  for (const auto& [outer, reduced, inner] : std::vector<std::tuple<int64_t, int64_t, int64_t>>{
           {1, 1, 1}, {1, 5000, 1}, {5, 33, 1}, {3, 700, 7}, {2, 1, 40}, {4, 0, 3}, {0, 4, 3}}) {
    for (bool accumulate : {false, true}) {
      Devices d;
      const int64_t n = outer * reduced * inner;
      const auto x = d.random(n), weight = d.random(n);
      const auto plain = d.output(outer * inner, accumulate), dot = d.output(outer * inner);
      d.run([&](Backend& b, int s) {
        b.reduce({.outer = outer,
                  .reduced = reduced,
                  .inner = inner,
                  .x = x[s],
                  .out = plain[s],
                  .alpha = 0.5,
                  .accumulate = accumulate});
        b.reduce({.outer = outer,
                  .reduced = reduced,
                  .inner = inner,
                  .x = x[s],
                  .weight = weight[s],
                  .out = dot[s]});
      });
      d.check(plain, "reduce", 1e-4);
      d.check(dot, "weighted reduce", 1e-4);
    }
  }
}

TEST_CASE("cuda: softmax, its gradient and argmax", "[cuda]") {
  for (const auto& [rows, columns] :
       std::vector<std::tuple<int64_t, int64_t>>{{1, 1}, {5, 3}, {9, 100}, {0, 4}}) {
    for (bool log : {false, true}) {
      Devices d;
      const int64_t n = rows * columns;
      const auto x = d.random(n, -20, 20), y = d.output(n), dy = d.random(n);
      const auto dx = d.output(n), added = d.output(n, true);
      d.run([&](Backend& b, int s) {
        b.softmax({.rows = rows, .columns = columns, .log = log, .x = x[s], .y = y[s]});
        b.softmax_backward(
            {.rows = rows, .columns = columns, .log = log, .y = y[s], .dy = dy[s], .dx = dx[s]});
        b.softmax_backward({.rows = rows,
                            .columns = columns,
                            .log = log,
                            .y = y[s],
                            .dy = dy[s],
                            .dx = added[s],
                            .accumulate = true});
      });
      d.check(y, "softmax");
      d.check(dx, "softmax_backward");
      d.check(added, "softmax_backward added");
    }
  }
  Devices d;
  // Ties in one lane and across lanes: the first wins.
  std::vector<float> x(3 * 70, 0.0f);
  x[5] = x[37] = x[69] = 2;
  x[70 + 33] = x[70 + 34] = 1;
  const auto values = d.put(x), out = d.put(std::vector<int32_t>(3, -7));
  d.run([&](Backend& b, int s) {
    b.argmax({.rows = 3, .columns = 70, .x = values[s], .out = out.i(s)});
  });
  CHECK(d.read<int32_t>(out, 1) == std::vector<int32_t>{5, 33, 0});
  CHECK(d.read<int32_t>(out, 0) == std::vector<int32_t>{5, 33, 0});
}

TEST_CASE("cuda: dropout keeps the same elements as the CPU", "[cuda]") {
  const uint32_t training = GENERATE(0u, 1u);
  Devices d;
  const int64_t n = 1003;
  const auto state = step_state(d, training), x = d.random(n), y = d.output(n);
  const auto added = d.output(n, true);
  d.run([&](Backend& b, int s) {
    b.dropout({.n = n, .x = x[s], .y = y[s], .dropout = spec(state, s, 0.3f)});
    b.dropout(
        {.n = n, .x = x[s], .y = added[s], .dropout = spec(state, s, 0.3f), .accumulate = true});
  });
  d.check(y, "dropout", 1e-6);
  d.check(added, "dropout added", 1e-6);
  int64_t zeros = 0;
  for (float value : d.read(y, 1)) zeros += value == 0;
  if (training) CHECK(std::abs(double(zeros) / double(n) - 0.3) < 0.06);
  if (!training) CHECK(zeros == 0);
}

TEST_CASE("cuda: norm with residual and dropout, and its gradient", "[cuda]") {
  const bool rms = GENERATE(false, true);
  const float p = GENERATE(0.0f, 0.25f);
  for (const auto& [rows, columns] :
       std::vector<std::tuple<int64_t, int64_t>>{{1, 2}, {9, 33}, {70, 64}, {0, 8}}) {
    for (bool accumulate : {false, true}) {
      Devices d;
      const int64_t n = rows * columns;
      const auto state = step_state(d, 1);
      const auto x = d.random(n), residual = d.random(n), gain = d.random(columns);
      const auto bias = d.random(columns), dy = d.random(n), dsum = d.random(n);
      const auto sum = d.output(n), y = d.output(n), mean = d.output(rows, true);
      const auto inverse = d.output(rows);
      const auto dx = d.output(n, accumulate), dresidual = d.output(n, accumulate);
      const auto dgain = d.output(columns, accumulate), dbias = d.output(columns, accumulate);
      d.run([&](Backend& b, int s) {
        b.norm({.rows = rows,
                .columns = columns,
                .rms = rms,
                .x = x[s],
                .residual = residual[s],
                .dropout = spec(state, s, p),
                .gain = gain[s],
                .bias = bias[s],
                .sum = sum[s],
                .y = y[s],
                .mean = mean[s],
                .inverse_deviation = inverse[s]});
        b.norm_backward({.rows = rows,
                         .columns = columns,
                         .rms = rms,
                         .sum = sum[s],
                         .gain = gain[s],
                         .mean = mean[s],
                         .inverse_deviation = inverse[s],
                         .dy = dy[s],
                         .dsum = dsum[s],
                         .dropout = spec(state, s, p),
                         .dx = dx[s],
                         .accumulate_dx = accumulate,
                         .dresidual = dresidual[s],
                         .accumulate_dresidual = accumulate,
                         .dgain = dgain[s],
                         .accumulate_dgain = accumulate,
                         .dbias = dbias[s],
                         .accumulate_dbias = accumulate});
      });
      d.check(sum, "sum");
      d.check(y, "y", 1e-4);
      d.check(mean, "mean");  // untouched for RMS norm: both keep what they were given
      d.check(inverse, "inverse deviation", 1e-4);
      d.check(dx, "dx", 2e-4);
      d.check(dresidual, "dresidual", 2e-4);
      d.check(dgain, "dgain", 2e-4);
      d.check(dbias, "dbias", 1e-4);
    }
  }
  // Plain: no residual, no gain, no bias, no stored sum; only dx wanted.
  Devices d;
  const auto x = d.random(5 * 40), y = d.output(5 * 40), dy = d.random(5 * 40);
  const auto mean = d.output(5), inverse = d.output(5), dx = d.output(5 * 40);
  d.run([&](Backend& b, int s) {
    b.norm({.rows = 5,
            .columns = 40,
            .rms = rms,
            .x = x[s],
            .dropout = {},
            .y = y[s],
            .mean = mean[s],
            .inverse_deviation = inverse[s]});
    b.norm_backward({.rows = 5,
                     .columns = 40,
                     .rms = rms,
                     .sum = x[s],
                     .mean = mean[s],
                     .inverse_deviation = inverse[s],
                     .dy = dy[s],
                     .dropout = {},
                     .dx = dx[s]});
  });
  d.check(y, "plain norm", 1e-4);
  d.check(dx, "plain norm gradient", 2e-4);
}

TEST_CASE("cuda: embedding and its gradient", "[cuda]") {
  for (const auto& [count, rows, columns] : std::vector<std::tuple<int64_t, int64_t, int64_t>>{
           {1, 1, 1}, {50, 7, 33}, {1500, 20, 130}, {0, 4, 5}}) {
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

TEST_CASE("cuda: cross-entropy and its gradient", "[cuda]") {
  const double smoothing = GENERATE(0.0, 0.1);
  const int counted = GENERATE(0, 1, 2);  // nothing, some rows, a given count
  for (const auto& [rows, columns] :
       std::vector<std::tuple<int64_t, int64_t>>{{1, 2}, {70, 13}, {33, 100}, {0, 5}}) {
    Devices d;
    const auto logits = d.random(rows * columns, -5, 5);
    const auto targets =
        counted == 0 ? d.integers(rows, -1, -1) : d.integers(rows, -1, columns - 1);
    const auto lse = d.output(rows), row_loss = d.output(rows), loss = d.output(1);
    const auto denominator = d.put(std::vector<double>{-1}), given = d.put(std::vector<double>{8});
    const auto dloss = d.put(std::vector<float>{1.5f});
    const auto dlogits = d.output(rows * columns), added = d.output(rows * columns, true);
    d.run([&](Backend& b, int s) {
      b.cross_entropy({.rows = rows,
                       .columns = columns,
                       .logits = logits[s],
                       .targets = targets.i(s),
                       .smoothing = smoothing,
                       .count_override = counted == 2 ? static_cast<double*>(given[s]) : nullptr,
                       .log_sum_exp = lse[s],
                       .row_loss = row_loss[s],
                       .loss = loss[s],
                       .denominator = static_cast<double*>(denominator[s])});
      CrossEntropyBackwardArgs g{.rows = rows,
                                 .columns = columns,
                                 .logits = logits[s],
                                 .targets = targets.i(s),
                                 .smoothing = smoothing,
                                 .log_sum_exp = lse[s],
                                 .denominator = static_cast<double*>(denominator[s]),
                                 .dloss = dloss[s],
                                 .dlogits = dlogits[s]};
      b.cross_entropy_backward(g);
      g.dlogits = added[s];
      g.accumulate = true;
      b.cross_entropy_backward(g);
    });
    d.check(lse, "log_sum_exp");
    d.check(row_loss, "row_loss");
    d.check(loss, "loss");
    CHECK(d.read<double>(denominator, 0) == d.read<double>(denominator, 1));
    d.check(dlogits, "dlogits");
    d.check(added, "dlogits added");
  }
}

TEST_CASE("cuda: pointwise losses and their gradients", "[cuda]") {
  const bool logistic = GENERATE(false, true), masked = GENERATE(false, true);
  for (int64_t n : {1, 1000, 5000}) {
    Devices d;
    const auto x = d.random(n, -60, 60), target = d.random(n, 0, 1), mask = d.integers(n, 0, 1);
    const auto loss = d.output(1), dx = d.output(n), added = d.output(n, true);
    const auto denominator = d.put(std::vector<double>{-1});
    const auto dloss = d.put(std::vector<float>{0.5f});
    d.run([&](Backend& b, int s) {
      const int32_t* m = masked ? mask.i(s) : nullptr;
      double* by = static_cast<double*>(denominator[s]);
      b.pointwise_loss({.logistic = logistic,
                        .n = n,
                        .x = x[s],
                        .target = target[s],
                        .mask = m,
                        .loss = loss[s],
                        .denominator = by});
      PointwiseLossBackwardArgs g{.logistic = logistic,
                                  .n = n,
                                  .x = x[s],
                                  .target = target[s],
                                  .mask = m,
                                  .denominator = by,
                                  .dloss = dloss[s],
                                  .dx = dx[s]};
      b.pointwise_loss_backward(g);
      g.dx = added[s];
      g.accumulate = true;
      b.pointwise_loss_backward(g);
    });
    d.check(loss, "loss", 1e-4);
    CHECK(d.read<double>(denominator, 0) == d.read<double>(denominator, 1));
    d.check(dx, "dx");
    d.check(added, "dx added");
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

TEST_CASE("cuda: matrix products with bias, activation and strides", "[cuda]") {
  const bool ta = GENERATE(false, true), tb = GENERATE(false, true);
  for (const auto& [rows, columns, inner, batch] :
       std::vector<std::tuple<int64_t, int64_t, int64_t, int64_t>>{
           {1, 1, 1, 1}, {7, 33, 5, 1}, {40, 20, 64, 3}, {3, 4, 0, 2}, {0, 4, 3, 1}}) {
    for (int form = 0; form < 3; ++form) {  // plain, accumulate, bias + activation + pre-activation
      Devices d;
      const int64_t lda = (ta ? rows : inner) + 2, ldb = (tb ? inner : columns) + 1;
      const int64_t ldc = columns + 3;
      const int64_t size_a = (ta ? inner : rows) * lda, size_b = (tb ? columns : inner) * ldb;
      const int64_t size_c = rows * ldc;
      const auto a = d.random(batch * size_a + 8), b2 = d.random(batch * size_b + 8);
      const auto bias = d.random(columns);
      const auto c = d.random(batch * size_c), pre = d.random(batch * size_c);
      d.run([&](Backend& b, int s) {
        GemmArgs args{.rows = rows,
                      .columns = columns,
                      .inner = inner,
                      .batch = batch,
                      .transpose_a = ta,
                      .transpose_b = tb,
                      .a = a[s],
                      .b = b2[s],
                      .c = c[s],
                      .lda = lda,
                      .ldb = ldb,
                      .ldc = ldc,
                      .stride_a = size_a,
                      .stride_b = size_b,
                      .stride_c = size_c,
                      .alpha = 0.75,
                      .accumulate = form == 1};
        if (form == 2) {
          args.bias = bias[s];
          args.activation = Activation::gelu;
          args.pre_activation = pre[s];
        }
        b.gemm(args);
      });
      d.check(c, "gemm", 1e-4);  // the gaps between rows stay as they were
      d.check(pre, "pre-activation", 1e-4);
    }
  }
}

TEST_CASE("cuda: clip and AdamW over several steps", "[cuda]") {
  const bool coupled = GENERATE(false, true);
  const double max_norm = GENERATE(0.0, 1.0);
  Devices d;
  const int64_t n = 3001, decayed = 1700;
  const auto state = step_state(d, 1), parameter = d.random(n), m = d.random(n, 0, 0),
             v = d.random(n, 0, 0);
  const auto update = d.put(std::vector<UpdateState>(1));
  for (int step = 0; step < 3; ++step) {
    const auto gradient = d.random(n);
    d.run([&](Backend& b, int s) {
      auto* u = static_cast<UpdateState*>(update[s]);
      const auto* st = static_cast<const StepState*>(state[s]);
      b.clip({.n = n, .gradient = gradient[s], .max_norm = max_norm, .state = st, .update = u});
      b.adam({.n = n,
              .decayed = decayed,
              .parameter = parameter[s],
              .gradient = gradient[s],
              .first_moment = m[s],
              .second_moment = v[s],
              .weight_decay = 0.1,
              .coupled = coupled,
              .state = st,
              .update = u});
    });
  }
  d.check(parameter, "parameter");
  d.check(m, "first moment");
  d.check(v, "second moment");
  const auto a = d.read<UpdateState>(update, 0)[0], b = d.read<UpdateState>(update, 1)[0];
  CHECK(b.squared_norm == Approx(a.squared_norm).epsilon(1e-6));
  CHECK(b.scale == Approx(a.scale).epsilon(1e-6));
  CHECK(b.adam_step == 3);
  CHECK(b.skipped_steps == 0);
}

TEST_CASE("cuda: a step without targets or with a bad gradient is skipped", "[cuda]") {
  const int fault = GENERATE(0, 1, 2);  // no targets, NaN, infinity
  Devices d;
  const int64_t n = 70;
  const auto state = step_state(d, 1, fault == 0 ? 0 : 5), parameter = d.random(n);
  const auto before = d.read(parameter, 1);
  std::vector<float> g(size_t(n), 0.5f);
  if (fault == 1) g[33] = std::numeric_limits<float>::quiet_NaN();
  if (fault == 2) g[69] = std::numeric_limits<float>::infinity();
  const auto gradient = d.put(g), m = d.random(n), v = d.random(n, 0, 1);
  const auto update = d.put(std::vector<UpdateState>(1));
  d.run([&](Backend& b, int s) {
    auto* u = static_cast<UpdateState*>(update[s]);
    const auto* st = static_cast<const StepState*>(state[s]);
    b.clip({.n = n, .gradient = gradient[s], .max_norm = 1, .state = st, .update = u});
    b.adam({.n = n,
            .parameter = parameter[s],
            .gradient = gradient[s],
            .first_moment = m[s],
            .second_moment = v[s],
            .state = st,
            .update = u});
  });
  CHECK(d.read(parameter, 1) == before);
  for (int side : {0, 1}) {
    const auto u = d.read<UpdateState>(update, side)[0];
    CHECK(u.skip == 1);
    CHECK(u.adam_step == 0);
    CHECK(u.skipped_steps == 1);
  }
}

TEST_CASE("cuda: only f32 is taken, and the sentence says so", "[cuda]") {
  Devices d;
  const auto x = d.random(4);
  CHECK_THROWS_WITH(d.other().unary({.dtype = DType::f64, .n = 2, .x = x[1], .y = x[1]}),
                    ContainsSubstring("cuda: unary: only f32 runs on this device, got f64"));
  CHECK_FALSE(d.other().supports(DType::f64));
  CHECK(d.other().supports(DType::f32));
  CHECK_FALSE(d.other().host_accessible());
}

TEST_CASE("cuda: out of memory says how much was asked for, and the device goes on", "[cuda]") {
  Devices d;
  CHECK_THROWS_WITH(d.other().allocate(size_t(1) << 40),
                    ContainsSubstring("cuda: out of device memory: 1099511627776 bytes asked for"));
  const auto x = d.random(4), y = d.output(4);
  d.run([&](Backend& b, int s) { b.unary({.n = 4, .x = x[s], .y = y[s]}); });
  d.check(y, "after running out");
}
