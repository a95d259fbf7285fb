// Attention against the definition, row by row in double precision; gradients against central
// differences of that definition; fully masked rows; dropout with given numbers; equal bits for any
// number of threads; and a bound on memory.
#include "core/cpu/attention.h"

#include <cmath>
#include <cstring>
#include <vector>

#include "core/cpu/pages.h"
#include "core/cpu/scratch.h"
#include "core/error.h"
#include "core/parallel.h"
#include "tests/catch.h"
#include "tests/core/cpu/kernel_test.h"

namespace longshot::cpu {
namespace {

constexpr double kScale = 0.37, kRelativeScale = 0.59;

enum class Positions { none, contiguous, scattered };

struct Case {
  int64_t batch = 2, heads = 2, queries = 5, keys = 5, dim = 3;
  bool causal = false;
  int64_t offset = 0;
  bool mask = false;
  int64_t scale_batches = 0;  // 0: no row scale
  bool table = false;
  Positions positions = Positions::none;
  int64_t position_batches = 1;
  int64_t dense_batches = 0;  // 0: no dense bias
  float dropout = 0;
  bool relative = false, pairs = false;  // relative keys, by distance or by pair
  int64_t relative_heads = 1;
  bool relative_bias = false;

  int64_t relative_reach() const { return queries + keys + std::abs(offset) + 1; }
  int64_t relative_rows() const { return pairs ? queries * keys : 2 * relative_reach() - 1; }
};

struct Inputs {
  std::vector<double> query, key, value, row_scale, table, dense, relative, relative_bias, dout;
  std::vector<int32_t> mask, position_q, position_k;
  int64_t reach = 0;
  StepState state;
};

std::vector<double> random_values(int64_t n, uint32_t stream, double low = -1, double high = 1) {
  RandomSequence random(RandomKey{.seed = 11, .stream = stream});
  std::vector<double> values(static_cast<size_t>(n));
  // Rounded to f32 so that both scalar types see the same inputs.
  for (double& value : values) value = float(low + (high - low) * random.uniform());
  return values;
}

Inputs make_inputs(const Case& c) {
  Inputs in;
  const int64_t matrices = c.batch * c.heads;
  in.query = random_values(matrices * c.queries * c.dim, 1, -2, 2);
  in.key = random_values(matrices * c.keys * c.dim, 2, -2, 2);
  in.value = random_values(matrices * c.keys * c.dim, 3);
  in.dout = random_values(c.batch * c.queries * c.heads * c.dim, 4);
  in.row_scale = random_values(c.scale_batches * c.queries, 5, 0.5, 1.5);
  in.dense = random_values(c.dense_batches * c.heads * c.queries * c.keys, 6);
  if (c.relative) in.relative = random_values(c.relative_heads * c.relative_rows() * c.dim, 8);
  if (c.relative_bias) in.relative_bias = random_values(c.heads * c.dim, 9);
  RandomSequence random(RandomKey{.seed = 12});
  if (c.mask) {
    for (int64_t i = 0; i < c.batch * c.keys; ++i) in.mask.push_back(random.uniform() < 0.7);
    for (int64_t j = 0; j < c.keys; ++j) in.mask[size_t(j)] = 0;  // the first sample sees nothing
  }
  in.reach = c.queries + c.keys + std::abs(c.offset);
  if (c.positions != Positions::none) {
    for (int64_t b = 0; b < c.position_batches; ++b)
      for (int side = 0; side < 2; ++side) {
        auto& list = side == 0 ? in.position_q : in.position_k;
        int32_t at = int32_t(random.below(5)) + (side == 0 ? int32_t(c.offset) : 0);
        for (int64_t i = 0; i < (side == 0 ? c.queries : c.keys); ++i) {
          list.push_back(at);
          at += c.positions == Positions::contiguous ? 1 : 1 + int32_t(random.below(3));
        }
      }
    in.reach = 4 * (c.queries + c.keys) + 8 + std::abs(c.offset);
  }
  if (c.table) in.table = random_values(c.heads * (2 * in.reach - 1), 7);
  in.state = StepState{.seed = 99, .step = 7, .training = 1, .sample_offset = 3};
  return in;
}

double multiplier(const Case& c, const Inputs& in, int64_t element) {
  if (c.dropout == 0) return 1;
  const RandomKey key{in.state.seed, RandomPurpose::dropout, 21, in.state.step};
  const int64_t per_sample = c.heads * c.queries * c.keys;
  const uint64_t index = uint64_t(element + in.state.sample_offset * per_sample);
  return to_unit_float(random_word(key, index)) >= c.dropout ? 1 / (1 - double(c.dropout)) : 0;
}

// The definition.
struct Naive {
  std::vector<double> out, log_sum_exp;
};
Naive naive_attention(const Case& c, const Inputs& in, double scale) {
  Naive r;
  r.out.assign(size_t(c.batch * c.queries * c.heads * c.dim), 0);
  r.log_sum_exp.assign(size_t(c.batch * c.heads * c.queries), -INFINITY);
  for (int64_t b = 0; b < c.batch; ++b)
    for (int64_t h = 0; h < c.heads; ++h)
      for (int64_t i = 0; i < c.queries; ++i) {
        const int64_t m = b * c.heads + h;
        std::vector<double> logit(size_t(c.keys), -INFINITY);
        double top = -INFINITY;
        for (int64_t j = 0; j < c.keys; ++j) {
          if (c.mask && in.mask[size_t(b * c.keys + j)] == 0) continue;
          if (c.causal && j > c.offset + i) continue;
          double dot = 0;
          for (int64_t d = 0; d < c.dim; ++d)
            dot += in.query[size_t((m * c.queries + i) * c.dim + d)] *
                   in.key[size_t((m * c.keys + j) * c.dim + d)];
          double s = scale * dot;
          if (c.scale_batches > 0)
            s *= in.row_scale[size_t((c.scale_batches == 1 ? 0 : b) * c.queries + i)];
          if (c.table) {
            int64_t distance = j - (c.offset + i);
            if (c.positions != Positions::none) {
              const int64_t pb = c.position_batches == 1 ? 0 : b;
              distance = in.position_k[size_t(pb * c.keys + j)] -
                         in.position_q[size_t(pb * c.queries + i)];
            }
            s += in.table[size_t(h * (2 * in.reach - 1) + in.reach - 1 + distance)];
          }
          if (c.relative) {
            const int64_t row =
                c.pairs ? i * c.keys + j : c.relative_reach() - 1 + j - c.offset - i;
            const int64_t group = c.relative_heads == 1 ? 0 : h;
            for (int64_t d = 0; d < c.dim; ++d) {
              double w = in.query[size_t((m * c.queries + i) * c.dim + d)];
              if (c.relative_bias) w += in.relative_bias[size_t(h * c.dim + d)];
              if (c.scale_batches > 0)
                w *= in.row_scale[size_t((c.scale_batches == 1 ? 0 : b) * c.queries + i)];
              s += kRelativeScale * w *
                   in.relative[size_t((group * c.relative_rows() + row) * c.dim + d)];
            }
          }
          if (c.dense_batches > 0)
            s += in.dense[size_t(
                (((c.dense_batches == 1 ? 0 : b) * c.heads + h) * c.queries + i) * c.keys + j)];
          logit[size_t(j)] = s;
          top = std::max(top, s);
        }
        if (top == -INFINITY) continue;
        double sum = 0;
        for (double s : logit) sum += std::exp(s - top);
        r.log_sum_exp[size_t(m * c.queries + i)] = top + std::log(sum);
        for (int64_t j = 0; j < c.keys; ++j) {
          const double p = std::exp(logit[size_t(j)] - top) / sum *
                           multiplier(c, in, (m * c.queries + i) * c.keys + j);
          for (int64_t d = 0; d < c.dim; ++d)
            r.out[size_t(((b * c.queries + i) * c.heads + h) * c.dim + d)] +=
                p * in.value[size_t((m * c.keys + j) * c.dim + d)];
        }
      }
  return r;
}

template <class T>
struct Outputs {
  std::vector<T> out, log_sum_exp, dquery, dkey, dvalue, dtable, ddense, drelative, drelative_bias;
};

// `initial`: gradients are added to this value when not 0.
template <class T>
Outputs<T> run(const Case& c, const Inputs& in, double initial = 0, bool backward = true) {
  const auto convert = [](const std::vector<double>& x) {
    return std::vector<T>(x.begin(), x.end());
  };
  const auto query = convert(in.query), key = convert(in.key), value = convert(in.value);
  const auto row_scale = convert(in.row_scale), table = convert(in.table);
  const auto dense = convert(in.dense), dout = convert(in.dout);
  const auto relative = convert(in.relative), relative_bias = convert(in.relative_bias);
  Outputs<T> r;
  r.out.assign(size_t(c.batch * c.queries * c.heads * c.dim), T(NAN));
  r.log_sum_exp.assign(size_t(c.batch * c.heads * c.queries), T(NAN));
  AttentionBackwardArgs args;
  AttentionArgs& f = args.forward;
  f.dtype = dtype_of<T>();
  f.shape = {c.batch, c.heads, c.queries, c.keys, c.dim};
  f.query = query.data(), f.key = key.data(), f.value = value.data();
  f.scale = kScale;
  if (c.scale_batches > 0) f.row_scale = row_scale.data(), f.row_scale_batches = c.scale_batches;
  if (c.mask) f.key_mask = in.mask.data();
  f.causal = c.causal, f.query_offset = c.offset;
  if (c.table) f.bias_table = table.data(), f.reach = in.reach;
  if (c.positions != Positions::none) {
    f.position_q = in.position_q.data(), f.position_k = in.position_k.data();
    f.position_batches = c.position_batches;
  }
  if (c.dense_batches > 0) f.bias_dense = dense.data(), f.dense_batches = c.dense_batches;
  if (c.relative) {
    f.relative_key = relative.data(), f.relative_heads = c.relative_heads;
    f.relative_reach = c.pairs ? 0 : c.relative_reach();
    f.relative_scale = kRelativeScale;
    if (c.relative_bias) f.relative_bias = relative_bias.data();
  }
  f.dropout = {c.dropout, 21, c.heads * c.queries * c.keys, &in.state};
  f.out = r.out.data(), f.log_sum_exp = r.log_sum_exp.data();
  testing::call_kernel(&Backend::attention, f);
  if (!backward) return r;
  const T first = initial == 0 ? T(NAN) : T(initial);
  r.dquery.assign(query.size(), first), r.dkey.assign(key.size(), first);
  r.dvalue.assign(value.size(), first), r.dtable.assign(table.size(), first);
  r.ddense.assign(dense.size(), first);
  r.drelative.assign(relative.size(), first);
  r.drelative_bias.assign(relative_bias.size(), first);
  args.dout = dout.data();
  args.dquery = r.dquery.data(), args.dkey = r.dkey.data(), args.dvalue = r.dvalue.data();
  if (c.table) args.dbias_table = r.dtable.data();
  if (c.dense_batches > 0) args.dbias_dense = r.ddense.data();
  if (c.relative) args.drelative_key = r.drelative.data();
  if (c.relative_bias) args.drelative_bias = r.drelative_bias.data();
  args.accumulate_drelative_key = args.accumulate_drelative_bias = initial != 0;
  args.accumulate_dquery = args.accumulate_dkey = args.accumulate_dvalue = initial != 0;
  args.accumulate_dbias_table = args.accumulate_dbias_dense = initial != 0;
  testing::call_kernel(&Backend::attention_backward, args);
  return r;
}

template <class A, class B>
double difference(const std::vector<A>& a, const std::vector<B>& b, double shift = 0) {
  if (a.size() != b.size()) return INFINITY;
  double worst = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double x = double(a[i]) - shift, y = double(b[i]);
    if (x == y) continue;  // equal infinities
    const double d = std::abs(x - y);
    worst = d <= 1e300 ? std::max(worst, d) : INFINITY;  // a NaN is infinitely wrong
  }
  return worst;
}

double loss(const Case& c, const Inputs& in) {
  const Naive r = naive_attention(c, in, kScale);
  double sum = 0;
  for (size_t i = 0; i < r.out.size(); ++i) sum += r.out[i] * in.dout[i];
  return sum;
}

void check_gradient(const Case& c, Inputs in, std::vector<double> Inputs::*input,
                    const std::vector<double>& gradient, const char* name) {
  const size_t n = (in.*input).size();
  REQUIRE(gradient.size() == n);
  const size_t probes = std::min<size_t>(n, 7);
  for (size_t probe = 0; probe < probes; ++probe) {
    const size_t i = n <= 7 ? probe : (probe * 2654435761u + 17) % n;
    double& x = (in.*input)[i];
    const double before = x, step = 1e-4;
    const auto at = [&](double shift) {
      x = before + shift;
      const double l = loss(c, in);
      x = before;
      return l;
    };
    // Fourth order: error about step^4 / 30 times the fifth derivative.
    const double slope =
        (8 * (at(step) - at(-step)) - (at(2 * step) - at(-2 * step))) / (12 * step);
    CAPTURE(name, i, n);
    CHECK(gradient[i] == Approx(slope).margin(2e-9).epsilon(1e-7));
  }
}

void check_case(const Case& c) {
  CAPTURE(c.batch, c.heads, c.queries, c.keys, c.dim, c.causal, c.offset, c.mask, c.scale_batches);
  CAPTURE(c.relative, c.pairs, c.relative_heads, c.relative_bias);
  CAPTURE(c.table, int(c.positions), c.position_batches, c.dense_batches, c.dropout);
  const Inputs in = make_inputs(c);
  const Naive expected = naive_attention(c, in, kScale);
  const auto exact = run<double>(c, in);
  CHECK(difference(exact.out, expected.out) < 1e-13);
  CHECK(difference(exact.log_sum_exp, expected.log_sum_exp) < 1e-13);
  const auto single = run<float>(c, in);
  CHECK(difference(single.out, expected.out) < 2e-5);
  CHECK(difference(single.log_sum_exp, expected.log_sum_exp) < 2e-5);
  const double bound = 1e-4 * (1 + std::sqrt(double(c.batch * c.queries)));
  CHECK(difference(single.dquery, exact.dquery) < bound);
  CHECK(difference(single.dkey, exact.dkey) < bound);
  CHECK(difference(single.dvalue, exact.dvalue) < bound);
  CHECK(difference(single.dtable, exact.dtable) < bound);
  CHECK(difference(single.ddense, exact.ddense) < bound);
  CHECK(difference(single.drelative, exact.drelative) < bound);
  CHECK(difference(single.drelative_bias, exact.drelative_bias) < bound);
  const auto added = run<double>(c, in, 1.5);
  CHECK(difference(added.dquery, exact.dquery, 1.5) < 1e-12);
  CHECK(difference(added.dkey, exact.dkey, 1.5) < 1e-12);
  CHECK(difference(added.dvalue, exact.dvalue, 1.5) < 1e-12);
  CHECK(difference(added.dtable, exact.dtable, 1.5) < 1e-12);
  CHECK(difference(added.ddense, exact.ddense, 1.5) < 1e-12);
  CHECK(difference(added.drelative, exact.drelative, 1.5) < 1e-12);
  CHECK(difference(added.drelative_bias, exact.drelative_bias, 1.5) < 1e-12);

  check_gradient(c, in, &Inputs::query, exact.dquery, "query");
  check_gradient(c, in, &Inputs::key, exact.dkey, "key");
  check_gradient(c, in, &Inputs::value, exact.dvalue, "value");
  check_gradient(c, in, &Inputs::table, exact.dtable, "table");
  check_gradient(c, in, &Inputs::dense, exact.ddense, "dense");
  check_gradient(c, in, &Inputs::relative, exact.drelative, "relative keys");
  check_gradient(c, in, &Inputs::relative_bias, exact.drelative_bias, "relative bias");
}

// Relative keys are for backends that have them in the kernel.
bool takes(const Case& c) {
  return !c.relative || testing::backend_for(DType::f32).fuses_relative_keys();
}

TEST_CASE("attention: hand-worked case", "[attention]") {
  // One query, two keys, logits ln 1 = 0 and ln 3: probabilities 1/4 and 3/4.
  const double query[] = {1}, key[] = {0, std::log(3.0)}, value[] = {8, 4};
  double out = 0, log_sum = 0;
  AttentionArgs a;
  a.dtype = DType::f64;
  a.shape = {1, 1, 1, 2, 1};
  a.query = query, a.key = key, a.value = value, a.out = &out, a.log_sum_exp = &log_sum;
  testing::call_kernel(&Backend::attention, a);
  CHECK(out == Approx(5).epsilon(1e-15));
  CHECK(log_sum == Approx(std::log(4.0)).epsilon(1e-15));
  a.causal = true;  // the query is position 0: sees the first key only
  testing::call_kernel(&Backend::attention, a);
  CHECK(out == 8);
  CHECK(log_sum == 0);
}

TEST_CASE("attention: odd shapes", "[attention]") {
  for (int64_t dim : {1, 3, 8, 16, 17, 32, 67})
    for (int64_t queries : {1, 7, 17, 40})
      check_case({.queries = queries, .keys = 41 - queries, .dim = dim});
  check_case({.batch = 1, .heads = 1, .queries = 1, .keys = 1, .dim = 1});
  check_case({.batch = 3, .heads = 5, .queries = 40, .keys = 40, .dim = 8});
  check_case({.batch = 1, .heads = 3, .queries = 80, .keys = 80, .dim = 8});
  check_case({.batch = 1, .heads = 1, .queries = 131, .keys = 277, .dim = 5});  // ragged both ways
}

TEST_CASE("attention: masks, scales, biases", "[attention]") {
  for (int64_t length : {13, 70, 150}) {
    const int64_t dim = length == 70 ? 8 : 5;
    const Case base{.queries = length, .keys = length, .dim = dim};
    auto with = [&](auto change) {
      Case c = base;
      change(c);
      check_case(c);
    };
    with([](Case& c) { c.causal = true; });
    with([](Case& c) { c.mask = true; });
    with([](Case& c) { c.causal = c.mask = true, c.queries = 9, c.offset = c.keys - 9; });
    with([](Case& c) { c.causal = true, c.keys = 3; });
    with([](Case& c) { c.causal = true, c.offset = -4; });  // the first rows see nothing
    with([](Case& c) { c.scale_batches = 1; });
    with([](Case& c) { c.scale_batches = 2, c.mask = true; });
    with([](Case& c) { c.table = true; });
    with([](Case& c) { c.table = c.causal = true, c.queries = 11, c.offset = c.keys - 11; });
    with([](Case& c) {
      c.table = c.mask = true, c.positions = Positions::contiguous, c.position_batches = 2;
    });
    with([](Case& c) { c.table = true, c.positions = Positions::scattered; });
    with([](Case& c) {
      c.table = c.causal = true, c.positions = Positions::scattered, c.position_batches = 2;
    });
    with([](Case& c) { c.dense_batches = 1, c.batch = 3; });
    with([](Case& c) { c.dense_batches = 2, c.mask = c.causal = true; });
    with([](Case& c) { c.dense_batches = 1, c.table = true, c.scale_batches = 1, c.mask = true; });
  }
}

// CUDA composes them (tests/core/ops/attention_test.cpp).
TEST_CASE("attention: relative keys by distance and by pair", "[cpu][attention]") {
  for (const bool pairs : {false, true})
    for (const int64_t heads : {1, 3}) {
      const Case base{.batch = 2,
                      .heads = 3,
                      .relative = true,
                      .pairs = pairs,
                      .relative_heads = heads,
                      .relative_bias = heads == 3};
      auto with = [&](int64_t queries, int64_t keys, int64_t dim, auto change) {
        Case c = base;
        c.queries = queries, c.keys = keys, c.dim = dim;
        change(c);
        check_case(c);
      };
      const auto alone = [](Case&) {};
      with(1, 1, 1, alone);
      with(5, 9, 3, alone);
      with(40, 40, 8, alone);
      with(17, 33, 16, alone);
      with(70, 131, 5, alone);  // two ragged blocks each way
      with(40, 40, 8, [](Case& c) { c.mask = true, c.dropout = 0.25f; });
      with(9, 30, 17, [](Case& c) { c.causal = true, c.offset = 21; });
      with(40, 7, 8, [](Case& c) { c.table = true, c.scale_batches = c.batch = 5; });
      with(19, 21, 4, [](Case& c) { c.dense_batches = 1, c.batch = 35; });
    }
}

TEST_CASE("attention: dropout draws the documented elements", "[attention]") {
  for (int64_t keys : {4, 5, 40, 131})
    for (int64_t queries : {3, 40}) {
      check_case({.queries = queries, .keys = keys, .dim = 8, .dropout = 0.25f});
      check_case({.queries = queries,
                  .keys = keys,
                  .dim = 3,
                  .causal = true,
                  .table = true,
                  .dropout = 0.5f});
    }
  // Not training: as without dropout.
  Case c{.queries = 9, .keys = 9, .dim = 4, .dropout = 0.5f};
  Inputs in = make_inputs(c);
  in.state.training = 0;
  const auto evaluated = run<float>(c, in);
  c.dropout = 0;
  const auto plain = run<float>(c, in);
  CHECK(difference(evaluated.out, plain.out) == 0);
  CHECK(difference(evaluated.dkey, plain.dkey) == 0);
}

TEST_CASE("attention: a fully masked sample gives zeros and finite gradients", "[attention]") {
  const Case c{
      .queries = 70, .keys = 70, .dim = 8, .mask = true, .table = true, .dense_batches = 2};
  const auto r = run<float>(c, make_inputs(c));
  const size_t half = r.out.size() / 2;
  for (size_t i = 0; i < half; ++i) {
    CHECK(r.out[i] == 0);
    CHECK(r.dquery[i] == 0);
    CHECK(r.dkey[i] == 0);
    CHECK(r.dvalue[i] == 0);
  }
  for (size_t i = 0; i < r.log_sum_exp.size() / 2; ++i) CHECK(r.log_sum_exp[i] == -INFINITY);
  for (size_t i = 0; i < r.ddense.size() / 2; ++i) CHECK(r.ddense[i] == 0);
}

TEST_CASE("attention: large logits do not overflow", "[attention]") {
  const Case c{.batch = 1, .heads = 1, .queries = 3, .keys = 200, .dim = 2};
  Inputs in = make_inputs(c);
  for (double& x : in.query) x *= 1000;
  const auto r = run<float>(c, in);
  const Naive expected = naive_attention(c, in, kScale);
  CHECK(difference(r.out, expected.out) < 1e-3);
  for (float x : r.dquery) CHECK(std::isfinite(x));
}

TEST_CASE("attention: empty extents", "[attention]") {
  for (const Case& c : {Case{.batch = 0}, Case{.heads = 0}, Case{.queries = 0}, Case{.keys = 0},
                        Case{.dim = 0}, Case{.keys = 0, .relative = true, .relative_bias = true},
                        Case{.queries = 0, .relative = true, .relative_bias = true},
                        Case{.batch = 0, .relative = true, .pairs = true}}) {
    if (!takes(c)) continue;
    const auto r = run<float>(c, make_inputs(c));
    for (float x : r.drelative) CHECK(x == 0);
    for (float x : r.drelative_bias) CHECK(x == 0);
    for (float x : r.out) CHECK(x == 0);
    for (float x : r.dkey) CHECK(x == 0);
    for (float x : r.dquery) CHECK(x == 0);
  }
}

TEST_CASE("attention: bits do not depend on the number of threads", "[attention]") {
  for (const Case& c : {Case{.batch = 3,
                       .heads = 3,
                       .queries = 150,
                       .keys = 141,
                       .dim = 16,
                       .mask = true,
                       .table = true,
                       .dropout = 0.1f},
                        Case{.batch = 3,
                        .heads = 2,
                        .queries = 37,
                        .keys = 150,
                        .dim = 8,
                        .causal = true,
                        .offset = 100,
                        .dense_batches = 1},
                        Case{.batch = 16, .heads = 8, .queries = 40, .keys = 40, .dim = 8},
                        Case{.batch = 35,
                        .heads = 2,
                        .queries = 40,
                        .keys = 40,
                        .dim = 8,
                        .relative = true,
                        .relative_heads = 2,
                        .relative_bias = true},
                        Case{.batch = 35,
                        .heads = 3,
                        .queries = 19,
                        .keys = 21,
                        .dim = 8,
                        .dense_batches = 1,
                        .relative = true,
                        .pairs = true}}) {
    if (!takes(c)) continue;
    const Inputs in = make_inputs(c);
    set_threads(1);
    const auto one = run<float>(c, in);
    for (int n : {2, 3, 4}) {
      set_threads(n);
      const auto many = run<float>(c, in);
      test::expect_same_bits(one.out, many.out, "out");
      test::expect_same_bits(one.log_sum_exp, many.log_sum_exp, "log_sum_exp");
      test::expect_same_bits(one.dquery, many.dquery, "dquery");
      test::expect_same_bits(one.dkey, many.dkey, "dkey");
      test::expect_same_bits(one.dvalue, many.dvalue, "dvalue");
      test::expect_same_bits(one.dtable, many.dtable, "dtable");
      test::expect_same_bits(one.ddense, many.ddense, "ddense");
      test::expect_same_bits(one.drelative, many.drelative, "drelative");
      test::expect_same_bits(one.drelative_bias, many.drelative_bias, "drelative_bias");
    }
    set_threads(0);
  }
}

TEST_CASE("attention: forward memory does not grow with the length", "[cpu][attention]") {
  set_threads(1);
  release_scratch();
  Case c{.batch = 1, .heads = 1, .queries = 4096, .keys = 4096, .dim = 8};
  run<float>(c, make_inputs(c), 0, false);
  CHECK(scratch_bytes() <=
        int64_t(kHugePage));  // the smallest block there is; T x T would be 64 MiB
  set_threads(0);
}

TEST_CASE("attention refuses wrong use", "[cpu][attention]") {
  float x[64] = {};
  AttentionArgs a;
  a.shape = {1, 1, 4, 4, 2};
  a.query = a.key = a.value = x, a.out = x;
  a.bias_table = x, a.reach = 3;
  CHECK_THROWS_WITH(attention(a), ContainsSubstring("reach 3"));
  a.reach = 4;
  CHECK_NOTHROW(attention(a));
  const int32_t positions[] = {0, 1, 2, 9};
  a.position_q = positions;
  CHECK_THROWS_WITH(attention(a), ContainsSubstring("together"));
  a.position_k = positions;
  CHECK_THROWS_WITH(attention(a), ContainsSubstring("-9 to 9"));
  a.bias_table = nullptr;
  a.relative_key = x, a.relative_reach = 3;
  CHECK_THROWS_WITH(attention(a), ContainsSubstring("distances below 3"));
  a.relative_heads = 2;
  CHECK_THROWS_WITH(attention(a), ContainsSubstring("relative keys of 2 heads"));
  a.relative_key = nullptr;
  a.dropout.p = 0.5f;
  CHECK_THROWS_WITH(attention(a), ContainsSubstring("step state"));
  a.dropout.p = 1.0f;
  CHECK_THROWS_WITH(attention(a), ContainsSubstring("[0, 1)"));
  a.dropout.p = 0;
  a.value = nullptr;
  CHECK_THROWS_WITH(attention(a), ContainsSubstring("null"));
}

}  // namespace
}  // namespace longshot::cpu
