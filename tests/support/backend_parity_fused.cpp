// Dropout, norm, embedding, rotation, losses, attention, optimizer.

#include <cmath>

#include "tests/catch.h"
#include "tests/support/backend_parity.h"

namespace longshot::testing {
namespace {

constexpr int kRounds = 12;
// Half is exact in every precision, so that factors agree to the last bit.
constexpr float kRate = 0.5f;

StepState training_state() {
  StepState state;
  state.seed = 0x123456789ABCDEFull, state.step = 77, state.training = 1;
  state.sample_offset = 3;
  state.learning_rate = 0.01f;
  state.target_count = 5;
  return state;
}

DropoutSpec dropout_spec(const StepState* state, bool on) {
  DropoutSpec spec;
  spec.p = on ? kRate : 0.0f, spec.stream = 12, spec.elements_per_sample = 41, spec.state = state;
  return spec;
}

void dropout(Backend& tested, DType dtype, SizeSource& sizes) {
  for (int round = 0; round < kRounds; ++round) {
    const int64_t n = round == 0 ? 0 : sizes.some() * sizes.some();
    const bool accumulate = sizes.flip();
    Parity parity(tested, dtype);
    const auto x = parity.random(n), y = parity.output(n, accumulate);
    const auto state = parity.object(training_state());
    parity.run(fmt::format("dropout {}", n), [&](Backend& backend, const Parity::Side& at) {
      backend.dropout({dtype, n, at[x], at[y],
                       dropout_spec(at.object<StepState>(state), round != 1), accumulate});
    });
  }
}

void norm(Backend& tested, DType dtype, SizeSource& sizes) {
  for (int round = 0; round < 3 * kRounds; ++round) {
    const int64_t rows = sizes.any(), columns = round % 3 == 0 ? sizes.large() : sizes.some();
    const int64_t n = rows * columns;
    const bool rms = sizes.flip(), with_residual = sizes.flip(),
               drop = with_residual && sizes.flip();
    Parity parity(tested, dtype);
    const auto state = parity.object(training_state());
    const auto x = parity.random(n), dy = parity.random(n);
    const auto residual = with_residual ? parity.random(n) : Parity::kNone;
    const auto sum = with_residual ? parity.output(n) : Parity::kNone;
    const auto gain = sizes.flip() ? parity.random(columns) : Parity::kNone;
    const auto bias = sizes.flip() ? parity.random(columns) : Parity::kNone;
    const auto y = parity.output(n), mean = parity.output(rows), deviation = parity.output(rows);
    const auto dsum = sizes.flip() ? parity.random(n) : Parity::kNone;
    NormBackwardArgs flags;
    flags.accumulate_dx = sizes.flip(), flags.accumulate_dresidual = sizes.flip();
    flags.accumulate_dgain = sizes.flip(), flags.accumulate_dbias = sizes.flip();
    const auto maybe = [&](int64_t size, bool accumulate) {
      return sizes.flip() ? parity.output(size, accumulate) : Parity::kNone;
    };
    const auto dx = maybe(n, flags.accumulate_dx);
    const auto dresidual = with_residual ? maybe(n, flags.accumulate_dresidual) : Parity::kNone;
    const auto dgain = maybe(columns, flags.accumulate_dgain);
    const auto dbias = maybe(columns, flags.accumulate_dbias);
    parity.run(fmt::format("norm {}x{} rms {} residual {} dropout {}", rows, columns, rms,
                           with_residual, drop),
               [&](Backend& backend, const Parity::Side& at) {
                 NormArgs args;
                 args.dtype = dtype, args.rows = rows, args.columns = columns, args.rms = rms;
                 // Large enough that a one-column row does not divide by almost nothing.
                 args.epsilon = 0.01;
                 args.x = at[x], args.residual = at[residual];
                 args.dropout = dropout_spec(at.object<StepState>(state), drop);
                 args.gain = at[gain], args.bias = at[bias], args.sum = at[sum], args.y = at[y];
                 args.mean = at[mean], args.inverse_deviation = at[deviation];
                 backend.norm(args);
                 NormBackwardArgs back = flags;
                 back.dtype = dtype, back.rows = rows, back.columns = columns, back.rms = rms;
                 back.sum = with_residual ? at[sum] : at[x];
                 back.gain = at[gain], back.mean = at[mean];
                 back.inverse_deviation = at[deviation];
                 back.dy = at[dy], back.dsum = at[dsum], back.dropout = args.dropout;
                 back.dx = at[dx], back.dresidual = at[dresidual];
                 back.dgain = at[dgain], back.dbias = at[dbias];
                 backend.norm_backward(back);
               });
  }
}

void tables(Backend& tested, DType dtype, SizeSource& sizes) {
  for (int round = 0; round < kRounds; ++round) {
    const int64_t count = round % 2 == 0 ? sizes.large() : sizes.any(), rows = sizes.some();
    const int64_t columns = sizes.any();
    const bool accumulate = sizes.flip();
    Parity parity(tested, dtype);
    const auto ids = parity.random_integers(count, 0, int32_t(rows) - 1);
    const auto table = parity.random(rows * columns), out = parity.output(count * columns);
    const auto dtable = parity.output(rows * columns, accumulate);
    parity.run(
        fmt::format("embedding {} of {}x{}", count, rows, columns),
        [&](Backend& backend, const Parity::Side& at) {
          backend.embedding({dtype, count, rows, columns, at.ints(ids), at[table], at[out], 1.25});
          backend.embedding_backward(
              {dtype, count, rows, columns, at.ints(ids), at[out], at[dtable], 0.75, accumulate});
        });
  }
  for (int round = 0; round < 2 * kRounds; ++round) {
    RotateArgs given;
    given.dtype = dtype;
    given.batch = sizes.small(), given.heads = sizes.small(), given.length = sizes.any();
    given.head_dim = sizes.some();
    given.width = sizes.pick({0, given.head_dim / 2 * 2, given.head_dim / 4 * 2});
    given.angle_batches = sizes.flip() ? 1 : given.batch;
    given.half = sizes.flip(), given.inverse = sizes.flip(), given.accumulate = sizes.flip();
    const int64_t n = given.batch * given.heads * given.length * given.head_dim;
    const int64_t angles = given.angle_batches * given.length * given.width / 2;
    Parity parity(tested, dtype);
    const auto x = parity.random(n), y = parity.output(n, given.accumulate);
    const auto cosine = parity.random(angles), sine = parity.random(angles);
    parity.run(fmt::format("rotate {}x{}x{}x{} width {} half {}", given.batch, given.heads,
                           given.length, given.head_dim, given.width, given.half),
               [&](Backend& backend, const Parity::Side& at) {
                 RotateArgs args = given;
                 args.x = at[x], args.y = at[y], args.cosine = at[cosine], args.sine = at[sine];
                 backend.rotate(args);
               });
  }
}

void losses(Backend& tested, DType dtype, SizeSource& sizes) {
  for (int round = 0; round < 2 * kRounds; ++round) {
    const int64_t rows = round % 2 == 0 ? sizes.large() : sizes.any();
    const int64_t columns = round % 3 == 0 ? sizes.large() : sizes.some();
    const bool accumulate = sizes.flip(), given_count = sizes.flip();
    const double smoothing = sizes.flip() ? 0.0 : 0.125;
    Parity parity(tested, dtype);
    const auto logits = parity.random(rows * columns, -5, 5);
    // Round 4: every target ignored.
    const auto targets = parity.random_integers(rows, -1, round == 4 ? -1 : int32_t(columns) - 1);
    const auto log_sum_exp = parity.output(rows), row_loss = parity.output(rows);
    const auto loss = parity.output(1), dloss = parity.random(1);
    const auto dlogits = parity.output(rows * columns, accumulate);
    const auto denominator = parity.object(-1.0), count = parity.object(6.0);
    const auto override_of = [&](const Parity::Side& at) {
      return given_count ? at.object<double>(count) : nullptr;
    };
    parity.run(fmt::format("cross_entropy {}x{} smoothing {}", rows, columns, smoothing),
               [&](Backend& backend, const Parity::Side& at) {
                 backend.cross_entropy({dtype, rows, columns, at[logits], at.ints(targets),
                                        smoothing, override_of(at), at[log_sum_exp], at[row_loss],
                                        at[loss], at.object<double>(denominator)});
                 backend.cross_entropy_backward({dtype, rows, columns, at[logits], at.ints(targets),
                                                 smoothing, at[log_sum_exp],
                                                 at.object<double>(denominator), at[dloss],
                                                 at[dlogits], accumulate});
               });
    CHECK(parity.read<double>(denominator, 0) == parity.read<double>(denominator, 1));

    const int64_t n = rows;
    const bool logistic = sizes.flip(), masked = sizes.flip();
    Parity points(tested, dtype);
    const auto x = points.random(n, -6, 6), t = points.random(n, 0, 1);
    const auto mask = masked ? points.random_integers(n, 0, round == 4 ? 0 : 1) : Parity::kNone;
    const auto point_loss = points.output(1), dpoint = points.random(1);
    const auto dx = points.output(n, accumulate);
    const auto divided = points.object(-1.0);
    points.run(fmt::format("pointwise_loss {} logistic {}", n, logistic),
               [&](Backend& backend, const Parity::Side& at) {
                 backend.pointwise_loss({dtype, logistic, n, at[x], at[t], at.ints(mask), nullptr,
                                         at[point_loss], at.object<double>(divided)});
                 backend.pointwise_loss_backward({dtype, logistic, n, at[x], at[t], at.ints(mask),
                                                  at.object<double>(divided), at[dpoint], at[dx],
                                                  accumulate});
               });
    CHECK(points.read<double>(divided, 0) == points.read<double>(divided, 1));
  }
}

void attention(Backend& tested, DType dtype, SizeSource& sizes) {
  for (int round = 0; round < 4 * kRounds; ++round) {
    AttentionArgs given;
    AttentionBackwardArgs flags;
    AttentionShape& shape = given.shape;
    given.dtype = dtype;
    shape.batch = sizes.small(), shape.heads = sizes.small();
    shape.queries = round % 8 == 7 ? sizes.large() : sizes.any();
    shape.keys = round % 8 == 5 ? sizes.large() : sizes.any();
    shape.head_dim = sizes.pick({1, 3, 8, 17, 32, 64});
    given.scale = 1 / std::sqrt(double(shape.head_dim));
    given.causal = sizes.flip();
    given.query_offset = sizes.pick({0, 0, 1, 5});
    const int64_t pairs = shape.batch * shape.heads;
    const int64_t q_size = pairs * shape.queries * shape.head_dim;
    const int64_t k_size = pairs * shape.keys * shape.head_dim;
    Parity parity(tested, dtype);
    const auto state = parity.object(training_state());
    const auto query = parity.random(q_size, -2, 2), key = parity.random(k_size, -2, 2);
    const auto value = parity.random(k_size), dout = parity.random(q_size);
    const auto out = parity.output(q_size), log_sum_exp = parity.output(pairs * shape.queries);
    const auto mask =
        sizes.flip() ? parity.random_integers(shape.batch * shape.keys, 0, 1) : Parity::kNone;
    auto row_scale = Parity::kNone, table = Parity::kNone, dense = Parity::kNone;
    auto position_q = Parity::kNone, position_k = Parity::kNone;
    if (sizes.flip()) {
      given.row_scale_batches = sizes.flip() ? 1 : shape.batch;
      row_scale = parity.random(given.row_scale_batches * shape.queries, 0.5, 2);
    }
    if (sizes.flip()) {
      given.reach = std::max(given.query_offset + shape.queries, shape.keys) + 1;
      if (sizes.flip()) {
        given.reach = 40;
        given.position_batches = sizes.flip() ? 1 : shape.batch;
        position_q = parity.random_integers(given.position_batches * shape.queries, 0, 39);
        position_k = parity.random_integers(given.position_batches * shape.keys, 0, 39);
      }
      table = parity.random(shape.heads * (2 * given.reach - 1));
    }
    if (sizes.flip()) {
      given.dense_batches = sizes.flip() ? 1 : shape.batch;
      dense = parity.random(given.dense_batches * shape.heads * shape.queries * shape.keys);
    }
    const bool drop = sizes.flip();
    flags.accumulate_dquery = sizes.flip(), flags.accumulate_dkey = sizes.flip();
    flags.accumulate_dvalue = sizes.flip(), flags.accumulate_dbias_table = sizes.flip();
    flags.accumulate_dbias_dense = sizes.flip();
    const bool all = round % 4 != 3;  // else some are not wanted
    const auto maybe = [&](bool possible, int64_t size, bool accumulate) {
      return possible && (all || sizes.flip()) ? parity.output(size, accumulate) : Parity::kNone;
    };
    const auto dquery = maybe(true, q_size, flags.accumulate_dquery);
    const auto dkey = maybe(true, k_size, flags.accumulate_dkey);
    const auto dvalue = maybe(true, k_size, flags.accumulate_dvalue);
    const auto dtable = maybe(table != Parity::kNone, shape.heads * (2 * given.reach - 1),
                              flags.accumulate_dbias_table);
    const auto ddense = maybe(dense != Parity::kNone,
                              given.dense_batches * shape.heads * shape.queries * shape.keys,
                              flags.accumulate_dbias_dense);
    const std::string what = fmt::format(
        "attention {}x{}x{}x{} width {} causal {} offset {} mask {} rows {} table {} positions {} "
        "dense {} dropout {}",
        shape.batch, shape.heads, shape.queries, shape.keys, shape.head_dim, given.causal,
        given.query_offset, mask != Parity::kNone, row_scale != Parity::kNone,
        table != Parity::kNone, position_q != Parity::kNone, dense != Parity::kNone, drop);
    parity.run(what, [&](Backend& backend, const Parity::Side& at) {
      AttentionArgs args = given;
      args.query = at[query], args.key = at[key], args.value = at[value];
      args.row_scale = at[row_scale], args.key_mask = at.ints(mask);
      args.bias_table = at[table], args.bias_dense = at[dense];
      args.position_q = at.ints(position_q), args.position_k = at.ints(position_k);
      args.dropout = dropout_spec(at.object<StepState>(state), drop);
      args.out = at[out], args.log_sum_exp = at[log_sum_exp];
      backend.attention(args);
      AttentionBackwardArgs back = flags;
      back.forward = args;
      back.dout = at[dout];
      back.dquery = at[dquery], back.dkey = at[dkey], back.dvalue = at[dvalue];
      back.dbias_table = at[dtable], back.dbias_dense = at[ddense];
      backend.attention_backward(back);
    });
  }
}

void optimizer(Backend& tested, DType dtype, SizeSource& sizes) {
  for (int round = 0; round < kRounds; ++round) {
    const int64_t n = round == 0 ? 0 : sizes.some() * sizes.some();
    Parity parity(tested, dtype);
    StepState step = training_state();
    if (round == 2) step.target_count = 0;  // nothing counted: the step is skipped
    const auto state = parity.object(step), update = parity.object(UpdateState{});
    const auto gradient = parity.floats([&] {
      std::vector<double> values(size_t(n), 0.125);
      for (size_t i = 0; i < values.size(); ++i) values[i] *= double(i % 7) - 2.5;
      if (round == 3 && n > 0) values.back() = INFINITY;  // not finite: skipped
      return values;
    }());
    const auto parameter = parity.random(n);
    const auto first = parity.random(n, -0.1, 0.1), second = parity.random(n, 0.1, 0.2);
    const bool coupled = sizes.flip();
    const double max_norm = sizes.flip() ? 0 : 0.5;
    parity.run(fmt::format("clip, adam {} coupled {} clip {}", n, coupled, max_norm),
               [&](Backend& backend, const Parity::Side& at) {
                 for (int i = 0; i < 2; ++i) {
                   backend.clip({dtype, n, at[gradient], max_norm, at.object<StepState>(state),
                                 at.object<UpdateState>(update)});
                   AdamArgs args;
                   args.dtype = dtype, args.n = n, args.decayed = n / 2;
                   args.parameter = at[parameter], args.gradient = at[gradient];
                   args.first_moment = at[first], args.second_moment = at[second];
                   args.weight_decay = 0.1, args.coupled = coupled;
                   args.state = at.object<StepState>(state);
                   args.update = at.object<UpdateState>(update);
                   backend.adam(args);
                 }
               });
    const auto want = parity.read<UpdateState>(update, 0),
               got = parity.read<UpdateState>(update, 1);
    CHECK(got.adam_step == want.adam_step);
    CHECK(got.skipped_steps == want.skipped_steps);
    CHECK(got.skip == want.skip);
    CHECK(std::abs(got.scale - want.scale) <= 1e-6f);
  }
}

}  // namespace

void parity_of_fused_methods(Backend& tested, DType dtype, SizeSource& sizes) {
  dropout(tested, dtype, sizes);
  norm(tested, dtype, sizes);
  tables(tested, dtype, sizes);
  losses(tested, dtype, sizes);
  attention(tested, dtype, sizes);
  optimizer(tested, dtype, sizes);
}

}  // namespace longshot::testing
