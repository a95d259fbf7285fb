// Streaming attention against the CPU backend: both bias forms, masks, causality, offsets, scales,
// dropout, and every width class of head_dim.
#include "tests/cuda/devices.h"

using namespace longshot;
using longshot::test::Devices;

namespace {

struct Case {
  const char* name;
  int64_t batch, heads, queries, keys, head_dim;
  bool causal = false, masked = false, row_scale = false;
  int64_t query_offset = 0;
  int table = 0;      // 0 none, 1 contiguous, 2 given positions, one for all, 3 one a sequence
  int64_t far = 3;    // how far a table at given positions reaches, in sequences
  int64_t dense = 0;  // 0 none, 1, or the batch
  float dropout = 0;
};

void compare(const Case& c, bool accumulate) {
  INFO(c.name << ", accumulate " << accumulate);
  Devices d;
  const int64_t q_elements = c.batch * c.heads * c.queries * c.head_dim;
  const int64_t k_elements = c.batch * c.heads * c.keys * c.head_dim;
  const int64_t reach =
      std::max(c.queries + c.query_offset, c.keys) * (c.table >= 2 ? c.far : 1) + 1;
  const int64_t position_batches = c.table == 3 ? c.batch : 1;
  const auto query = d.random(q_elements, -2, 2), key = d.random(k_elements, -2, 2);
  const auto value = d.random(k_elements), dout = d.random(q_elements);
  const auto row_scale = d.random(c.queries, 0.5, 2);
  std::vector<int32_t> mask(size_t(c.batch * c.keys), 1);
  for (int64_t i = 0; i < int64_t(mask.size()); ++i) mask[size_t(i)] = i % 3 != 1;
  if (c.masked) std::fill_n(mask.begin(), c.keys, 0);  // the first sequence has no key at all
  const auto key_mask = d.put(mask);
  // Positions with repetitions, so that several keys share a difference.
  const auto position_q = d.integers(position_batches * c.queries, 0, 2 * c.keys);
  const auto position_k = d.integers(position_batches * c.keys, 0, 2 * c.keys);
  const int64_t entries = c.heads * (2 * reach - 1);
  const int64_t dense = c.dense * c.heads * c.queries * c.keys;
  const auto table = d.random(entries), dense_bias = d.random(dense);
  StepState state;
  state.seed = 99;
  state.step = 3;
  state.training = 1;
  const auto step = d.put(std::vector<StepState>{state});
  const auto out = d.output(q_elements), lse = d.output(c.batch * c.heads * c.queries);
  const auto dquery = d.output(q_elements, accumulate), dkey = d.output(k_elements, accumulate);
  const auto dvalue = d.output(k_elements, accumulate);
  const auto dtable = d.output(entries, accumulate), ddense = d.output(dense, accumulate);
  d.run([&](Backend& b, int s) {
    AttentionBackwardArgs g;
    AttentionArgs& a = g.forward;
    a.shape = {c.batch, c.heads, c.queries, c.keys, c.head_dim};
    a.query = query[s];
    a.key = key[s];
    a.value = value[s];
    a.scale = 0.5;
    if (c.row_scale) a.row_scale = row_scale[s];
    if (c.masked) a.key_mask = key_mask.i(s);
    a.causal = c.causal;
    a.query_offset = c.query_offset;
    if (c.table) a.bias_table = table[s], a.reach = reach;
    if (c.table >= 2) {
      a.position_q = position_q.i(s);
      a.position_k = position_k.i(s);
      a.position_batches = position_batches;
    }
    if (c.dense) a.bias_dense = dense_bias[s], a.dense_batches = c.dense;
    if (c.dropout > 0) {
      a.dropout.p = c.dropout;
      a.dropout.stream = 4;
      a.dropout.elements_per_sample = c.heads * c.queries * c.keys;
      a.dropout.state = static_cast<const StepState*>(step[s]);
    }
    a.out = out[s];
    a.log_sum_exp = lse[s];
    b.attention(a);
    g.dout = dout[s];
    g.dquery = dquery[s];
    g.dkey = dkey[s];
    g.dvalue = dvalue[s];
    g.accumulate_dquery = g.accumulate_dkey = g.accumulate_dvalue = accumulate;
    g.accumulate_dbias_table = g.accumulate_dbias_dense = accumulate;
    if (c.table) g.dbias_table = dtable[s];
    if (c.dense) g.dbias_dense = ddense[s];
    b.attention_backward(g);
  });
  d.check(out, "out", 1e-4);
  d.check(lse, "log_sum_exp", 1e-4);
  d.check(dquery, "dquery", 3e-4);
  d.check(dkey, "dkey", 3e-4);
  d.check(dvalue, "dvalue", 3e-4);
  if (c.table) d.check(dtable, "dbias_table", 5e-4);
  if (c.dense) d.check(ddense, "dbias_dense", 3e-4);
}

}  // namespace

