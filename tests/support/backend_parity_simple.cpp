// Products, element by element, reductions, movements.

#include "tests/catch.h"
#include "tests/support/backend_parity.h"

namespace longshot::testing {
namespace {

constexpr int kRounds = 12;

void gemm(Backend& tested, DType dtype, SizeSource& sizes) {
  for (int round = 0; round < 4 * kRounds; ++round) {
    GemmArgs given;
    given.dtype = dtype;
    given.rows = round % 4 == 3 ? sizes.large() : sizes.any();
    given.columns = round % 4 == 2 ? sizes.large() : sizes.any();
    given.inner = round % 4 == 1 ? sizes.large() : sizes.any();
    given.batch = sizes.small();
    given.transpose_a = sizes.flip(), given.transpose_b = sizes.flip();
    const int64_t gap = sizes.flip() ? 3 : 0;  // leading dimensions beyond the matrix
    const int64_t a_rows = given.transpose_a ? given.inner : given.rows;
    const int64_t b_rows = given.transpose_b ? given.columns : given.inner;
    given.lda = (given.transpose_a ? given.rows : given.inner) + gap;
    given.ldb = (given.transpose_b ? given.inner : given.columns) + gap;
    given.ldc = given.columns + gap;
    given.stride_a = sizes.flip() ? 0 : a_rows * given.lda;
    given.stride_b = sizes.flip() ? 0 : b_rows * given.ldb;
    given.stride_c = given.rows * given.ldc;
    given.alpha = sizes.flip() ? 1.0 : -0.75;
    const bool plain = sizes.flip();
    given.accumulate = plain && sizes.flip();
    Parity parity(tested, dtype);
    const auto a = parity.random(a_rows * given.lda * given.batch);
    const auto b = parity.random(b_rows * given.ldb * given.batch);
    const auto c = parity.output(given.batch * given.stride_c, given.accumulate);
    const auto bias = plain ? Parity::kNone : parity.random(given.columns);
    auto pre = Parity::kNone;
    if (!plain) {
      given.activation = Activation(sizes.pick({0, 1, 2, 3}));
      if (sizes.flip()) pre = parity.output(given.batch * given.stride_c);
    }
    parity.run(fmt::format("gemm {}x{}x{} batch {} transposes {} {} activation {}", given.rows,
                           given.inner, given.columns, given.batch, given.transpose_a,
                           given.transpose_b, int(given.activation)),
               [&](Backend& backend, const Parity::Side& at) {
                 GemmArgs args = given;
                 args.a = at[a], args.b = at[b], args.c = at[c];
                 args.bias = at[bias], args.pre_activation = at[pre];
                 backend.gemm(args);
               });
  }
}

void heads(Backend& tested, DType dtype, SizeSource& sizes) {
  for (int round = 0; round < kRounds; ++round) {
    HeadsArgs given;
    given.dtype = dtype;
    given.batch = sizes.small(), given.length = sizes.any(), given.heads = sizes.small();
    given.head_dim = sizes.some(), given.parts = int(sizes.small());
    given.accumulate = sizes.flip();
    const int64_t n = given.batch * given.length * given.heads * given.head_dim;
    for (const bool split : {true, false}) {
      Parity parity(tested, dtype);
      const auto merged =
          split ? parity.random(n * given.parts) : parity.output(n * given.parts, given.accumulate);
      Parity::Array part[3];
      for (auto& each : part) each = split ? parity.output(n, given.accumulate) : parity.random(n);
      parity.run(split ? "split_heads" : "merge_heads",
                 [&](Backend& backend, const Parity::Side& at) {
                   HeadsArgs args = given;
                   args.merged = at[merged];
                   for (int i = 0; i < args.parts; ++i) args.part[i] = at[part[i]];
                   split ? backend.split_heads(args) : backend.merge_heads(args);
                 });
    }
  }
}

void unary(Backend& tested, DType dtype, SizeSource& sizes) {
  for (int op = 0; op <= int(Unary::square); ++op) {
    for (const int64_t n : {int64_t(0), sizes.some(), sizes.large(), int64_t(1000)}) {
      UnaryBackwardArgs given;
      given.dtype = dtype, given.op = Unary(op), given.n = n;
      given.accumulate = sizes.flip();
      const bool logarithm = Unary(op) == Unary::log;
      Parity parity(tested, dtype);
      const auto x = parity.random(n, logarithm ? 0.1 : -6, 6);
      const auto y = parity.output(n), dy = parity.random(n);
      const auto dx = parity.output(n, given.accumulate);
      parity.run(fmt::format("unary {} of {}", op, n),
                 [&](Backend& backend, const Parity::Side& at) {
                   backend.unary({dtype, given.op, n, at[x], at[y]});
                   UnaryBackwardArgs args = given;
                   args.x = at[x], args.y = at[y], args.dy = at[dy], args.dx = at[dx];
                   backend.unary_backward(args);
                 });
    }
  }
}

void activation_backward(Backend& tested, DType dtype, SizeSource& sizes) {
  for (int round = 0; round < 2 * kRounds; ++round) {
    ActivationBackwardArgs given;
    given.dtype = dtype;
    given.activation = Activation(round % 4);
    given.rows = round % 3 == 0 ? sizes.large() : sizes.any();
    given.columns = sizes.any();
    given.accumulate_dbias = sizes.flip();
    const int64_t n = given.rows * given.columns;
    Parity parity(tested, dtype);
    const auto pre = parity.random(n, -4, 4), dy = parity.random(n);
    const bool want_dx = sizes.flip(), want_dbias = !want_dx || sizes.flip();
    const auto dx = want_dx ? parity.output(n) : Parity::kNone;
    const auto dbias =
        want_dbias ? parity.output(given.columns, given.accumulate_dbias) : Parity::kNone;
    parity.run(fmt::format("activation_backward {} {}x{}", round % 4, given.rows, given.columns),
               [&](Backend& backend, const Parity::Side& at) {
                 ActivationBackwardArgs args = given;
                 args.pre_activation = at[pre], args.dy = at[dy];
                 args.dx = at[dx], args.dbias = at[dbias];
                 backend.activation_backward(args);
               });
  }
}

void elementwise(Backend& tested, DType dtype, SizeSource& sizes) {
  for (int round = 0; round < 2 * kRounds; ++round) {
    const int64_t rows = sizes.any(), columns = sizes.some(), n = rows * columns;
    const bool accumulate = sizes.flip();
    Parity parity(tested, dtype);
    const auto a = parity.random(n), b = parity.random(n), factor = parity.random(rows);
    const auto affine = parity.output(n, accumulate), binary = parity.output(n, accumulate);
    const auto scaled = parity.output(n, accumulate);
    const Binary op = Binary(round % 3);
    const int64_t period = sizes.flip() ? columns : n;
    parity.run(
        fmt::format("affine, binary, scale_rows {}x{}", rows, columns),
        [&](Backend& backend, const Parity::Side& at) {
          backend.affine({dtype, n, at[a], at[affine], -1.5, 0.25, accumulate});
          backend.binary({dtype, op, n, period, at[a], at[b], at[binary], accumulate});
          backend.scale_rows({dtype, rows, columns, at[a], at[factor], at[scaled], accumulate});
        });
  }
}

void reductions(Backend& tested, DType dtype, SizeSource& sizes) {
  for (int round = 0; round < 2 * kRounds; ++round) {
    const int64_t outer = round % 3 == 0 ? 1 : sizes.any(),
                  inner = round % 4 == 0 ? 1 : sizes.any();
    const int64_t reduced = round % 2 == 0 ? sizes.large() : sizes.any();
    const bool accumulate = sizes.flip();
    const int64_t n = outer * reduced * inner;
    Parity parity(tested, dtype);
    const auto x = parity.random(n);
    const auto weight = sizes.flip() ? parity.random(n) : Parity::kNone;
    const auto sum = parity.output(outer * inner, accumulate);
    const auto small = parity.random(outer * inner), expanded = parity.output(n, accumulate);
    parity.run(fmt::format("reduce, expand {}x{}x{}", outer, reduced, inner), [&](Backend& backend,
                                                                                  const Parity::
                                                                                      Side& at) {
      backend.reduce({dtype, outer, reduced, inner, at[x], at[weight], at[sum], 0.5, accumulate});
      backend.expand({dtype, outer, reduced, inner, at[small], at[expanded], 1.5, accumulate});
    });
  }
}

void softmax(Backend& tested, DType dtype, SizeSource& sizes) {
  for (int round = 0; round < 2 * kRounds; ++round) {
    const int64_t rows = sizes.any(), columns = round % 3 == 0 ? sizes.large() : sizes.some();
    const bool log = sizes.flip(), accumulate = sizes.flip();
    const int64_t n = rows * columns;
    Parity parity(tested, dtype);
    const auto x = parity.random(n, -8, 8), dy = parity.random(n);
    const auto y = parity.output(n), dx = parity.output(n, accumulate);
    const auto best = parity.integers(std::vector<int32_t>(size_t(rows), -9));
    parity.run(
        fmt::format("softmax, argmax {}x{} log {}", rows, columns, log),
        [&](Backend& backend, const Parity::Side& at) {
          backend.softmax({dtype, rows, columns, log, at[x], at[y]});
          backend.softmax_backward({dtype, rows, columns, log, at[y], at[dy], at[dx], accumulate});
          backend.argmax({dtype, rows, columns, at[x], at.ints(best)});
        });
  }
}

void movements(Backend& tested, DType dtype, SizeSource& sizes) {
  const int orders[6][4] = {{0, 1, 2, 3}, {0, 2, 1, 3}, {3, 2, 1, 0},
                            {1, 0, 3, 2}, {0, 1, 3, 2}, {2, 3, 0, 1}};
  for (int round = 0; round < kRounds; ++round) {
    PermuteArgs given;
    given.dtype = dtype;
    given.shape = {sizes.small(), sizes.any(), sizes.small(), sizes.any()};
    for (int i = 0; i < 4; ++i) given.perm[i] = orders[round % 6][i];
    given.accumulate = sizes.flip();
    Parity parity(tested, dtype);
    const auto x = parity.random(given.shape.elements());
    const auto out = parity.output(given.shape.elements(), given.accumulate);
    const int64_t outer = sizes.any(), chunk = sizes.any();
    const auto source = parity.random(outer * (chunk + 2) + 5);
    const auto copied = parity.output(outer * (chunk + 3) + 4, given.accumulate);
    parity.run("permute, copy_chunks " + given.shape.to_string(),
               [&](Backend& backend, const Parity::Side& at) {
                 PermuteArgs args = given;
                 args.x = at[x], args.out = at[out];
                 backend.permute(args);
                 backend.copy_chunks({dtype, outer, chunk, at[source], chunk + 2, 5, at[copied],
                                      chunk + 3, 4, given.accumulate});
               });
  }
}

void gather(Backend& tested, DType dtype, SizeSource& sizes) {
  for (int round = 0; round < kRounds; ++round) {
    GatherArgs given;
    given.dtype = dtype;
    given.index_batches = sizes.small();
    given.outer = given.index_batches * sizes.small();
    given.rows = sizes.any(), given.source = sizes.some(), given.columns = sizes.any();
    const bool accumulate = sizes.flip();
    Parity parity(tested, dtype);
    const auto index = parity.random_integers(given.index_batches * given.rows * given.columns, -1,
                                              int32_t(given.source) - 1);
    const auto x = parity.random(given.outer * given.rows * given.source);
    const auto out = parity.output(given.outer * given.rows * given.columns);
    const auto dx = parity.output(given.outer * given.rows * given.source, accumulate);
    parity.run(
        fmt::format("gather {}x{}x{} to {}", given.outer, given.rows, given.source, given.columns),
        [&](Backend& backend, const Parity::Side& at) {
          GatherArgs args = given;
          args.index = at.ints(index), args.x = at[x], args.out = at[out];
          backend.gather(args);
          backend.gather_backward({dtype, given.outer, given.rows, given.source, given.columns,
                                   given.index_batches, at.ints(index), at[out], at[dx],
                                   accumulate});
        });
  }
}

}  // namespace

void parity_of_simple_methods(Backend& tested, DType dtype, SizeSource& sizes) {
  gemm(tested, dtype, sizes);
  heads(tested, dtype, sizes);
  unary(tested, dtype, sizes);
  activation_backward(tested, dtype, sizes);
  elementwise(tested, dtype, sizes);
  reductions(tested, dtype, sizes);
  softmax(tested, dtype, sizes);
  movements(tested, dtype, sizes);
  gather(tested, dtype, sizes);
}

}  // namespace longshot::testing