TEST_CASE("cuda: attention agrees with the CPU", "[cuda][attention]") {
  const Case cases[] = {
      {.name = "one pair", .batch = 1, .heads = 1, .queries = 1, .keys = 1, .head_dim = 1},
      {.name = "odd sizes", .batch = 2, .heads = 3, .queries = 5, .keys = 7, .head_dim = 5},
      {.name = "several tiles", .batch = 1, .heads = 2, .queries = 37, .keys = 70, .head_dim = 8},
      {.name = "causal",
       .batch = 1,
       .heads = 2,
       .queries = 40,
       .keys = 40,
       .head_dim = 8,
       .causal = true},
      {.name = "causal, offset",
       .batch = 1,
       .heads = 1,
       .queries = 9,
       .keys = 45,
       .head_dim = 6,
       .causal = true,
       .query_offset = 36},
      {.name = "masked",
       .batch = 3,
       .heads = 2,
       .queries = 6,
       .keys = 34,
       .head_dim = 8,
       .masked = true},
      {.name = "row scale",
       .batch = 2,
       .heads = 1,
       .queries = 34,
       .keys = 5,
       .head_dim = 8,
       .row_scale = true},
      {.name = "table",
       .batch = 2,
       .heads = 2,
       .queries = 35,
       .keys = 35,
       .head_dim = 8,
       .table = 1},
      {.name = "table, causal",
       .batch = 2,
       .heads = 2,
       .queries = 35,
       .keys = 35,
       .head_dim = 8,
       .causal = true,
       .row_scale = true,
       .table = 1},
      {.name = "table, positions",
       .batch = 2,
       .heads = 2,
       .queries = 20,
       .keys = 40,
       .head_dim = 8,
       .table = 2},
      // 3 tables of 200001 distances: two heads' sums fit the workspace at a time.
      {.name = "table, far too large for the workspace at once",
       .batch = 1,
       .heads = 3,
       .queries = 4,
       .keys = 5,
       .head_dim = 4,
       .table = 2,
       .far = 20000},
      {.name = "table, positions a sequence",
       .batch = 3,
       .heads = 1,
       .queries = 8,
       .keys = 40,
       .head_dim = 8,
       .masked = true,
       .table = 3},
      {.name = "dense",
       .batch = 3,
       .heads = 2,
       .queries = 9,
       .keys = 33,
       .head_dim = 8,
       .dense = 1},
      {.name = "dense a sequence",
       .batch = 3,
       .heads = 2,
       .queries = 9,
       .keys = 33,
       .head_dim = 8,
       .causal = true,
       .dense = 3},
      {.name = "both biases and dropout",
       .batch = 2,
       .heads = 2,
       .queries = 17,
       .keys = 17,
       .head_dim = 8,
       .masked = true,
       .table = 1,
       .dense = 1,
       .dropout = 0.3f},
      {.name = "head_dim 48",
       .batch = 1,
       .heads = 1,
       .queries = 33,
       .keys = 33,
       .head_dim = 48,
       .table = 1},
      {.name = "head_dim 100",
       .batch = 1,
       .heads = 1,
       .queries = 10,
       .keys = 33,
       .head_dim = 100,
       .dense = 1},
      {.name = "head_dim 200",
       .batch = 1,
       .heads = 1,
       .queries = 9,
       .keys = 33,
       .head_dim = 200,
       .causal = true},
      {.name = "no sequence", .batch = 0, .heads = 2, .queries = 3, .keys = 3, .head_dim = 4},
  };
  for (const Case& c : cases) compare(c, false);
  compare(cases[13], true);
}

TEST_CASE("cuda: attention gives equal bits when run twice", "[cuda][attention]") {
  Devices d;
  const int64_t batch = 2, heads = 2, length = 40, head_dim = 8, reach = 41;
  const int64_t n = batch * heads * length * head_dim;
  const auto query = d.random(n), key = d.random(n), value = d.random(n), dout = d.random(n);
  const auto table = d.random(heads * (2 * reach - 1));
  std::vector<std::vector<int32_t>> bits;
  for (int run = 0; run < 2; ++run) {
    const auto out = d.output(n), lse = d.output(batch * heads * length);
    const auto dquery = d.output(n), dkey = d.output(n), dvalue = d.output(n);
    const auto dtable = d.output(heads * (2 * reach - 1));
    AttentionBackwardArgs g;
    g.forward.shape = {batch, heads, length, length, head_dim};
    g.forward.query = query[1], g.forward.key = key[1], g.forward.value = value[1];
    g.forward.bias_table = table[1], g.forward.reach = reach;
    g.forward.out = out[1], g.forward.log_sum_exp = lse[1];
    g.dout = dout[1], g.dquery = dquery[1], g.dkey = dkey[1], g.dvalue = dvalue[1];
    g.dbias_table = dtable[1];
    d.other().attention(g.forward);
    d.other().attention_backward(g);
    std::vector<int32_t> all;
    for (const auto& buffer : {out, lse, dquery, dkey, dvalue, dtable}) {
      for (int32_t word : d.read<int32_t>(buffer, 1)) all.push_back(word);
    }
    bits.push_back(all);
  }
  CHECK(bits[0] == bits[1]);
}

TEST_CASE("cuda: a head_dim beyond the kernels' is refused in words", "[cuda][attention]") {
  Devices d;
  const auto x = d.random(300);
  AttentionArgs a;
  a.shape = {1, 1, 1, 1, 300};
  a.query = a.key = a.value = x[1];
  a.out = x[1];
  a.log_sum_exp = x[1];
  CHECK_THROWS_WITH(d.other().attention(a),
                    ContainsSubstring("head_dim is 300, the kernels take at most 256"));
}
